"""How often each agent recalled: counted, put on record, found again, erased with its namespace."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from neverforget.storage import recall_counts
from neverforget.storage.control import Body
from neverforget.storage.format import Kind
from neverforget.storage.log_heads import heads_of
from neverforget.storage.log_state import of_kinds
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.record import Header, body_of
from tests.storage.small_longterm import LongTermBench, longterm

GOLDEN = "a1181ea26577686f6c65f467726563616c6c73818481616163616e6e011b00060a24181e4001"
# {30: {"whole": False, "recalls": [[["a"], "ann", 1, 1700000000000001]]}}


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LongTermBench]:
    with longterm(tmp_path / "lt") as opened:
        yield opened


def sums(region: LongTermRegion, scope: tuple[str, ...] = ()) -> dict[str, int]:
    agents, more = region.agents(scope, None, 1_000)
    assert not more
    return {one.agent: one.recalls for one in agents if one.recalls}


def record(b: LongTermBench) -> None:
    b.region.record_recalls()
    b.commit()


def records(region: LongTermRegion) -> list[int]:
    state = region.state
    found = (of_kinds(h, p, Kind.RECALLED) for h, p in heads_of(state.log, state.log_seed))
    return [position for part in found for position, _ in part]


def test_the_record_is_this(b: LongTermBench) -> None:
    """FORMAT.md describes it."""
    b.region.recalled(("a",), "ann")
    record(b)
    (position,) = records(b.region)
    assert body_of(b.region.state.log.read(position)).hex() == GOLDEN


def test_recalls_are_counted_by_agent_and_by_what_was_searched(b: LongTermBench) -> None:
    for namespace in ((), ("a",), ("a", "x"), ("ab",)):
        b.region.recalled(namespace, "ann")
    b.region.recalled(("a",), "bob")
    assert sums(b.region) == {"ann": 4, "bob": 1}
    assert sums(b.region, ("a",)) == {"ann": 2, "bob": 1}
    assert sums(b.region, ("a", "x")) == {"ann": 1}
    assert sums(b.region, ("b",)) == {}
    times = [one.recalled_at for one in b.region.agents((), None, 9)[0]]
    assert times == [b.clock.wall_us - 1, b.clock.wall_us]


def test_what_is_on_record_is_there_after_reopening_and_nothing_else(b: LongTermBench) -> None:
    b.region.recalled((), "ann")
    b.region.recalled((), "bob")
    record(b)
    b.region.recalled((), "ann")
    record(b)
    before = b.region.agents((), None, 9)
    b.region.recalled((), "ann")  # and then it is killed
    assert b.reopen().agents((), None, 9) == before
    assert sums(b.region) == {"ann": 2, "bob": 1}
    assert not b.region.has_new_recalls


def test_without_news_nothing_is_written(b: LongTermBench) -> None:
    b.region.recalled((), "ann")
    record(b)
    end = b.region.log_end
    record(b)
    assert b.region.log_end == end


@pytest.mark.parametrize("seed", range(3))
def test_any_history_is_found_again_from_few_records(
    b: LongTermBench, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw, model = random.Random(seed), dict[str, int]()
    for _ in range(400):
        for _ in range(draw.randrange(4)):
            name = f"agent-{draw.randrange(30)}"
            model[name] = model.get(name, 0) + 1
            b.region.recalled(("n",) * draw.randrange(3), name)
        record(b)
    assert sums(b.region) == model
    b.reopen(seal=bool(seed % 2))
    assert sums(b.region) == model
    b.region.recalled((), "agent-0")
    record(b)
    read: list[int] = []
    state = b.region.state
    control = state.control

    def counted(position: int) -> tuple[Header, Body]:
        read.append(position)
        return control(position)

    monkeypatch.setattr(state, "control", counted)
    fresh = recall_counts.RecallCounts()
    for position in records(b.region):
        fresh.positions.note(position)
    fresh.load(state)
    pairs = 90
    assert len(read) <= 2 * pairs + 64 < len(records(b.region)), "back to the newest whole one"


def test_counting_ends_at_a_bound(b: LongTermBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall_counts, "PAIRS_MAX", 2)
    for name in ("a", "b", "c", "a"):
        b.region.recalled((), name)
    assert sums(b.region) == {"a": 2, "b": 1}


def test_a_record_of_all_is_never_too_large(
    b: LongTermBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some thousand long names made a record above 64 MiB, which the log refuses: their owner ended
    of it, and so did the next one a minute after they recalled again.
    """
    monkeypatch.setattr(recall_counts, "PAIRS_BYTES_MAX", 9_000)
    for letter in "abcde":
        b.region.recalled((), letter * 1_000)
    b.region.recalled(("n",), "f")
    assert [name[0] for name in sums(b.region)] == ["a", "b", "f"]
    for opening in (lambda: None, b.reopen):
        record(b)
        opening()
        b.region.recalled((), "g" * 1_000)
        assert [name[0] for name in sums(b.region)] == ["a", "b", "f"]


