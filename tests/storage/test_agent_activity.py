"""Who appended what: the sums are those of the log, however it was counted, and what was erased is
nobody's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.storage import agent_activity
from neverforget.storage.region import Region
from tests.storage.small_region import Bench, Client, bench

Sums = dict[str, tuple[int, int]]


@pytest.fixture
def b(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path / "p0") as opened:
        yield opened


def counted(region: Region, namespace: tuple[str, ...] = ()) -> Sums:
    """agent -> (turns, sessions), after asking until everything is counted."""
    for _ in range(10_000):
        agents, more, counting = region.activity(namespace, None, 1_000)
        if not counting:
            assert not more
            return {one.agent: (one.turns, one.sessions) for one in agents}
    raise AssertionError("it never ends")


def say(client: Client, session: str, agent: str | None, turns: int = 1, **how: object) -> None:
    made = [{"content": f"turn {n}", "agent": agent} for n in range(turns)]
    client.say(session, *made, agent=agent, **how)


def test_turns_count_for_the_agent_that_each_one_names(b: Bench) -> None:
    say(b.client, "s", "ann", 3)
    say(b.client, "s", "bob", 2)
    say(b.client, "s", None, 4)
    say(b.client, "t", "ann")
    assert counted(b.region) == {"ann": (4, 2), "bob": (2, 1)}
    assert counted(b.reopen()) == {"ann": (4, 2), "bob": (2, 1)}
    assert counted(b.reopen(seal=True)) == {"ann": (4, 2), "bob": (2, 1)}


def test_a_region_without_any_record_has_nobody(b: Bench) -> None:
    """Its log ends behind a segment's header, where no record begins: that is no part to count, and
    who waited for the end of counting waited for ever.
    """
    assert counted(b.region) == {} == counted(b.reopen(seal=True))


def test_only_what_is_new_is_counted_later(b: Bench) -> None:
    say(b.client, "s", "ann", 3)
    assert counted(b.region) == {"ann": (3, 1)}
    say(b.client, "s", "ann", 2)
    say(b.client, "s", "bob")
    assert counted(b.region) == {"ann": (5, 1), "bob": (1, 1)}


def test_a_view_sees_its_namespace_and_what_is_below(b: Bench) -> None:
    say(b.client, "s", "ann", namespace=("a",))
    say(b.client, "s", "ann", namespace=("a", "x"))
    say(b.client, "s", "bob", namespace=("ab",))
    assert counted(b.region, ("a",)) == {"ann": (2, 2)}
    assert counted(b.region, ("a", "x")) == {"ann": (1, 1)}
    assert counted(b.region, ("ab",)) == {"bob": (1, 1)}
    assert counted(b.region, ("b",)) == {}
    assert counted(b.region) == {"ann": (2, 2), "bob": (1, 1)}


def test_a_log_is_counted_a_part_at_a_time(b: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many segments, with and without side files, in parts as small as a header."""
    for number in range(30):
        say(b.client, f"s{number}", f"agent-{number % 3}", 20)
    whole = counted(b.region)
    assert whole == {f"agent-{n}": (200, 10) for n in range(3)}
    for part_bytes in (64, 200, 1 << 12):
        monkeypatch.setattr(agent_activity, "_PART_BYTES", part_bytes)
        assert counted(b.reopen()) == whole
        assert counted(b.reopen(seal=True)) == whole
    b.region.activity((), None, 10)  # one part
    say(b.client, "late", "agent-0")
    assert counted(b.region)["agent-0"] == (201, 11)


def test_an_erased_session_takes_its_agents_with_it(b: Bench) -> None:
    say(b.client, "s", "ann", 3)
    say(b.client, "t", "bob", 2)
    assert counted(b.region) == {"ann": (3, 1), "bob": (2, 1)}
    b.client.erase("s")
    assert counted(b.region) == {"bob": (2, 1)}
    assert counted(b.reopen()) == {"bob": (2, 1)}


def test_erased_turns_are_nobodys(b: Bench) -> None:
    """Their bodies said whose they were: what is left is what a reopening would find."""
    say(b.client, "s", "ann", 5)
    before = b.region.activity((), None, 10)
    b.client.erase("s", [(3, 4)])
    assert counted(b.region) == {"ann": (3, 1)} == counted(b.reopen())
    b.client.erase("s", [(0, 2)])
    assert counted(b.region) == {"ann": (0, 1)} == counted(b.reopen())
    (one,), _, _ = b.region.activity((), None, 10)
    assert one.last_at is None and before[0][0].turns == 5


def test_hidden_turns_count(b: Bench) -> None:
    say(b.client, "s", "ann", 2)
    b.client.hide("s", (0, 0))
    assert counted(b.region) == {"ann": (2, 1)}


def test_the_newest_turn_says_when_an_agent_was_last_active(b: Bench) -> None:
    for at in (20, 30, 10):
        turn = {"content": "x", "agent": "ann", "timestamp_us": at}
        b.client.say("s", turn, agent="ann")
    assert counted(b.region) == {"ann": (3, 1)}
    (one,), _, _ = b.region.activity((), None, 10)
    assert one.last_at == 30


def test_a_turn_that_names_somebody_who_never_joined_is_nobodys(b: Bench) -> None:
    """The owner does not look into bodies: what stands there is the client's to say."""
    b.client.say("s", {"content": "x", "agent": "somebody else"}, agent="ann")
    assert counted(b.region) == {"ann": (0, 1)}


@pytest.mark.parametrize("how", ["header", "body"])
@pytest.mark.parametrize("part_bytes", [64, 1 << 19])
def test_damage_costs_the_turn_in_it_and_no_other(
    b: Bench, how: str, part_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_activity, "_PART_BYTES", part_bytes)
    for number in range(40):
        say(b.client, "s", "ann" if number % 2 else "bob")
    b.region.noop_if_idle()
    damage = b.damage_header if how == "header" else b.damage_body
    damage(b.position_of("s", 7))
    expected = {"ann": (19, 1), "bob": (20, 1)}
    assert counted(b.region) == expected, "found while it was open"
    assert counted(b.reopen()) == expected
    assert counted(b.reopen(seal=True)) == expected


def test_agents_come_in_pages_by_name(b: Bench) -> None:
    for name in ("c", "a", "b"):
        say(b.client, name, name)
    counted(b.region)
    first, more, _ = b.region.activity((), None, 2)
    assert [one.agent for one in first] == ["a", "b"] and more
    rest, more, _ = b.region.activity((), "b", 2)
    assert [one.agent for one in rest] == ["c"] and not more
