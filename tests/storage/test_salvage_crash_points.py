"""A salvage with a death at every call that changes something: begun again, it comes to the same
end, with everything there once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.region import Region
from neverforget.storage.salvage_results import Piece
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem
from tests.fakes.deaths import deaths
from tests.storage.parted import STREAM, Parted, PartedLongTerm, read
from tests.storage.small_longterm import OPTIONS as LONGTERM_OPTIONS
from tests.storage.small_longterm import STORE_ID, LongTermBench
from tests.storage.small_region import OPTIONS, Bench, HandClock, contents, flags_at

DIRECTORY = ROOT / "region"
PIECE = 300
Owned = Region | LongTermRegion
Open = Callable[[CrashFileSystem], Owned]


def conversations(tmp_path: Path) -> tuple[Path, list[Piece]]:
    """The directory to salvage into, and what is to be brought back."""
    front = Bench(tmp_path / "old")
    front.client.say("s", "zero", "one", "two")
    parted = Parted(front, tmp_path / "new")
    old, new = parted.old.client, parted.new.client
    old.say("s", "lost 3", "lost 4")
    old.say("t", "of t", agent="ann")
    old.say("s", {"content": "keyed", "key": "k"})
    old.region.refuse("erase", {"session": "x"}, "tester", None)
    old.hide("s", (0, 3))
    old.erase("s", [(1, 1), (4, 4)])
    old.fork("f", "s", 4)
    old.say("f", "of the fork")
    new.say("s", "new 3")
    new.say("s", {"content": "other", "key": "k"})
    found = parted.pieces(bytes_max=PIECE)
    parted.new.region.seal()
    parted.close()
    return tmp_path / "new", found


def open_conversations(fs: CrashFileSystem) -> Region:
    return Region.open(
        fs, DIRECTORY, store_id=STORE_ID, partition=0, options=OPTIONS, lock=False,
        random_bytes=bytes, clock=HandClock(),
    )  # fmt: skip


def seen_in_conversations(region: Owned) -> Any:
    assert isinstance(region, Region)
    found = []
    for name in ("s", "t", "f"):
        window = region.page((), name, None, None, False, 1_000, True)
        runs = [(first, last, old) for first, last, _, old in window.salvaged]
        flags = [int(flags_at(window, seq)) for seq in range(window.base, window.end)]
        found.append((contents(window), flags, runs, window.base, window.tokens))
    entries = region.audit(None, None, None, None, None, None, None, 100)[0]
    operations = [e.operation for e in entries if e.details.get("operation") != "salvage"]
    return found, operations


def memories(tmp_path: Path) -> tuple[Path, list[Piece]]:
    front = LongTermBench(tmp_path / "old")
    first = front.remember("front", key="f")
    second = front.remember("second")
    parted = PartedLongTerm(front, tmp_path / "new")
    old, new = parted.old, parted.new
    old.revise(first.id, text="front, revised", tags=("a",))
    lost = old.remember("lost", key="k")
    old.tag(lost.id, "b")
    old.relate(lost.id, first.id, "about")
    old.archive(lost.id)
    gone = old.remember("to go")
    old.forget(gone.id, reason="why")
    old.erase(second.id)
    old.remember("held", key="h")
    new.remember("holds", key="h")
    found = list(read(old, parted.parting, PIECE, STREAM))
    parted.new.region.seal()
    parted.close()
    return tmp_path / "new", found


def open_memories(fs: CrashFileSystem) -> LongTermRegion:
    return LongTermRegion.open(
        fs, DIRECTORY, store_id=STORE_ID, options=LONGTERM_OPTIONS, lock=False,
        random_bytes=bytes, clock=HandClock(),
    )  # fmt: skip


def seen_in_memories(region: Owned) -> Any:
    assert isinstance(region, LongTermRegion)
    from tests.storage.small_longterm import everything

    views = region.memories(everything(), limit=1_000).memories
    found = [(v.text, v.key, v.tags, v.status, v.version, v.created_at) for v in views]
    relations = [len(region.relations(v.id)) for v in views if v.status != "forgotten"]
    entries = region.audit(limit=100).entries
    operations = [e.operation for e in entries if e.details.get("operation") != "salvage"]
    return found, relations, operations


def loaded(directory: Path) -> CrashFileSystem:
    """A disk with these files on it, all of them durable."""
    fs = CrashFileSystem()
    for path in (directory, *sorted(directory.rglob("*"))):
        inside = DIRECTORY / path.relative_to(directory)
        if path.is_dir():
            fs.make_directory(inside)
        else:
            file = fs.open(inside, create=True)
            file.pwrite([path.read_bytes()], 0)
            file.fdatasync()
            file.close()
        fs.sync_directory(inside.parent)
    return fs


def salvage(fs: CrashFileSystem, open_region: Open, found: list[Piece]) -> Owned:
    """As an owner does: what a slice staged is durable before the next one."""
    region = open_region(fs)
    for piece in found:
        work: Iterator[None] = region.salvage(piece)
        more = True
        while more:
            more = next(work, False) is None
            region.write()
            region.sync()
    return region


KINDS: dict[str, Any] = {
    "conversations": (conversations, open_conversations, seen_in_conversations),
    "memories": (memories, open_memories, seen_in_memories),
}


@pytest.mark.parametrize("death", ["process_death", "power_cut"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_salvage_may_die_anywhere(kind: str, death: str, tmp_path: Path) -> None:
    make, open_region, seen = KINDS[kind]
    directory, found = make(tmp_path)
    assert len(found) > 2
    fs = loaded(directory)
    salvaged: list[Owned] = []
    died_at = deaths(fs, lambda: salvaged.append(salvage(fs, open_region, found)), lambda: None)
    wanted = seen(salvaged[0])
    salvaged[0].close()
    for died in died_at:
        after = died.found(death)
        region = salvage(after, open_region, found)
        assert seen(region) == wanted, died.call
        region.close()
        region = open_region(after)
        assert seen(region) == wanted, died.call
        assert [finding.kind for finding in region.verify() if finding.severity == "error"] == []
        region.close()
