"""What a view of a namespace is told of deletions, and may purge: its own, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.audit_places import lies_within, places_of, shared
from neverforget.storage.errors import ConfirmationRequired
from neverforget.storage.longterm_results import MemoryFilter
from neverforget.storage.results import AuditView
from tests.storage.small_longterm import OPTIONS, LongTermBench, longterm

ANA, BOB = ("users", "ana"), ("users", "bob")


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LongTermBench]:
    with longterm(tmp_path / "lt") as opened:
        yield opened


def test_what_a_place_stands_for_can_be_checked_and_not_read() -> None:
    salt = bytes(range(16))
    for namespace in ((), ("a",), ("a", "b"), ("ab",), ("a", "b", "c"), ("\ud800",)):
        places = places_of(namespace, salt)
        assert len(places) == 16 * len(namespace)
        for scope in ((), ("a",), ("a", "b"), ("a", "c"), ("ab",), ("b",), ("a", "b", "c", "d")):
            assert lies_within(places, salt, scope) is (namespace[: len(scope)] == scope)
    assert places_of(("a",), bytes(16)) != places_of(("a",), salt)
    assert not lies_within(None, salt, ("a",))
    assert shared([("a", "b"), ("a", "c"), ("a",)]) == ("a",)
    assert shared([("a", "b")]) == ("a", "b")
    assert shared([]) == shared([("a",), ("b",)]) == ()


def operations(b: LongTermBench, scope: tuple[str, ...]) -> list[str]:
    return [entry.operation for entry in b.audit(scope=scope)]


def test_a_view_sees_what_was_done_within_it(b: LongTermBench) -> None:
    hers, his = b.remember("hers", namespace=(*ANA, "x")), b.remember("his", namespace=BOB)
    b.forget(hers.id, reason="asked to")
    b.undo(hers.id)
    b.archive(his.id)
    b.unarchive(his.id)
    for memory in (hers, his):
        with pytest.raises(ConfirmationRequired):
            b.erase(memory.id, confirm=None)
    b.forget_where(namespace=ANA)
    her_own = ["forget", "undo-forget", "forget-refused", "forget"]

    def check() -> None:
        assert operations(b, ANA) == operations(b, (*ANA, "x")) == her_own
        assert operations(b, BOB) == ["archive", "unarchive", "forget-refused"]
        assert operations(b, ("users",)) == operations(b, ())
        assert operations(b, ("user",)) == operations(b, ("users", "an")) == []
        assert b.audit(scope=ANA)[0].target["id"] == hers.id
        assert b.audit(scope=ANA, target=his.id) == []
        report = b.region.deletion_report(None, None, scope=ANA)
        assert (report.forgotten, report.restored, report.archived) == (2, 1, 0)
        assert (report.refused, report.erased) == (1, her_own.count("erase"))

    check()
    b.reopen(seal=True)
    check()
    b.erase(hers.id)
    her_own.append("erase")
    check()
    b.reopen()
    check()


def test_an_entry_about_several_views_tells_each_its_own_part(b: LongTermBench) -> None:
    for n in range(3):
        b.remember(f"hers {n}", namespace=ANA, tags=("t",))
    told = [b.remember(f"his {n}", namespace=BOB, tags=("t",)) for n in range(2)]
    answer = b.forget_where(tags=("t",))
    assert answer.entry is not None
    for scope, count in ((ANA, 3), (BOB, 2)):
        (entry,) = b.audit(scope=scope)
        assert (entry.operation, entry.target, entry.details) == ("forget", {}, {"count": count})
        assert b.region.entry_as_seen(answer.entry, scope) == entry
        assert b.region.deletion_report(None, None, scope=scope).forgotten == count
    assert b.region.entry_as_seen(answer.entry, ()) == answer.entry
    assert b.region.entry_as_seen(answer.entry, ("other",)) is None
    (whole,) = b.audit(scope=("users",))
    assert whole == answer.entry
    assert b.forget(told[0].id).entry == whole, "forgetting again answers the first entry"


def test_a_view_purges_what_it_forgot_and_nothing_else(b: LongTermBench) -> None:
    hers, his = b.remember("hers", namespace=ANA), b.remember("his", namespace=BOB)
    for memory in (hers, his):
        b.forget(memory.id)
    with pytest.raises(ConfirmationRequired):
        b.purge(2**62, scope=ANA, confirm=None)
    assert b.purge(2**62, scope=ANA, dry_run=True).count == 1
    request = b.next_request()
    answer = b.purge(2**62, scope=ANA, request=request)
    assert (answer.count, answer.ids) == (1, [hers.id])
    for _ in range(2):
        assert b.purge(2**62, scope=ANA, request=request).ids == [hers.id]
        assert b.texts(status="forgotten") == ["his"]
        assert operations(b, ANA) == ["forget", "forget-refused", "purge"]
        assert operations(b, BOB) == ["forget"]
        b.reopen(seal=True)
    assert b.purge(2**62, scope=("users", "b")).count == 0
    assert b.purge(2**62).count == 1


def test_an_erasure_tells_a_view_nothing_of_whom_it_met_outside(b: LongTermBench) -> None:
    hers, other = b.remember("said by her", namespace=ANA), b.remember("other", namespace=BOB)
    quoting = b.remember("near", namespace=BOB, context="said by her, and on")
    only, both = (b.remember(f"derived {n}", namespace=BOB) for n in range(2))
    for memory in (only, both):
        b.relate(memory.id, hers.id, "derived-from")
    b.relate(both.id, other.id, "derived-from")
    erased = b.erase(hers.id)
    assert (erased.flagged, erased.revised) == ([both.id], [quoting.id])
    as_seen = b.region.erasure_as_seen(erased, ANA)
    assert (as_seen.ids, as_seen.flagged, as_seen.revised) == ([hers.id], [], [])
    (entry,) = b.audit(scope=ANA)
    assert (entry.details["flagged"], entry.details["revised"]) == ([], [])
    assert b.audit()[0].details["revised"] == [quoting.id]


def test_an_audit_is_read_to_its_end_in_bounded_parts(tmp_path: Path) -> None:

    with longterm(tmp_path / "lt", options=replace(OPTIONS, scan_records_max=3)) as b:
        for n in range(10):
            b.forget(b.remember(f"m{n}", namespace=ANA if n == 8 else BOB).id)
        found: list[AuditView] = []
        parts, after = 0, None
        while True:
            part = b.region.audit(after=after, scope=ANA)
            found += part.entries
            parts, after = parts + 1, part.upto
            if not part.more:
                break
        assert [e.operation for e in found] == ["forget"]
        assert parts == 4
        later: dict[str, Any] = {"after": after, "scope": ANA}
        assert b.region.audit(**later) == ([], False, after)
        b.forget(b.remember("m", namespace=ANA).id)
        assert len(b.region.audit(**later).entries) == 1, "the end stays usable"
        assert b.region.count(MemoryFilter()) == 0
