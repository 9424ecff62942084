"""Appending to a region: seqs, request ids, keys, expected seqs, before and after a restart."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.errors import Conflict, InvalidArgument, OutOfSpace
from neverforget.storage.format import HEADER, HEADER_BYTES
from neverforget.storage.record import decode_records, read_header
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Fault
from tests.storage.small_region import Bench, Client, bench, contents, seen, seqs


@pytest.fixture
def b(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path / "p0") as opened:
        yield opened


def existing(appended: Any) -> list[tuple[int, int, Any]]:
    """(index, seq, content) of what was there already."""
    found = []
    for index, record in appended.existing:
        ((header, body),) = decode_records(record)
        found.append((index, header.sequence_id, None if body is None else body[0]))
    return found


def test_seqs_run_without_a_gap_in_every_session(b: Bench) -> None:
    for n in range(20):
        assert b.client.say("one", f"a{n}") == n
        assert b.client.append("two", "x", "y").first_seq == 2 * n
    b.client.commit()
    b.reopen()
    assert contents(b.client.all("one")) == [f"a{n}" for n in range(20)]
    assert seqs(b.client.all("two")) == list(range(40))
    assert b.client.say("one", "next") == 20


def test_nothing_is_there_before_it_is_written(b: Bench) -> None:
    b.client.say("chat", "kept")
    b.client.append("chat", "only staged")
    assert b.region.written < b.client.append("chat", "me too").end
    b.reopen()
    assert contents(b.client.all("chat")) == ["kept"]
    assert b.client.say("chat", "again") == 1


@pytest.mark.parametrize("restart", ["not", "kill", "seal"])
def test_a_repeated_request_gets_its_first_answer(b: Bench, restart: str) -> None:
    """Scenarios 2 and 3: sync done, reply lost, the client asks again under the same id."""
    records, request = b.client.turns("chat", "a", "b", "c")
    other, other_request = b.client.turns("chat", "later")
    region = b.region
    first = region.append((), "chat", "bob", *request, None, records)
    region.append((), "chat", "bob", *other_request, None, other)
    region.write()
    region.sync()
    if restart != "not":
        region = b.reopen(seal=restart == "seal")
    for _ in range(3):
        again = region.append((), "chat", "bob", *request, None, records)
        assert again.first_seq == first.first_seq == 0
        assert existing(again) == [(0, 0, "a"), (1, 1, "b"), (2, 2, "c")]
        assert again.end <= region.durable
    assert region.append((), "chat", "bob", *other_request, 99, other).first_seq == 3
    assert len(seqs(b.client.all("chat"))) == 4
    assert list(region.info((), "chat").agents) == ["bob"]


def test_a_repeat_inside_one_group_commit_finds_what_is_only_staged(b: Bench) -> None:
    records, request = b.client.turns("chat", "a", {"content": "k", "key": "key"})
    first = b.region.append((), "chat", None, *request, 0, records)
    again = b.region.append((), "chat", None, *request, 0, records)
    assert existing(again) == [(0, 0, "a"), (1, 1, "k")]
    assert again.end == first.end > b.region.written
    keyed = b.client.append("chat", {"content": "k", "key": "key"})
    assert existing(keyed) == [(0, 1, "k")]
    assert keyed.end == first.end, "the answer waits for the first to be durable"
    b.client.commit()
    assert contents(b.client.all("chat")) == ["a", "k"]


@pytest.mark.parametrize("restart", [False, True])
def test_a_request_id_with_something_else_in_it_is_a_conflict(b: Bench, restart: bool) -> None:
    client = b.client
    request = client.next_request()
    client.say("chat", "a", "b", request=request)
    hide = client.next_request()
    b.region.hide((), "chat", [(0, 0)], True, "me", None, *hide)
    client.commit()
    if restart:
        b.reopen()
    region = b.region
    for turns in (["a"], ["a", "c"], ["a", "b", "c"], [{"content": "a", "role": "system"}, "b"]):
        with pytest.raises(Conflict):
            client.append("chat", *turns, request=request)
    with pytest.raises(Conflict):
        client.append("other", "a", "b", request=request)
    with pytest.raises(Conflict):
        client.append("chat", "a", request=hide)
    with pytest.raises(Conflict):
        region.hide((), "chat", [(0, 0)], True, "me", None, *request)
    with pytest.raises(Conflict):
        region.hide((), "chat", [(0, 1)], True, "me", None, *hide)
    with pytest.raises(Conflict):
        region.hide((), "chat", [(0, 0)], False, "me", None, *hide)
    with pytest.raises(Conflict):
        region.erase((), "chat", [(0, 0)], "confirmed", "me", None, *request)
    assert region.hide((), "chat", [(0, 0)], True, "me", None, *hide) <= region.durable
    assert contents(client.all("chat")) == ["a", "b"]


def test_requests_that_arrive_out_of_order_are_all_new(b: Bench) -> None:
    """Threads share a client: its producer_seqs reach the owner in any order."""
    order = [5, 3, 4, 1, 2, 200, 100, 150]
    for n in order:
        assert not b.client.append("chat", f"t{n}", request=(77, n)).existing
    b.client.commit()
    for n in reversed(order):
        assert existing(b.client.append("chat", f"t{n}", request=(77, n)))[0][2] == f"t{n}"
    b.reopen(seal=True)
    for n in order:
        assert existing(b.client.append("chat", f"t{n}", request=(77, n)))[0][2] == f"t{n}"
    assert not b.client.append("chat", "new", request=(77, 110)).existing


def test_request_ids_hold_across_many_segments_and_restarts(b: Bench) -> None:
    """8 KiB first, 64 KiB at most: side files answer for most of these."""
    big = "x" * 500
    for n in range(600):
        b.client.append("chat", f"{n} {big}", request=(77, n + 1))
        if n % 50 == 0:
            b.client.commit()
    b.client.commit()
    assert len(b.region.status().findings) == 0
    for seal in (None, False, True):
        if seal is not None:
            b.reopen(seal=seal)
        assert b.region.status().segments > 4
        for n in (0, 1, 17, 300, 598, 599):
            again = b.client.append("chat", f"{n} {big}", request=(77, n + 1))
            assert existing(again) == [(0, n, f"{n} {big}")]
    assert b.client.say("chat", "next", request=(77, 601)) == 600


# ---- keys ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("restart", [False, True])
def test_a_key_answers_its_turn_for_ever(b: Bench, restart: bool) -> None:
    b.client.say("chat", {"content": "paid", "key": "order-1"}, "between")
    for n in range(200):
        b.client.append("chat", "filler " * 60 + str(n))
    b.client.commit()
    if restart:
        b.reopen()
    other = Client(b.region, producer=5, clock=b.clock)
    again = other.append("chat", {"content": "paid", "key": "order-1"}, expect_seq=3)
    assert existing(again) == [(0, 0, "paid")]
    assert again.first_seq == 202
    with pytest.raises(Conflict) as caught:
        other.append("chat", {"content": "paid twice", "key": "order-1"})
    assert caught.value.seq == 0
    assert other.say("else", {"content": "paid twice", "key": "order-1"}) == 0


def test_what_describes_the_delivery_may_differ_under_a_key(b: Bench) -> None:
    said = {"content": {"n": 1}, "key": "k", "role": "tool_call", "call_id": "c", "name": "f"}
    b.client.say("chat", said | {"agent": "one", "metadata": {"try": 1}})
    again = b.client.append("chat", said | {"agent": "two", "metadata": {"try": 2}})
    assert existing(again) == [(0, 0, {"n": 1})]
    for other in ({"content": {"n": 2}}, {"role": "user"}, {"call_id": "d"}, {"name": "g"}):
        with pytest.raises(Conflict):
            b.client.append("chat", said | other)


def test_equal_content_under_a_key_may_be_written_in_other_bytes(b: Bench) -> None:
    """Two clients built the same dict in another order, or sent 1 for 1.0: a Conflict, once."""
    said = {"content": {"b": 1, "a": [1.0, {"x": None, "y": True}]}, "key": "k"}
    b.client.say("chat", said)
    for same in (
        {"a": [1.0, {"x": None, "y": True}], "b": 1},
        {"a": [1, {"y": True, "x": None}], "b": 1.0},
    ):
        ((_, seq, _),) = existing(b.client.append("chat", said | {"content": same}))
        assert seq == 0
    for other in (
        {"b": 1, "a": [1.0, {"x": None, "y": 1}]},
        {"b": True, "a": [1.0, {"x": None, "y": True}]},
        {"b": 1, "a": [{"x": None, "y": True}, 1.0]},
    ):
        with pytest.raises(Conflict):
            b.client.append("chat", said | {"content": other})


def test_a_batch_may_mix_known_keys_new_keys_and_no_keys(b: Bench) -> None:
    b.client.say("chat", {"content": "k1", "key": "1"}, "x")
    request = b.client.next_request()
    batch = (
        "new a",
        {"content": "k1", "key": "1"},
        {"content": "k2", "key": "2"},
        "new b",
        {"content": "k2", "key": "2"},
    )
    appended = b.client.append("chat", *batch, request=request)
    assert appended.first_seq == 2
    assert existing(appended) == [(1, 0, "k1"), (4, 3, "k2")]
    b.client.commit()
    assert contents(b.client.all("chat")) == ["k1", "x", "new a", "k2", "new b"]
    for _ in range(2):
        again = b.client.append("chat", *batch, request=request)
        assert [(i, seq) for i, seq, _ in existing(again)] == [
            (0, 2), (1, 0), (2, 3), (3, 4), (4, 3),
        ]  # fmt: skip
        b.reopen()
    assert b.region.info((), "chat").turns == 5


def test_a_batch_with_a_conflict_is_refused_whole(b: Bench) -> None:
    b.client.say("chat", {"content": "k1", "key": "1"})
    with pytest.raises(Conflict):
        b.client.append("chat", "new", {"content": "other", "key": "1"})
    with pytest.raises(Conflict):
        b.client.append("chat", {"content": "a", "key": "2"}, {"content": "b", "key": "2"})
    assert b.region.info((), "chat").turns == 1
    assert b.client.say("chat", {"content": "b", "key": "2"}) == 1


def test_keys_with_one_digest_are_told_apart_by_the_full_key(b: Bench) -> None:
    """The digest in the header only says where to look: two keys are given the same one here."""

    def forged(content: str, key: str) -> tuple[bytes, tuple[int, int]]:
        records, request = b.client.turns("chat", {"content": content, "key": key})
        fields = list(HEADER.unpack_from(records, 0))
        fields[11], fields[12] = 4711, 42
        return HEADER.pack(*fields) + records[HEADER_BYTES:], request

    for restart in (False, True):
        if restart:
            b.reopen(seal=True)
        for n, key in enumerate(("a", "b", "c")):
            records, request = forged(f"of {key}", key)
            appended = b.region.append((), "chat", None, *request, None, records)
            if restart:
                assert existing(appended) == [(0, n, f"of {key}")]
            else:
                assert (appended.first_seq, appended.existing) == (n, [])
        b.client.commit()
    records, request = forged("something else", "b")
    with pytest.raises(Conflict) as caught:
        b.region.append((), "chat", None, *request, None, records)
    assert caught.value.seq == 1


def test_a_key_whose_turn_is_unreadable_is_not_free(b: Bench) -> None:
    said = {"content": "what was said", "key": "k"}
    b.client.say("chat", said, "after")
    b.region.noop_if_idle()
    b.damage_body(b.position_of("chat", 0))
    for _ in range(2):
        again = b.client.append("chat", said)
        assert existing(again) == [(0, 0, None)], "same length, same checksum: it was this turn"
        with pytest.raises(Conflict):
            b.client.append("chat", {"content": "other", "key": "k"})
        b.reopen()


# ---- expected seqs -------------------------------------------------------------------------------


def test_expect_seq_lets_one_of_two_writers_win(b: Bench) -> None:
    assert b.client.say("chat", "first", expect_seq=0) == 0
    with pytest.raises(Conflict) as caught:
        b.client.append("chat", "second", expect_seq=0)
    assert caught.value.seq == 1
    assert b.client.say("chat", "second", expect_seq=1) == 1
    with pytest.raises(Conflict):
        b.client.append("other", "x", expect_seq=1)
    assert not b.region.info((), "other").exists


def test_a_failed_append_leaves_no_trace(b: Bench) -> None:
    before = b.region.status().tail
    for records in (b"", b"x" * 63, b"x" * 64, b.client.turns("s", "a")[0][:-8]):
        with pytest.raises(InvalidArgument):
            b.region.append((), "chat", None, 1, 1, None, records)
    for name, namespace in (("", ()), ("x", ("",)), ("x" * 70_000, ())):
        with pytest.raises(InvalidArgument):
            b.client.append(name, "a", namespace=namespace)
    assert b.region.status().tail == before
    assert b.region.status().sessions == 0


def test_a_full_disk_refuses_the_append_and_nothing_else() -> None:
    """Scenario 18 at the region: OutOfSpace, reads go on, and space given back is used again."""
    fs = CrashFileSystem(seed=1)
    fs.make_directory(ROOT)
    with bench_on(fs) as b:
        told = [b.client.say("chat", "x" * 900) for _ in range(6)]
        fs.inject(Fault("allocate", nth=1, error=28))
        with pytest.raises(OutOfSpace):
            for _ in range(100):
                b.client.say("chat", "y" * 900)
        turns = b.region.info((), "chat").turns
        assert contents(b.client.tail("chat", 1)) == [("x" if turns == 6 else "y") * 900]
        assert b.client.say("chat", "again") == turns >= len(told)
        assert b.region.poisoned is None


def bench_on(fs: CrashFileSystem) -> Any:
    return _Unlocked(fs)


class _Unlocked:
    """A bench over a file system in memory, where there is no directory to lock."""

    def __init__(self, fs: CrashFileSystem) -> None:
        self._fs = fs

    def __enter__(self) -> Bench:
        self._bench = UnlockedBench(ROOT / "p0", fs=self._fs)
        return self._bench

    def __exit__(self, *_: object) -> None:
        self._bench.close()


class UnlockedBench(Bench):
    def open(self, directory: Path | None = None, **how: Any) -> Any:
        return super().open(directory, **{"lock": False, **how})


# ---- what a session is ---------------------------------------------------------------------------


def test_names_of_every_kind_are_sessions_of_their_own(b: Bench) -> None:
    """Scenario 14. No name ever becomes a file's."""
    names = [
        "..", "a/b", "a\\b", "CON", "x" * 300, "Name", "name", "e\u0301", "\u00e9", "\x00",
        "a\ud83d", " ", "-", "\u202e",
    ]  # fmt: skip
    for n, name in enumerate(names):
        b.client.append(name, f"of {n}", namespace=("ns", name))
    b.client.commit()
    for _ in range(2):
        for n, name in enumerate(names):
            window = b.region.page(("ns", name), name, None, None, False, 10, False)
            assert contents(window) == [f"of {n}"]
        listed, more = b.region.sessions(("ns",), None, None, 100)
        assert sorted((v.namespace, v.session) for v in listed) == sorted(
            (("ns", name), name) for name in names
        )
        assert not more
        b.reopen()


