"""Where parts of a deployed store are moved, and what the next description says. No Ray."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import neverforget as nf
from neverforget.actors.message_bases import Request
from neverforget.actors.places import LONGTERM
from neverforget.runtime.deployed_channel import DeployedChannel, Moving
from neverforget.runtime.deployed_disk import describe, look, read_disk
from neverforget.runtime.deployed_replica import bring_back
from neverforget.runtime.deployment import (
    Description,
    Told,
    Where,
    described,
    read_plan,
    updated,
    where_of,
)
from neverforget.runtime.moving import (
    check_movable,
    checked_place,
    log_of,
    moved,
    newest,
    targets,
)
from neverforget.storage.errors import OwnerFenced, Unavailable
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.identity import check_identity
from neverforget.storage.shipping_object import TERM_MAX

STORE_ID = "11111111-2222-3333-4444-555555555555"
SETTINGS = {"partitions": 4, "embedder": "none", "replica": "s3://bucket"}


def made(*disks: str, **more: object) -> Description:
    _, plan = read_plan({"path": "/data", "settings": {**SETTINGS, **more}})
    found = described(plan, "s", STORE_ID, list(disks))
    return msgspec.structs.replace(found, state="made")


def test_a_place_is_a_partition_or_the_memories() -> None:
    assert [checked_place(p) for p in (0, "3", "memories")] == [0, 3, LONGTERM]
    assert [log_of(p) for p in (3, LONGTERM)] == ["partition-3", "longterm-0"]
    for wrong in (-1, "p0", True, None, 1.0, "-2", LONGTERM):
        with pytest.raises(nf.InvalidArgument, match="memories"):
            checked_place(wrong)


def test_a_part_goes_where_fewest_are_and_never_where_it_is() -> None:
    found = made("a", "b", "c")  # partitions: a b c a; memories: c
    assert found.places_of("c") == [2, LONGTERM]
    assert targets(found, [0], ["a", "b", "c"]) == {0: "b"}
    assert targets(found, [0, 3], ["b", "c", "d"]) == {0: "d", 3: "b"}
    assert targets(found, [1], ["a", "b"]) == {1: "a"}
    with pytest.raises(nf.Unavailable, match="no other node"):
        targets(found, [1], ["b"])


def test_the_next_description_has_it_elsewhere_in_a_higher_term() -> None:
    found = made("a", "b")
    after = moved(found, {0: "b", LONGTERM: "a"}, {0: 0, LONGTERM: 0})
    assert after.partitions == ("b", "b", "a", "b") and after.longterm == "a"
    assert (after.version, after.started) == (found.version + 1, found.started)
    assert after.moved == {0: 1, LONGTERM: 1}
    again = moved(after, {0: "a"}, {0: 7})  # somebody else was told meanwhile, and put a fence
    assert again.moved == {0: 8, LONGTERM: 1}
    assert moved(again, {0: "a"}, {0: 8}).moved[0] == 9  # the same disk: it takes it back
    with pytest.raises(nf.InvalidArgument, match="limit"):
        moved(found, {0: "b"}, {0: TERM_MAX})
    copy = msgspec.json.decode(msgspec.json.encode(again), type=Description)
    assert copy == again


def test_clients_are_sent_to_where_a_part_is_and_not_where_it_still_runs() -> None:
    found = made("a", "b")
    hosts = [
        Told("b", "serving", None, 2, {}, {0: "b/p0", 1: "b/p1"}),
        Told("a", "serving", None, 1, {}, {0: "a/p0", 2: "a/p2", LONGTERM: "a/lt0"}),
    ]
    nodes = {"a": ("1", "one"), "b": ("2", "two")}
    after = moved(found, {0: "b"}, {0: 0})
    told = where_of(after, nodes, hosts)
    assert told.sockets == {0: "b/p0", 1: "b/p1", 2: "a/p2"} and told.nodes == nodes
    assert where_of(after, nodes, hosts[1:]).sockets == {2: "a/p2"}


def test_only_what_is_shipped_can_be_moved() -> None:
    check_movable(made("a", "b"), 3)
    check_movable(made("a", "b"), LONGTERM)
    with pytest.raises(nf.InvalidArgument, match="0 to 3"):
        check_movable(made("a", "b"), 4)
    with pytest.raises(nf.InvalidArgument, match="no replica"):
        check_movable(made("a", "b", replica=None), 0)


def test_of_two_descriptions_of_one_version_the_same_one_counts_for_everybody() -> None:
    """Two keepers that did not know of each other: one saw disk a, the other disk b."""
    found = made("a", "b")
    one = moved(found, {0: "b"}, {0: 0})
    other = moved(found, {1: "a"}, {1: 0})
    assert one.version == other.version
    chosen = newest([found, one, other])
    assert chosen is not None and chosen == newest([other, one, one])
    assert chosen.version == one.version + 1
    assert chosen.partitions in (one.partitions, other.partitions)
    assert newest([found, one, one]) == one and newest([]) is None


def test_moves_and_who_may_do_them_start_no_owner_anew_and_settings_do() -> None:
    found = made("a", "b")
    plain = {"path": "/data", "settings": SETTINGS}
    _, auto = read_plan({**plain, "failover": "auto", "failover_after_s": 5})
    later = updated(found, auto)
    assert (later.failover, later.failover_after_s) == ("auto", 5)
    assert (later.version, later.started) == (found.version + 1, found.started)
    _, other = read_plan({**plain, "settings": {**SETTINGS, "sync_interval_ms": 50}})
    changed = updated(later, other)
    assert changed.failover == "manual" and changed.started == changed.version > later.version


@pytest.mark.parametrize(
    "wrong",
    [
        {"failover": "auto", "settings": {"partitions": 2}},
        {"failover": "always"},
        {"failover": "auto", "failover_after_s": 0.5},
    ],
)
def test_what_is_no_plan_of_a_failover_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(nf.InvalidArgument):
        read_plan({"path": "/data", "settings": SETTINGS, **wrong})


def test_a_new_disk_gets_room_for_what_is_moved_to_it_and_no_region(tmp_path: Path) -> None:
    disk = look(str(tmp_path / "d"))
    found = moved(made("a", "b"), {0: disk.disk, LONGTERM: disk.disk}, {0: 0, LONGTERM: 0})
    for _ in range(2):  # interrupted and repeated
        describe(disk.path, disk.disk, found)
    path = tmp_path / "d"
    assert read_disk(path).description == found
    assert not list((path / "regions").iterdir()) and not list((path / "longterm").iterdir())
    check_identity(LocalFileSystem(), path, store_id=STORE_ID, what="store")
    assert look(str(path)).holds == ()


def test_a_disk_says_what_it_holds_also_of_what_was_moved_away(tmp_path: Path) -> None:
    disk = look(str(tmp_path / "d"))
    found = msgspec.structs.replace(made(disk.disk), state="creating")
    describe(disk.path, disk.disk, found)
    away = moved(msgspec.structs.replace(found, state="made"), {1: "other"}, {1: 0})
    describe(disk.path, disk.disk, away)
    assert look(disk.path).holds == (0, 1, 2, 3, LONGTERM)
    (tmp_path / "d" / "regions" / "p1").rename(tmp_path / "d" / "regions" / "p1.salvaged-1")
    assert look(disk.path).holds == (0, 2, 3, LONGTERM)
    assert read_disk(tmp_path / "d").holds == (), "it is looked at, not kept"


def test_a_disk_that_was_not_told_of_a_move_is_not_taken_for_one_that_has_nothing_left(
    tmp_path: Path,
) -> None:
    """A host that did not answer kept its disk from being described. What was sent to bring back
    its part found the part at home, reported that all was done, and nobody came again."""
    disk = look(str(tmp_path / "d"))
    before = msgspec.structs.replace(made(disk.disk, "other"), version=1)
    describe(disk.path, disk.disk, before)
    after = moved(before, {0: "other"}, {0: 0})
    with pytest.raises(Unavailable, match="not told yet that partition 0 is elsewhere"):
        bring_back(disk.path, disk.disk, after, 0)
    home = moved(after, {0: disk.disk}, {0: 1})
    describe(disk.path, disk.disk, home)
    assert bring_back(disk.path, disk.disk, after, 0) is None, "it is here again"


# ---- a call that follows -------------------------------------------------------------------------


class Mutation(Request, tag=250):
    producer: int = 7
    producer_seq: int = 1


def test_what_one_owner_may_have_done_is_not_called_undone_by_the_next() -> None:
    """The first did not answer, the second could not be reached: nobody knows."""
    tries = Moving(Mutation(1), float("inf"))
    tries.failed(Unavailable("lost", outcome="unknown"), moved=True)
    with pytest.raises(Unavailable) as raised:
        tries.failed(Unavailable("nobody", outcome="not_applied"), moved=False)
    assert raised.value.outcome == "unknown"
    tries = Moving(Mutation(1), float("inf"))
    tries.failed(Unavailable("nobody", outcome="not_applied"), moved=True)
    with pytest.raises(Unavailable) as raised:
        tries.failed(Unavailable("nobody", outcome="not_applied"), moved=False)
    assert raised.value.outcome == "not_applied"


def test_a_fenced_owner_is_left_for_the_one_that_serves_if_there_is_one() -> None:
    tries = Moving(Mutation(1), float("inf"))
    tries.failed(OwnerFenced("another serves"), moved=True)
    with pytest.raises(Unavailable) as raised:
        tries.failed(Unavailable("nobody", outcome="not_applied"), moved=False)
    assert raised.value.outcome == "unknown", "it may have written before it knew"
    with pytest.raises(OwnerFenced):
        tries.failed(OwnerFenced("another serves"), moved=False)


def test_who_calls_a_part_that_is_away_is_told_so_and_what_to_do() -> None:
    """The memories' node had been lost, and all that recall said was "no owner 66fa…-lt0 on this
    Ray cluster"."""
    late = Unavailable("no answer", outcome="unknown", request_id="r-1")

    def told(place: int, nodes: dict[str, tuple[str, str]], **settings: object) -> Unavailable:
        channel = DeployedChannel(Where(description=made("a", "b", **settings), nodes=nodes))
        found = channel.explained(place, channel.way(place), late)
        assert isinstance(found, Unavailable)
        assert (found.outcome, found.request_id) == ("unknown", "r-1")
        return found

    there = {"b": ("node", "worker-2")}
    said = told(0, there).message
    assert "partition 0 is away" in said and said.endswith("or: neverforget failover s 0")
    assert told(1, there).message == "no answer"
    memories = told(LONGTERM, {"x": ("node", "worker-3")}).message
    assert "the memories are away" in memories and memories.endswith("failover s memories")
    assert "failover" not in told(0, there, replica=None).message, "there is no other way then"
    assert told(0, {}).message == "no answer", "nobody has told yet where anything is"


def test_who_was_fenced_asks_the_keeper_until_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A keeper that was starting again elsewhere did not answer for longer than one question
    waits: the call ended with OwnerFenced although it had time left and the part served."""
    from neverforget.runtime import deployed_cluster

    before = made("a", "b")
    after = msgspec.structs.replace(before, partitions=("b", *before.partitions[1:]), version=9)
    nodes = {"a": ("node-a", "one"), "b": ("node-b", "two")}
    silent = [1, 2]

    def ask(name: str, wait_s: float) -> Where:
        if silent:
            silent.pop()
            raise Unavailable("the keeper does not answer", outcome="unknown")
        return Where(description=after, nodes=nodes)

    monkeypatch.setattr(deployed_cluster, "ask_keeper", ask)
    channel = DeployedChannel(Where(description=before, nodes=nodes))
    fenced = OwnerFenced("another serves")
    assert channel.is_elsewhere(0, channel.way(0), fenced, float("inf"))
    assert not channel.is_elsewhere(0, channel.way(0), fenced, float("inf")), "it answers: no other"
    silent += [1, 2, 3]
    assert not channel.is_elsewhere(0, channel.way(0), fenced, 0.0), "the time is over"
