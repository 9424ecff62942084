"""After an erasure nothing of a memory is in any byte of any file of the store: log and what
recovery set aside, generations of rows, vectors and words, manifests.

What may remain: ids, times, lengths, counts, who erased it and why, a salted digest; and of what
memories share, such as tags, agents and namespaces, what another one still has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.errors import ConfirmationRequired
from neverforget.storage.longterm_results import MemoryFilter, MemoryView, TurnPoint
from tests.storage.bytes_left import indexes_with_part
from tests.storage.small_index import IndexBench, indexed, vector

MARK = "quetzal"  # in every word of the memory
OLD, TEXT, KEY = f"{MARK}oldtext", f"{MARK}text", f"{MARK}key"
SMALL: dict[str, Any] = {
    "key": KEY, "tags": (f"{MARK}-tag",), "source": f"{MARK}source", "agent": f"{MARK}agent",
    "speaker": f"{MARK}speaker", "namespace": ("u", f"{MARK}place"), "type": f"{MARK}type",
    "metadata": {f"{MARK}field": [f"{MARK}value"]}, "context": f"{MARK}context",
}  # fmt: skip


@pytest.fixture
def b(tmp_path: Path) -> Iterator[IndexBench]:
    with indexed(tmp_path) as bench:
        for n in range(12):
            bench.remember(f"other {n}", tags=("kept",), speaker="ana", namespace=("u",))
        yield bench


def told(b: IndexBench) -> MemoryView:
    secret = b.remember(f"{OLD} first words", **SMALL)
    b.remember("beside", context=f"then: {OLD} first words and more", namespace=("u",))
    secret = b.revise(secret.id, text=f"{TEXT} later words")
    b.remember("below", context=f"{TEXT} later words", namespace=("u",))
    b.tag(secret.id, f"{MARK}:deeper")
    b.relate(secret.id, TurnPoint((MARK,), f"{MARK}session", 0, 1), f"{MARK}kind")
    b.derive(b.region.get(secret.id), 9, summary=f"{MARK}summary")
    return b.region.get(secret.id)


def stored(b: IndexBench) -> None:
    b.follow()
    b.stored.publish()


def files_with(b: IndexBench, *wanted: bytes) -> list[str]:
    root = b.derived.parent
    return [
        str(path.relative_to(root))
        for path in sorted(root.rglob("*"))
        if path.is_file() and any(each in path.read_bytes() for each in wanted)
    ]


def vectors_of(*texts: str) -> list[bytes]:
    """Bytes that stand in a file of vectors for these texts: a part of each will do."""
    return [vector(text).tobytes()[8:32] for text in texts]


VECTORS = vectors_of(f"{OLD} first words", f"{TEXT} later words", f"{MARK}summary")


def one(b: IndexBench, secret: MemoryView) -> None:
    b.erase(secret.id)


def its_place(b: IndexBench, secret: MemoryView) -> None:
    b.region.erase_where(secret.namespace, **b.asked())


def purged(b: IndexBench, secret: MemoryView) -> None:
    b.forget(secret.id)
    b.follow()
    b.purge(2**62)


CASES = [
    (one, "older generations"), (one, "forgotten"), (its_place, "log"), (purged, "a generation"),
]  # fmt: skip
OTHERS = [
    pytest.param(taken, where, marks=pytest.mark.long)
    for taken in (one, its_place, purged)
    for where in ("log", "a generation", "older generations", "forgotten")
    if (taken, where) not in CASES
]


@pytest.mark.parametrize(("taken", "where"), [*CASES, *OTHERS])
def test_nothing_is_left_of_it(
    b: IndexBench, taken: Callable[[IndexBench, MemoryView], None], where: str
) -> None:
    secret = told(b)
    if where != "log":
        stored(b)
        held = files_with(b, MARK.encode())
        assert any(name.endswith(".arrow") for name in held)
        assert any(name.endswith(".faiss") for name in files_with(b, *VECTORS))
        assert indexes_with_part(b.derived, MARK) != []
    if where == "older generations":
        for n in range(3):
            b.remember(f"after {n}", speaker="bob")
            stored(b)
        b.reopen_all()
    if where == "forgotten":
        b.forget(secret.id, reason=f"because of {TEXT} later words")
        b.region.undo_forget(secret.id, by="t", request=b.next_request())
        b.commit()
        b.archive(secret.id, reason=f"said by {MARK}speaker")
        b.forget_where(where={f"metadata.{MARK}field": {"$in": [[f"{MARK}value"]]}})
        b.forget_where(tags=(MARK,), namespace=("u",))
        refused: list[Callable[[], object]] = [
            lambda: b.forget(secret.id, confirm=None, reason=f"{MARK}value"),
            lambda: b.region.forget_where(
                MemoryFilter(where={"metadata.x": KEY}), **b.asked(confirm=None)
            ),
        ]
        for call in refused:
            with pytest.raises(ConfirmationRequired):
                call()
        stored(b)
    before = {path.name for path in b.derived.iterdir()} - {"MANIFEST"}
    taken(b, secret)
    stored(b)
    # Words are packed in a text index: that no file is what it was says more than any search.
    assert before.isdisjoint(path.name for path in b.derived.iterdir())
    for _ in range(2):
        # A purge is a forgetting that lasts: what the audit was told when it was forgotten stays.
        if not (taken is purged and where == "forgotten"):
            assert files_with(b, MARK.encode()) == []
        assert files_with(b, *VECTORS) == []
        assert indexes_with_part(b.derived, MARK) == []
        assert [f.message for f in b.region.verify()] == []
        assert b.stored.findings == []
        assert b.words(MARK) == b.words(TEXT, "context") == b.words(OLD, "context") == []
        assert set(b.near(f"{TEXT} later words", limit=99)) >= {"below", "beside"}
        b.reopen_all()
        stored(b)
    assert [e.operation for e in b.audit()][-1] == ("purge" if taken is purged else "erase")


def test_a_torn_copy_goes_with_the_memory_it_is_of(tmp_path: Path) -> None:
    """A batch torn by a power cut, set aside, and stored again by the client's repeat."""
    with indexed(tmp_path) as b:
        b.remember("kept")
        both = [b.new(f"{MARK} torn", **SMALL), b.new("with it")]
        request = b.next_request()
        last = b.region.remember(both, by="t", request=request).memories[-1]
        b.region.write()
        damage(b, last.position + 70)
        b.reopen_all()
        assert files_with(b, MARK.encode()) != []
        assert any(name.startswith("region/torn/") for name in files_with(b, MARK.encode()))
        b.remember_many(*both, request=request)
        stored(b)
        b.erase(both[0].id)
        stored(b)
        assert files_with(b, MARK.encode()) == indexes_with_part(b.derived, MARK) == []
        assert b.texts() == ["kept", "with it"]


def test_a_quarantined_copy_goes_with_anything_older(tmp_path: Path) -> None:
    """Nobody can tell whose records a lost range held: erasing what is older takes it too."""
    with indexed(tmp_path) as b:
        secret = b.remember(f"{MARK} first", **SMALL)
        damaged = b.revise(secret.id, text=f"{MARK} second")
        b.remember("behind it")
        b.remember("and more")
        b.stored.close()
        b.region.close()
        damage(b, damaged.position + 9)  # its header
        b.region = b.open()
        b.stored = b.open_derived()
        assert any(name.startswith("region/quarantine/") for name in files_with(b, MARK.encode()))
        stored(b)
        b.erase(secret.id)
        stored(b)
        assert files_with(b, MARK.encode()) == indexes_with_part(b.derived, MARK) == []
        assert b.texts() == ["behind it", "and more"]


def damage(b: IndexBench, position: int) -> None:
    for path in sorted((b.directory / "log").glob("*.seg")):
        base = int(path.stem, 16)
        if base <= position < base + path.stat().st_size:
            with path.open("r+b") as file:
                file.seek(position - base)
                found = file.read(1)[0]
                file.seek(position - base)
                file.write(bytes([found ^ 0x40]))
            return
    raise AssertionError("no segment holds it")