def test_sessions_whose_digests_all_collide_stay_apart(tmp_path: Path) -> None:
    with bench(tmp_path / "p0", digest=lambda _namespace, _name: 7) as b:
        for n in range(12):
            b.client.append(f"s{n % 4}", {"content": f"{n}", "key": f"k{n // 4}"}, agent="a")
        b.client.commit()
        for _ in range(2):
            for n in range(4):
                assert contents(b.client.all(f"s{n}")) == [f"{n}", f"{n + 4}", f"{n + 8}"]
                again = b.client.append(f"s{n}", {"content": f"{n}", "key": "k0"})
                assert existing(again) == [(0, 0, f"{n}")]
            assert not b.region.info((), "s4").exists
            b.reopen(seal=True)
        assert b.findings() == []


def test_agents_join_once_in_order(b: Bench) -> None:
    for agent in ("ann", "bob", None, "ann", "cyd", "bob"):
        b.client.append("chat", "x", agent=agent)
    b.client.commit()
    assert b.region.info((), "chat").agents == ["ann", "bob", "cyd"]
    b.reopen()
    assert b.region.info((), "chat").agents == ["ann", "bob", "cyd"]
    tail = b.region.status().tail
    b.client.say("chat", "x", agent="bob")
    assert b.region.status().tail - tail < 100, "one record: nobody joined"


