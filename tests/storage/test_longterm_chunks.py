"""Chunkings: what they write, what goes on record of them, and that the original never changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import cbor2
import msgspec
import pytest

from neverforget.storage.errors import Conflict, InvalidArgument, NotFound, OutOfSpace
from neverforget.storage.format import HEADER_BYTES, Kind
from neverforget.storage.longterm_deriving import METADATA_BYTES_MAX
from neverforget.storage.longterm_fields import id_in, id_text
from neverforget.storage.longterm_results import MemoryView, NewDerived
from neverforget.storage.longterm_unchunked import Unchunked
from neverforget.storage.record import body_of, read_header
from neverforget.storage.region_options import RegionOptions
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Killed
from tests.fakes.deaths import deaths
from tests.storage.small_longterm import (
    SPLITTER,
    LongTermBench,
    everything,
    longterm,
    memory_id,
    parts_of,
)

TEXT = "one two three four"
GOLDEN = (
    "a61550018f00000001700080000000000000011658303907f709c87a848db2a2bb52daa9afb18bae"
    "adecaefb84538618546d6d9f527560d4a902cc4e8b2e888a04858054de30181ea36776657273696f"
    "6e016873706c697474657264746573746773756d6d6172790103676368756e6b65720c5000000000"
    "0000000000000000000000001820504779ac0c4653a972f8fdaf2b0b7c7c23"
)  # the body of a CHUNKED record


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LongTermBench]:
    with longterm(tmp_path / "lt") as opened:
        yield opened


def derive(b: LongTermBench, told: MemoryView, parts: list[NewDerived], **how: Any) -> list[str]:
    given: dict[str, Any] = {"by": "chunker", "request": (0, 0), "splitter": SPLITTER} | how
    answer = b.region.derive(told.id, told.version, parts, **given)
    b.commit()
    assert b.region.durable >= answer.end
    if all(answer.new):
        assert answer.memories == b.chunks(told.id)
    return [m.id for m in answer.memories]


# ---- bytes ---------------------------------------------------------------------------------------


def test_the_records_of_a_chunking_are_these(b: LongTermBench) -> None:
    """FORMAT.md describes them."""
    told = b.remember("abcdef", tags=("t",), namespace=("n",), key="k", context="near")
    start = b.region.state.log.tail
    parts = parts_of(told, 4, summary="letters", context="Title")
    ids = derive(b, told, parts)
    records = []
    position = start
    while position < b.region.state.log.tail:
        record = b.region._log.read(position)
        header, body = read_header(record), body_of(record)
        records.append((header.kind, id_text(id_in(header)), cbor2.loads(body)))
        position += len(record) + -len(record) % 8
    original = bytes.fromhex(told.id.replace("-", ""))
    packed = [bytes.fromhex(each.replace("-", "")) for each in ids]
    carried = {
        3: ["t"], 4: 1.0, 5: 1.0, 9: ["n"], 17: told.created_at, 18: "chunker", 26: original, 27: 1,
    }  # fmt: skip
    chunk = carried | {2: "fact-chunk", 12: "Title"}
    assert records[:3] == [
        (Kind.REMEMBERED, ids[0], chunk | {0: "abcd", 28: [0, 4]}),
        (Kind.REMEMBERED, ids[1], chunk | {0: "ef", 28: [4, 6]}),
        (Kind.REMEMBERED, ids[2], carried | {0: "letters", 2: "fact-summary"}),
    ]
    assert records[3:8] == [
        (Kind.RELATED, ids[0], {23: original, 24: "chunk-of", 25: 1.0}),
        (Kind.RELATED, ids[1], {23: original, 24: "chunk-of", 25: 1.0}),
        (Kind.RELATED, ids[2], {23: original, 24: "summarizes", 25: 1.0}),
        (Kind.RELATED, ids[0], {23: packed[1], 24: "part-of-sequence", 25: 1.0}),
        (Kind.RELATED, ids[1], {23: packed[0], 24: "part-of-sequence", 25: 1.0}),
    ]
    ((kind, about, said),) = records[8:]
    assert (kind, about) == (Kind.CHUNKED, told.id)
    assert int(kind) == 24
    assert said == {
        3: "chunker", 12: bytes(16), 21: original, 22: b"".join(packed),
        30: {"version": 1, "splitter": "test", "summary": 1},
        32: bytes.fromhex("4779ac0c4653a972f8fdaf2b0b7c7c23"),
    }  # fmt: skip
    (entry,) = b.audit(operation="chunk")
    assert body_of(b.region._log.read(entry.position)).hex() == GOLDEN


def original_bytes(b: LongTermBench, told: MemoryView) -> bytes:
    """The record as the file holds it, header and body, padding too."""
    segments = b.region.state.log.segments()
    segment = next(s for s in reversed(segments) if s.base <= told.position)
    length = HEADER_BYTES + b.region.state.log.header(told.position).body_length
    at = told.position - segment.base
    return segment.path.read_bytes()[at : at + length + -length % 8]


def test_the_originals_record_never_changes(b: LongTermBench) -> None:
    told = b.remember(TEXT, key="k", tags=("t",), metadata={"a": [1, None]}, importance=3)
    bytes_then, view_then = original_bytes(b, told), b.region.get(told.id)
    b.derive(told, 4, 9, summary="numbers")
    for _ in range(3):
        assert original_bytes(b, told) == bytes_then
        assert b.region.get(told.id) == view_then
        assert b.region.history(told.id) == [view_then]
        b.archive(told.id)
        b.unarchive(told.id)
        b.reopen(seal=True)
    b.revise(told.id, text="something else")
    b.derive(b.region.get(told.id), 3)
    assert original_bytes(b, told) == bytes_then


# ---- what is refused, what is answered again -----------------------------------------------------


def test_the_same_chunks_again_are_answered_and_others_refused(b: LongTermBench) -> None:
    told = b.remember(TEXT)
    ids = derive(b, told, parts_of(told, 4, 9))
    tail = b.region._log.tail
    for summary in (None, "one that came too late"):
        again = b.region.derive(
            told.id, 1, parts_of(told, 4, 9, summary=summary),
            by="another", request=b.next_request(), splitter=SPLITTER,
        )  # fmt: skip
        assert [m.id for m in again.memories] == ids
        assert again.new == [False] * 3
    with pytest.raises(Conflict):
        derive(b, told, parts_of(told, 4))
    with pytest.raises(Conflict):
        derive(b, told, parts_of(told))
    assert b.region._log.tail == tail


def test_a_request_that_was_answered_is_answered_again(b: LongTermBench) -> None:
    told = b.remember(TEXT)
    parts = parts_of(told, 4, summary="s")
    ids = derive(b, told, parts, request=(9, 1))
    b.revise(told.id, text="other")
    assert derive(b, told, parts, request=(9, 1)) == ids
    with pytest.raises(Conflict):
        derive(b, told, parts_of(told, 5), request=(9, 1))


def test_a_chunking_must_be_made_of_what_it_says(b: LongTermBench) -> None:
    told = b.remember(TEXT)
    good = parts_of(told, 4, summary="s")
    replace = msgspec.structs.replace
    summary = good[-1]
    wrong: list[tuple[list[NewDerived], str]] = [
        ([], SPLITTER),
        ([summary], SPLITTER),
        ([*good, summary], SPLITTER),
        (good, "another splitter"),
        ([replace(good[0], id=good[1].id), *good[1:]], SPLITTER),
        ([replace(good[0], kind="part"), *good[1:]], SPLITTER),
        ([replace(good[0], span=(0, 5)), *good[1:]], SPLITTER),
        ([*good[:-1], replace(summary, text=" ")], SPLITTER),
        ([replace(good[0], context=5), *good[1:]], SPLITTER),
        (good[1:], SPLITTER),
    ]
    tail = b.region._log.tail
    for parts, splitter in wrong:
        with pytest.raises(InvalidArgument):
            derive(b, told, parts, splitter=splitter)
    assert b.region._log.tail == tail
    derive(b, told, good)
    with pytest.raises(InvalidArgument):
        b.region.derive(good[0].id, 1, good, by="c", request=(0, 0), splitter=SPLITTER)
    b.forget(told.id)
    with pytest.raises(NotFound):
        derive(b, told, good)


def test_chunks_are_of_the_time_and_tags_of_their_original(b: LongTermBench) -> None:
    told = b.remember(TEXT, tags=("x", "y"), occurred_at=5, valid_from=1, valid_to=9, speaker="Bo")
    b.untag(told.id, "x", "y")
    b.clock.wall_us += 1_000_000
    b.derive(told, 4)
    for chunk in b.chunks(told.id):
        assert chunk.created_at == told.created_at
        assert (chunk.occurred_at, chunk.valid_from, chunk.valid_to) == (5, 1, 9)
        assert (chunk.speaker, chunk.tags, chunk.key) == ("Bo", (), None)


def test_large_metadata_is_not_repeated_in_every_chunk(b: LongTermBench) -> None:
    """A text of 5 MB with 64 KB of metadata had chunks that no batch takes."""
    small = {"a": "x" * (METADATA_BYTES_MAX - 6)}
    assert len(cbor2.dumps(small)) == METADATA_BYTES_MAX
    large = {"a": "x" * (METADATA_BYTES_MAX - 5)}
    for metadata, carried in ((small, small), (large, {})):
        told = b.remember(TEXT, metadata=metadata)
        made = b.derive(told, 4, summary="s").memories
        assert [each.metadata for each in made] == [carried] * 3
        assert b.region.get(told.id).metadata == metadata


# ---- the record of them --------------------------------------------------------------------------


def test_a_chunking_is_on_record_for_who_asks(b: LongTermBench) -> None:
    told = b.remember(TEXT, namespace=("n", "m"))
    other = b.remember("another text")
    ids = derive(b, told, parts_of(told, 4, 9, summary="s"))
    derive(b, other, parts_of(other, 2))
    first, second = b.audit(operation="chunk")
    for _ in range(2):
        assert b.audit() == [], "no deletion"
        assert b.audit(operation="chunk") == [first, second]
        assert first.details == {
            "version": 1, "chunks": ids[:3], "summary": ids[3], "count": 3, "splitter": SPLITTER,
        }  # fmt: skip
        assert (first.operation, first.by, first.reason) == ("chunk", "chunker", None)
        assert first.target == {"id": told.id, "key": None}
        assert (second.details["summary"], second.details["count"]) == (None, 2)
        for target in (told.id, ids[0], ids[3]):
            assert b.audit(target=target) == [first]
            assert b.audit(target=target, operation="chunk") == [first]
            assert b.audit(target=target, operation="forget") == []
        assert b.audit(operation="chunk", by="somebody") == []
        assert b.audit(operation="chunk", scope=("n",)) == [first]
        assert b.audit(operation="chunk", scope=("x",)) == []
        assert b.audit(operation="chunk", after=first.position) == [second]
        assert b.audit(operation="chunk", limit=1) == [first]
        assert b.region.deletion_report(None, None).entries == []
        b.reopen(snapshot=b.region.snapshot())
    b.forget(told.id)
    entries = b.audit(target=told.id)
    assert [e.operation for e in entries] == ["chunk", "forget"]
    b.erase(told.id)
    assert b.audit(operation="chunk") == [first, second], "it holds no word of the original"
    assert b.audit(operation="chunk", scope=("n",)) == [first]
    assert [e.operation for e in b.audit(target=ids[0])] == ["chunk", "forget", "erase"]


# ---- what is broken ------------------------------------------------------------------------------


def damage(b: LongTermBench, *positions: int) -> None:
    segment = next(b.directory.glob("log/*.seg"))
    with segment.open("r+b") as file:
        for position in positions:
            file.seek(position + HEADER_BYTES + 5)
            file.write(b"\x00\x00")


def test_a_chunk_that_cannot_be_read_is_known_to_be_one(b: LongTermBench) -> None:
    """Its own record says whose it is. Where that is lost, it was taken for a memory that somebody
    had remembered; what goes on record names it too.
    """
    told = b.remember(TEXT, type="note")
    made = b.derive(told, 4, 9, summary="s").memories
    b.region.noop_if_idle()
    b.commit()
    damage(b, made[1].position, made[3].position)
    b.reopen()
    assert set(b.findings()) == {"corrupt_body"}
    assert b.texts() == [TEXT]
    assert [c.status for c in b.chunks(told.id)].count("unreadable") == 2
    types = [m.type for m in b.region.memories(everything()).memories]
    assert types == ["note", "note-chunk", "note-chunk", "note-chunk", "note-summary"]
    queue = Unchunked(b.region.state, 10)
    queue.follow()
    assert queue.waiting == 0
    b.forget(told.id)
    assert {m.status for m in b.region.memories(everything()).memories} >= {"forgotten"}
    assert b.region.memories(everything(status="active")).memories == []


# ---- death ---------------------------------------------------------------------------------------

DIRECTORY = ROOT / "lt"
OPTIONS = RegionOptions(first_segment_bytes=8192, segment_bytes=16384)
LONG = "a sentence of it. " * 120


def furnished(fs: CrashFileSystem) -> LongTermBench:
    b = LongTermBench(DIRECTORY, fs=fs, options=OPTIONS, lock=False)
    b.remember(LONG, namespace=("n",), tags=("t",))
    b.remember("short")
    return b


def chunk(b: LongTermBench) -> object:
    told = b.region.get(memory_id(1))
    cuts = range(200, len(LONG), 200)
    return derive(b, told, parts_of(told, *cuts, summary="sentences"))


def seen(b: LongTermBench) -> object:
    views = b.region.memories(everything(), limit=1000).memories
    relations = [b.region.relations(m.id) for m in views]
    return [msgspec.structs.replace(v, revised_at=0, position=0, born=0) for v in views], relations


@pytest.mark.parametrize("death", ["power_cut", "process_death"])
def test_a_chunking_is_complete_or_not_begun(death: str) -> None:
    """A death at every call of it. Whoever chunks is told by the log that it is not done, and does
    it again: the same, or nothing more.
    """
    fs = CrashFileSystem()
    b = furnished(fs)
    before, first = seen(b), len(fs.calls)
    died_at = deaths(fs, partial(chunk, b), lambda: None)
    after = seen(b)
    assert any(c.op == "rename" for c in fs.calls[first:]), "it spans segments"
    outcomes = set()
    for died in died_at:
        b.fs = died.found(death)
        b.region = b.open()
        found = seen(b)
        assert found in (before, after), "neither begun nor complete"
        outcomes.add(found == after)
        assert [f for f in b.region.verify() if f.severity == "error"] == []
        queue = Unchunked(b.region.state, 1_000)
        queue.follow()
        assert queue.waiting == (found == before)
        assert len(b.audit(operation="chunk")) == (found == after)
        chunk(b)
        assert seen(b) == after
        assert len(b.audit(operation="chunk")) == 1
        b.reopen()
        assert seen(b) == after
        b.region.close()
    assert outcomes == {False, True}


@pytest.mark.parametrize(
    "change",
    [
        lambda b: b.revise(memory_id(1), text="short now"),
        lambda b: b.forget(memory_id(1)),
        lambda b: b.erase(memory_id(1)),
    ],
    ids=["revise", "forget", "erase"],
)
def test_a_change_behind_a_chunking_takes_it_along_or_neither_happened(
    change: Callable[[LongTermBench], object],
) -> None:
    """The chunking is staged, the change follows in the same group, and the power fails."""

    def both(b: LongTermBench) -> None:
        told = b.region.get(memory_id(1))
        b.region.derive(
            told.id, 1, parts_of(told, 500), by="chunker", request=(0, 0), splitter=SPLITTER
        )
        change(b)

    counted = CrashFileSystem()
    b = furnished(counted)
    first = len(counted.calls)
    both(b)
    for call in range(first, len(counted.calls)):
        fs = CrashFileSystem(call)
        b = furnished(fs)
        fs.kill_at(call, after=call % 2 == 0)
        with pytest.raises(Killed):
            both(b)
            fs.sync_directory(ROOT)
        b.fs = fs.power_cut()
        b.region = b.open()
        assert [f for f in b.region.verify() if f.severity == "error"] == []
        b.region.close()


def test_a_chunking_that_finds_no_room_is_refused_as_a_whole() -> None:
    fs = CrashFileSystem(capacity_bytes=40_000)
    b = furnished(fs)
    with pytest.raises(OutOfSpace):
        for _ in range(200):
            b.remember("x" * 900)
    before = seen(b)
    with pytest.raises(OutOfSpace):
        chunk(b)
    assert seen(b) == before
    assert b.audit(operation="chunk") == []
    fs.capacity_bytes = None
    chunk(b)
    b.reopen()
    assert len(b.chunks(memory_id(1))) == 12
    assert b.findings() == []