@pytest.mark.parametrize("name", ["", "x" * 70_000])
def test_a_name_that_nobody_may_have_is_not_counted(b: LongTermBench, name: str) -> None:
    b.region.recalled((), name)
    b.region.recalled((name,), "ann")
    assert sums(b.region) == {}


def test_a_record_that_cannot_be_read_is_reported_and_costs_what_it_said(b: LongTermBench) -> None:
    for name in ("ann", "bob"):
        b.region.recalled((), name)
        record(b)
    b.region.noop_if_idle()
    first, _ = records(b.region)
    b.region.close()
    path = next((b.directory / "log").glob("*.seg"))
    raw = bytearray(path.read_bytes())
    raw[first + 64] ^= 0xFF
    path.write_bytes(raw)
    b.region = b.open()
    assert sums(b.region) == {"bob": 1}
    assert "corrupt_body" in [finding.kind for finding in b.region.status().findings]


# ---- erasing -------------------------------------------------------------------------------------


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("reason", [None, "they asked"])
def test_erasing_a_namespace_takes_its_counts_and_leaves_the_others(
    b: LongTermBench, recorded: bool, reason: str | None
) -> None:
    for round in range(3):
        b.region.recalled(("secret-tenant", "x"), "secret-agent")
        b.region.recalled(("other",), "ann")
        if recorded or round < 2:
            record(b)
    b.region.erase_where(
        ("secret-tenant",), confirm="confirmed", by="t", reason=reason, request=b.next_request()
    )
    assert sums(b.region) == {"ann": 3}
    left = b.every_byte()
    assert b"secret" not in left and b"ann" in left
    assert sums(b.reopen()) == {"ann": 3}
    (entry,) = b.region.audit(operation="erase", limit=9).entries
    assert entry.reason == reason
    assert [f.kind for f in b.region.verify()] == []


def test_erasing_what_was_never_searched_leaves_the_records_alone(b: LongTermBench) -> None:
    b.region.recalled(("other",), "ann")
    record(b)
    b.remember("x", namespace=("n",))
    kept = records(b.region)
    b.region.erase_where(("n",), confirm="confirmed", by="t", reason=None, request=b.next_request())
    assert records(b.region) == kept and sums(b.reopen()) == {"ann": 1}


# ---- memories ------------------------------------------------------------------------------------


def test_memories_count_for_the_agent_that_they_name(b: LongTermBench) -> None:
    kept = b.remember("one", agent="ann", namespace=("a",))
    gone = b.remember("two", agent="ann", namespace=("a", "x"))
    old = b.remember("three", agent="bob")
    b.remember("nobody's")
    b.archive(old.id)
    b.forget(gone.id)
    agents, _ = b.region.agents((), None, 9)
    assert [(one.agent, one.memories, one.last_at) for one in agents] == [
        ("ann", 1, kept.created_at),
        ("bob", 1, old.created_at),
    ]
    assert [one.agent for one in b.region.agents(("a",), None, 9)[0]] == ["ann"]
    assert b.region.agents(("b",), None, 9) == ([], False)
    first, more = b.region.agents((), None, 1)
    assert [one.agent for one in first] == ["ann"] and more
    assert [one.agent for one in b.region.agents((), "ann", 1)[0]] == ["bob"]