def test_bytes_per_append_stay_constant(b: Bench) -> None:
    """Scenario 9: an append costs its own record, at turn 1 as at turn 2,000."""
    b.client.say("chat", "x")
    sizes = []
    for n in range(2000):
        tail = b.region.status().tail
        sizes.append(b.client.append("chat", f"{n:08}").end - tail)
        b.region.write()
    rolled = b.region.status().segments - 1
    assert sizes.count(sizes[0]) == len(sizes) - rolled


@pytest.mark.parametrize(
    "content",
    [
        "\x00", "x\ud83dy", "\U0001f642 \u05e9\u05dc\u05d5\u05dd", "a", "b" * 65535, "b" * 65536,
        "b" * 65537, "m" * (16 << 20), b"\x00\xff", {"deep": [{"er": [1, 2.5, None, True]}]},
    ],
    ids=range(10),
)  # fmt: skip
def test_content_of_every_kind_comes_back_equal(b: Bench, content: Any) -> None:
    """Scenario 8. The largest gets a segment of its own."""
    b.client.say("chat", "before", {"content": content}, "after")
    for _ in range(2):
        window = b.region.get((), "chat", 1, 2)
        assert contents(window) == [content]
        b.reopen()


def test_a_batch_above_the_limit_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    from tests.storage.small_region import OPTIONS

    options = type(OPTIONS)(segment_bytes=8192, first_segment_bytes=8192, batch_bytes_max=20_000)
    with bench(tmp_path / "p0", options=options) as b:
        tail = b.region.status().tail
        with pytest.raises(InvalidArgument):
            b.client.append("chat", *["x" * 1000 for _ in range(30)])
        assert b.region.status().tail == tail
        assert not b.region.info((), "chat").exists
        assert b.client.say("chat", *["x" * 1000 for _ in range(15)]) == 0


def test_identical_timestamps_change_no_order(b: Bench) -> None:
    """Scenarios 4 and 5: seq alone orders; 5,000 turns of one instant are 5,000 turns."""
    b.client.say("chat", *[{"content": str(n), "timestamp_us": 1} for n in range(5000)])
    walked: list[int] = []
    after: int | None = None
    while True:
        window = b.region.page((), "chat", after, None, False, 700, False)
        walked += [int(turn.content) for turn in seen(window)]
        if not window.more:
            break
        after = window.stop_seq - 1
    assert walked == list(range(5000))


def test_two_producers_may_use_the_same_numbers(b: Bench) -> None:
    one, two = Client(b.region, producer=1), Client(b.region, producer=2)
    assert one.say("chat", "a") == 0
    assert two.say("chat", "a") == 1
    assert not read_header(b.client.turns("chat", "x")[0]).sequence_id
