"""Forgetting, archiving, purging, erasing, and what is on the record of it, over a real store."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime import forgetting_operations
from neverforget.runtime.operation import LONGTERM, Call
from neverforget.storage.errors import Unavailable
from tests.storage.bytes_left import left_of

UNCONFIRMED: list[Any] = [None, True, 1, "confirmed", "CONFIRMED", nf.Confirmation]


@pytest.fixture
def store(nf_store: nf.Store) -> nf.Store:
    return nf_store.scoped(agent="ada")


def operations(page: nf.Page[nf.AuditEntry]) -> list[str]:
    return [entry.operation for entry in page]


def found(store: nf.Store, query: str) -> list[str]:
    return [hit.memory.id for hit in store.recall(query, limit=100)]


# ---- confirmation --------------------------------------------------------------------------------


def test_without_confirmation_nothing_goes_and_the_refusal_is_on_record(store: nf.Store) -> None:
    made = store.remember("Oslo", namespace="acme", tags="t")
    deletions: dict[str, Callable[..., Any]] = {
        "forget": lambda **how: store.forget(made.id, **how),
        "archive": lambda **how: store.archive(made.id, **how),
        "forget_where": lambda **how: store.forget_where(tags="t", **how),
        "archive_where": lambda **how: store.archive_where(tags="t", **how),
        "purge": lambda **how: store.purge(older_than=timedelta(0), **how),
        "erase": lambda **how: store.erase(made.id, **how),
        "erase_where": lambda **how: store.erase_where(namespace="acme", **how),
    }
    for delete in deletions.values():
        for confirm in UNCONFIRMED:
            with pytest.raises(nf.ConfirmationRequired, match="CONFIRMED"):
                delete(confirm=confirm, reason="why")
        with pytest.raises(ValueError):
            delete()
    entries = store.audit(limit=1000)
    assert len(entries) == len(deletions) * (len(UNCONFIRMED) + 1)
    assert {entry.operation for entry in entries} == {"forget-refused"}
    assert {entry.by for entry in entries} == {"ada"}
    asked = {entry.details["operation"] for entry in entries}
    assert asked == {"forget", "archive", "purge", "erase"}
    assert {entry.reason for entry in entries} == {"why", None}
    assert len(store.audit(target=made, limit=1000)) >= 3 * (len(UNCONFIRMED) + 1)
    assert store.get(made.id) == made
    report = store.deletion_report(None)
    assert report.refused == len(entries) and report.by == {"ada": len(entries)}


def test_arguments_are_checked_before_anything_is_on_record(store: nf.Store) -> None:
    made = store.remember("x")
    wrong: list[Callable[[], Any]] = [
        lambda: store.forget(made),  # type: ignore[arg-type]
        lambda: store.forget(made.id, reason=5),  # type: ignore[arg-type]
        lambda: store.forget(made.id, by=""),
        lambda: store.forget_where(),
        lambda: store.forget_where(namespace=()),
        lambda: store.forget_where(tags=(), where={}, confirm=nf.CONFIRMED),
        lambda: store.scoped(namespace="a").forget_where(confirm=nf.CONFIRMED),
        lambda: store.scoped(namespace="a").forget_where(namespace=(), confirm=nf.CONFIRMED),
        lambda: store.archive_where(dry_run=True),
        lambda: store.forget_where(where={"bad": 1}),
        lambda: store.forget_where(tags="t", dry_run="yes"),  # type: ignore[arg-type]
        lambda: store.forget_where(older_than=timedelta(days=-1)),
        lambda: store.forget_where(older_than=datetime(2025, 1, 1)),
        lambda: store.forget_where(older_than=5, dry_run=True),  # type: ignore[arg-type]
        lambda: store.archive_where(older_than="2025-01-01Z"),  # type: ignore[arg-type]
        lambda: store.purge(older_than=30, dry_run=True),  # type: ignore[arg-type]
        lambda: store.purge(older_than=None),  # type: ignore[arg-type]
        lambda: store.erase_where(namespace=()),
        lambda: store.erase_where(namespace=None),
    ]
    for call in wrong:
        with pytest.raises(nf.InvalidArgument):
            call()
    with pytest.raises(nf.NotFound):
        store.forget("nonsense")
    assert len(store.audit()) == 0


def test_a_refusal_that_cannot_be_recorded_is_one_all_the_same(store: nf.Store) -> None:
    operation = forgetting_operations.forget(
        store._context, store._scope, "forget", store.remember("x").id, True, None, None
    )
    call = operation.send(None)
    assert isinstance(call, Call) and call.partition == LONGTERM
    with pytest.raises(nf.ConfirmationRequired) as caught:
        operation.throw(Unavailable("nobody there", outcome="not_applied"))
    assert "nobody there" in caught.value.__notes__[0]


# ---- forgetting and back -------------------------------------------------------------------------


def test_what_is_forgotten_leaves_every_way_of_reading_at_once(store: nf.Store) -> None:
    other = store.remember("the parcel")
    made = store.remember("the parcel in Oslo", key="k", tags="t", related_to=other.id)
    entry = store.forget(made.id, confirm=nf.CONFIRMED, reason="old", by="bob")
    assert (entry.operation, entry.by, entry.reason) == ("forget", "bob", "old")
    assert entry.target["id"] == made.id and entry.key == "k" and entry.at.tzinfo is UTC
    assert store.get(made.id, default=None) is None
    assert store.get(key="k", default=None) is None
    assert store.get_many([made.id]) == [None]
    assert found(store, "parcel Oslo") == [other.id]
    assert [memory.id for memory in store.memories()] == [other.id]
    assert store.relations(other.id) == []
    for call in (store.history, store.relations, store.provenance):
        with pytest.raises(nf.NotFound):
            call(made.id)
    gone = store.get(made.id, include_forgotten=True)
    assert (gone.status, gone.text) == ("forgotten", made.text)
    assert [memory.id for memory in store.memories(status="forgotten")] == [made.id]
    again = store.forget(made.id, confirm=nf.CONFIRMED, reason="again")
    assert (again.at, again.by, again.reason) == (entry.at, "bob", "old")

    store.undo_forget(made.id)
    assert store.get(key="k") == made
    assert found(store, "parcel Oslo")[0] == made.id
    assert len(store.relations(other.id)) == 1
    assert operations(store.audit(target=made.id)) == ["forget", "undo-forget"]
    with pytest.raises(nf.Conflict):
        store.undo_forget(made.id)


def test_undoing_is_a_conflict_when_the_key_was_given_away(store: nf.Store) -> None:
    first = store.remember("one", key="k")
    store.forget(first.id, confirm=nf.CONFIRMED)
    store.remember("two", key="k")
    with pytest.raises(nf.Conflict):
        store.undo_forget(first.id)


def test_archiving_hides_and_keeps(store: nf.Store) -> None:
    made = store.remember("the parcel", key="k")
    store.archive(made.id, confirm=nf.CONFIRMED)
    store.archive(made.id, confirm=nf.CONFIRMED)
    assert store.get(key="k").status == "archived"
    assert found(store, "parcel") == [] and len(store.memories()) == 0
    assert len(store.memories(status="archived")) == len(store.memories(status=None)) == 1
    store.unarchive(made.id)
    store.unarchive(made.id)
    assert found(store, "parcel") == [made.id]
    assert operations(store.audit()) == ["archive", "unarchive"]


def test_bulk_deletions_count_exactly(store: nf.Store) -> None:
    store.remember_many(
        {"text": f"fact {n}", "tags": "odd" if n % 2 else "even", "metadata": {"n": n}}
        for n in range(50)
    )
    store.archive(store.memories(tags="even", limit=1)[0].id, confirm=nf.CONFIRMED)
    assert store.forget_where(tags="even", dry_run=True) == 25
    assert store.archive_where(tags="even", dry_run=True) == 24
    assert store.forget_where(older_than=timedelta(days=1), dry_run=True) == 0
    assert store.forget_where(older_than=timedelta(0), tags="odd", dry_run=True) == 25
    assert len(store.audit()) == 1
    assert store.forget_where(tags="even", confirm=nf.CONFIRMED) == 25
    assert store.archive_where(where={"metadata.n": {"$lt": 10}}, confirm=nf.CONFIRMED) == 5
    assert len(store.memories()) == 20 and len(store.memories(status="archived")) == 5
    assert [entry.details["count"] for entry in store.audit()] == [1, 25, 5]
    assert store.forget_where(tags="even", confirm=nf.CONFIRMED) == 0
    assert len(store.audit()) == 3


def test_purging_ends_what_could_be_undone(store: nf.Store) -> None:
    kept, gone = store.remember_many([{"text": "kept"}, {"text": "gone"}])
    store.forget(gone.id, confirm=nf.CONFIRMED)
    store.forget(kept.id, confirm=nf.CONFIRMED)
    store.undo_forget(kept.id)
    assert store.purge(older_than=timedelta(days=1), confirm=nf.CONFIRMED) == 0
    assert store.purge(older_than=timedelta(0), dry_run=True) == 1
    assert store.purge(older_than=datetime.now(UTC), confirm=nf.CONFIRMED) == 1
    with pytest.raises(nf.NotFound):
        store.undo_forget(gone.id)
    assert store.get(gone.id, include_forgotten=True, default=None) is None
    assert store.get(kept.id) == kept


# ---- erasing -------------------------------------------------------------------------------------


def test_erasing_leaves_no_byte_and_says_what_it_did(store: nf.Store) -> None:
    secret = store.remember("canaryword one", tags="t")
    derived = store.remember("derived", related_to=[(secret.id, "derived-from")])
    both = store.remember("x", related_to=[(secret.id, "derived-from"), (derived.id, "about")])
    store.session("chat").append("user", "hello")
    store.relate(both.id, nf.TurnRef((), "chat", 0, 0), "derived-from")
    store.recall("canaryword")
    assert left_of(Path(store.address), "canaryword") != []
    report = store.erase(secret.id, confirm=nf.CONFIRMED, reason="asked to")
    assert left_of(Path(store.address), "canaryword") == []
    assert (report.turns, report.sessions, report.memories) == (0, 0, 2)
    assert report.flagged == (both.id,) and report.bytes > 0 and report.unreachable
    assert store.get(secret.id, include_forgotten=True, default=None) is None
    assert store.get(derived.id, default=None) is None and store.get(both.id) == both
    assert len(store.recall("canaryword", strategy="text")) == 0
    assert found(store, "canaryword") == [both.id]  # near to nothing, but there is nothing else
    with pytest.raises(nf.NotFound):
        store.erase(secret.id, confirm=nf.CONFIRMED)
    entry = store.audit(operation="erase")[0]
    assert entry.reason == "asked to" and "canary" not in repr(entry)


def test_erase_where_takes_sessions_and_memories_and_counts_both(store: nf.Store) -> None:
    for namespace in ("acme", ("acme", "eu"), "other"):
        for name in ("a", "b"):
            chat = store.session(name, namespace=namespace)
            chat.append_many([{"role": "user", "content": "canaryturn"}] * 3)
        store.remember_many([{"text": "canarymemory", "namespace": namespace}] * 2)
    fork = store.session("a", namespace="acme").fork("fork", at=2)
    counted = store.erase_where(namespace="acme", dry_run=True)
    assert (counted.sessions, counted.memories, counted.turns) == (5, 4, 14)
    assert len(fork) == 2 and len(store.audit(operation="erase")) == 0
    report = store.scoped(namespace="acme").erase_where(namespace=(), confirm=nf.CONFIRMED)
    assert (report.sessions, report.memories, report.turns) == (5, 4, 12)
    assert report.bytes > 0
    assert [tuple(info.namespace) for info in store.sessions()] == [("other",)] * 2
    assert [memory.namespace for memory in store.memories()] == [("other",)] * 2
    assert store.namespaces().items == (("other",),)
    again = store.erase_where(namespace="acme", confirm=nf.CONFIRMED)
    assert (again.sessions, again.memories, again.turns) == (0, 0, 0)
    summary = store.deletion_report("today")
    assert (summary.erased, summary.turns) == (4, 12)
    store.erase_where(namespace="other", confirm=nf.CONFIRMED)
    assert left_of(Path(store.address), "canary") == []


# ---- on the record -------------------------------------------------------------------------------


def test_the_audit_is_merged_over_conversations_and_memories(store: nf.Store) -> None:
    chat = store.session("a")
    chat.append_many([{"role": "user", "content": str(n)} for n in range(9)])
    made = store.remember_many([{"text": str(n)} for n in range(9)])
    for n in range(9):
        chat.hide(n)
        store.forget(made[n].id, confirm=nf.CONFIRMED, by="bob" if n % 3 == 0 else None)
    assert operations(store.audit()) == ["hide", "forget"] * 9
    assert len(store.audit(operation="forget")) == 9 and len(store.audit(by="bob")) == 3
    assert operations(store.audit(target=chat)) == ["hide"] * 9
    assert operations(store.audit(target=made[0])) == ["forget"]
    assert operations(store.audit(target=made[0].id, operation="erase")) == []
    for limit in (1, 4, 7):
        page = store.audit(limit=limit)
        walked = list(page)
        while page.has_more:
            page = store.audit(limit=limit, after=page.next)
            walked += page
        assert operations(nf.Page(tuple(walked), "")) == ["hide", "forget"] * 9
    chat.unhide(0)
    assert operations(store.audit(limit=7, after=page.next)) == ["unhide"]
    with pytest.raises(nf.InvalidArgument):
        store.audit(after=page.next, by="bob")
    with pytest.raises(nf.InvalidArgument, match="forget"):
        store.audit(operation="forgotten")
    with pytest.raises(nf.InvalidArgument):
        store.audit(target=5)  # type: ignore[arg-type]


def test_a_deletion_report_adds_up_who_did_what(store: nf.Store) -> None:
    chat = store.session("a")
    chat.append_many([{"role": "user", "content": str(n)} for n in range(5)])
    made = store.remember_many([{"text": str(n), "tags": "t"} for n in range(6)])
    before = datetime.now(UTC)
    store.forget_where(tags="t", confirm=nf.CONFIRMED)
    store.undo_forget(made[0].id)
    store.archive(made[0].id, confirm=nf.CONFIRMED, by="bob")
    store.unarchive(made[0].id)
    store.purge(older_than=timedelta(0), confirm=nf.CONFIRMED)
    chat.erase([1, 2], confirm=nf.CONFIRMED, by="bob")
    with pytest.raises(nf.ConfirmationRequired):
        chat.erase([3])
    store.erase(made[0].id, confirm=nf.CONFIRMED)
    report = store.deletion_report((before, None))
    assert (report.forgotten, report.restored, report.purged) == (6, 1, 5)
    assert (report.archived, report.unarchived, report.erased) == (1, 1, 1)
    assert (report.turns, report.refused) == (2, 1)
    assert report.by["bob"] == 3 and report.start == before and report.stop is None
    assert " ".join(operations(nf.Page(report.entries, ""))) == (
        "forget undo-forget archive unarchive purge erase forget-refused erase"
    )
    nothing = store.deletion_report((None, before))
    assert nothing.forgotten == 0 and nothing.entries == () and "nothing" in repr(nothing)


def test_a_view_audits_and_purges_its_own_only(store: nf.Store) -> None:
    mine, other = (store.remember("x", namespace=place).id for place in ("acme", "other"))
    view = store.scoped(namespace="acme")
    store.forget(mine, confirm=nf.CONFIRMED)
    store.forget(other, confirm=nf.CONFIRMED)
    assert [entry.target["id"] for entry in view.audit()] == [mine]
    assert view.deletion_report(None).forgotten == 1
    with pytest.raises(nf.ConfirmationRequired):
        view.purge(older_than=timedelta(0))
    assert view.purge(older_than=timedelta(0), confirm=nf.CONFIRMED) == 1
    assert store.get(other, include_forgotten=True).status == "forgotten"
    assert operations(view.audit()) == ["forget", "forget-refused", "purge"]
