"""What the long-term owner answers, and when."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec
import pytest

from neverforget.actors import longterm_messages as m
from neverforget.actors.longterm import LONGTERM
from neverforget.actors.longterm_messages import packed, unpacked
from neverforget.actors.messages import (
    SYNC_DISK,
    SYNC_PROCESS,
    AnyRequest,
    Audit,
    BackupReply,
    DoneReply,
    NamespacesReply,
    Refuse,
    Settle,
    Verify,
    VerifyReply,
)
from neverforget.actors.messages import Backup as BackupRequest
from neverforget.storage.control import Body
from neverforget.storage.errors import Corrupt
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.longterm import LongTermRegion
from neverforget.storage.longterm_bodies import Array, BodySource, read_each
from neverforget.storage.longterm_results import MemoryFilter, MemoryView
from neverforget.storage.record import Header
from neverforget.storage.results import AuditView
from tests.actors.conftest import Owning
from tests.actors.longterm_owners import STORE_ID, OwnedLongTerm, hits, own, views
from tests.actors.regions import Asked, ManualClock
from tests.fakes.failing_filesystem import FailingFileSystem
from tests.fakes.held_sync import HeldSyncFileSystem


def test_what_is_remembered_is_found_by_id_by_words_and_by_meaning(longterm: OwnedLongTerm) -> None:
    tea, _ = longterm.remember("Caroline likes green tea", "the meeting is on monday")
    assert longterm.get(tea) == ["Caroline likes green tea"]
    for strategy in ("vector", "hybrid", "text"):
        reply = longterm.recall("green tea", strategy=strategy)
        assert hits(reply)[0].memory.id == tea
        assert (reply.complete, reply.pending, reply.reason) == (True, 0, None)


def test_a_welcome_tells_that_it_is_the_long_term_owner(longterm: OwnedLongTerm) -> None:
    welcome = longterm.owner.welcome(1)
    assert (welcome.partition, welcome.state) == (LONGTERM, "serving")
    assert welcome.store_id == STORE_ID


def test_one_turn_writes_once_and_answers_process_before_disk(owning: Owning) -> None:
    fs = HeldSyncFileSystem()
    owned = owning(fs=fs)
    sent: list[list[int]] = []
    process = owned.remember_request("quick", sync=SYNC_PROCESS)
    disk = owned.remember_request("safe", sync=SYNC_DISK)
    order: list[int] = []
    asked = [Asked(disk, order), Asked(process, order)]
    owned.owner.run(asked, lambda: sent.append(list(order)))
    assert sent[0] == [process.id]
    assert order == [process.id, disk.id]


def test_a_repeat_is_answered_as_the_first_time(longterm: OwnedLongTerm) -> None:
    request = longterm.remember_request("once")
    first, second = (longterm.ask(request, m.MemoriesReply) for _ in range(2))
    assert [v.id for v in views(first)] == [v.id for v in views(second)]
    assert first.new == second.new == [True]
    assert longterm.found("once") == ["once"]


def test_a_revision_is_found_by_its_new_words_only(longterm: OwnedLongTerm) -> None:
    (memory,) = longterm.remember("the cat sleeps")
    longterm.ask(longterm.revise(memory, text="a dog barks"), m.MemoriesReply)
    assert longterm.found("dog", strategy="text") == ["a dog barks"]
    assert longterm.found("cat", strategy="text") == []
    history = longterm.ask(m.History(99, (), memory, False, 0), m.MemoriesReply)
    assert [(v.version, v.text) for v in views(history)] == [
        (2, "a dog barks"),
        (1, "the cat sleeps"),
    ]


def test_tags_relations_and_reverts_are_served(longterm: OwnedLongTerm) -> None:
    one, other = longterm.remember("one", "other")
    number = longterm.next_id()
    tag = m.Tag(number, (), "tester", 7, number, one, ["ai:llm"], True)
    (tagged,) = views(longterm.ask(tag, m.MemoriesReply))
    assert tagged.tags == ("ai:llm",)
    assert longterm.found("one", tags=("ai",)) == ["one"]

    number = longterm.next_id()
    relate = m.Relate(number, (), "tester", 7, number, one, other, "because-of", 0.5)
    longterm.ask(relate, m.EndReply)
    listing = m.Relations(1, (), other, None, "in", 10)
    (relation,) = longterm.ask(listing, m.RelationsReply).relations
    assert (relation.source, relation.kind, relation.weight) == (one, "because-of", 0.5)
    number = longterm.next_id()
    unrelate = m.Relate(number, (), "tester", 7, number, one, other, "because-of", None)
    longterm.ask(unrelate, m.EndReply)
    assert longterm.ask(listing, m.RelationsReply).relations == []

    longterm.ask(longterm.revise(one, text="changed"), m.MemoriesReply)
    number = longterm.next_id()
    revert = m.Revert(number, (), "tester", 7, number, one, 1, None)
    assert views(longterm.ask(revert, m.MemoriesReply))[0].text == "one"


def test_what_is_forgotten_is_in_no_recall_after_the_answer(longterm: OwnedLongTerm) -> None:
    memory, _ = longterm.remember("a secret about tea", "tea for two")
    assert len(longterm.found("tea")) == 2
    reply = longterm.ask(longterm.forget(memory), m.ForgottenReply)
    entry = unpacked(reply.entry, AuditView)
    assert (entry.operation, entry.by, reply.count) == ("forget", "tester", 1)
    # Not even one that does not wait for anything.
    assert longterm.found("tea", after=0, wait_ms=0) == ["tea for two"]
    assert longterm.get(memory) == [None]
    assert longterm.get(memory, forgotten=True) == ["a secret about tea"]

    longterm.ask(longterm.forget(memory, "undo-forget", confirm=None), m.ForgottenReply)
    assert sorted(longterm.found("tea")) == ["a secret about tea", "tea for two"]


def test_archived_memories_are_found_only_when_asked_for(longterm: OwnedLongTerm) -> None:
    (memory,) = longterm.remember("an old plan")
    longterm.ask(longterm.forget(memory, "archive"), m.ForgottenReply)
    assert longterm.found("plan") == []
    assert longterm.found("plan", status=None) == ["an old plan"]
    longterm.ask(longterm.forget(memory, "unarchive", confirm=None), m.ForgottenReply)
    assert longterm.found("plan") == ["an old plan"]


def test_a_deletion_without_the_word_is_refused_and_on_record(longterm: OwnedLongTerm) -> None:
    (memory,) = longterm.remember("stays")
    assert longterm.refused(longterm.forget(memory, confirm="yes")) == "confirmation_required"
    longterm.ask(Refuse(2, "forget", {"id": memory}, "somebody", None), DoneReply)
    audit = m.AuditMemories(3, (), None, None, None, None, None, None, 10)
    entries = unpacked(longterm.ask(audit, m.LongTermAuditReply).entries, list[AuditView])
    assert [(e.operation, e.by) for e in entries] == [
        ("forget-refused", "tester"),
        ("forget-refused", "somebody"),
    ]
    assert longterm.get(memory) == ["stays"]


def test_forgetting_by_a_filter_counts_exactly(longterm: OwnedLongTerm) -> None:
    longterm.remember("one", "two", tags=("old",))
    longterm.remember("three")
    wanted = packed(MemoryFilter(tags=("old",)))

    def forget_where(dry_run: bool) -> int:
        number = longterm.next_id()
        request = m.ForgetWhere(
            number, (), "tester", 7, number, "forget", wanted, dry_run, "confirmed", None
        )
        return longterm.ask(request, m.ForgottenReply).count

    assert (forget_where(True), forget_where(False), forget_where(False)) == (2, 2, 0)
    report = longterm.ask(m.DeletionReport(5, (), None, None), m.DeletionReportReply)
    assert b"forgotten" not in report.report  # packed without names
    assert longterm.found("one two three", strategy="text") == ["three"]


def test_nothing_outside_of_a_scope_is_seen_or_touched(longterm: OwnedLongTerm) -> None:
    """As if it were not there: NotFound, whatever is asked."""
    (mine,) = longterm.remember("mine", namespace=("a",))
    (theirs,) = longterm.remember("theirs", namespace=("b",))
    (below,) = longterm.remember("below", namespace=("a", "x"))
    scope = ("a",)
    assert longterm.get(mine, theirs, below, scope=scope) == ["mine", None, "below"]
    number = longterm.next_id
    refused: list[AnyRequest] = [
        longterm.revise(theirs, scope, text="x"),
        m.Revert(number(), scope, "t", 7, number(), theirs, 1, None),
        m.Tag(number(), scope, "t", 7, number(), theirs, ["x"], True),
        m.Relate(number(), scope, "t", 7, number(), mine, theirs, "k", 1.0),
        m.Relate(number(), scope, "t", 7, number(), theirs, mine, "k", 1.0),
        longterm.forget(theirs, scope=scope),
        longterm.forget(theirs, "unarchive", scope=scope),
        longterm.erase(mine, theirs, scope=scope),
        m.EraseMemoriesWhere(number(), scope, "t", 7, number(), ("b",), False, "confirmed", None),
        m.ForgetWhere(
            number(), scope, "t", 7, number(), "forget", packed(MemoryFilter(namespace=("b",))),
            False, "confirmed", None,
        ),
        m.History(number(), scope, theirs, False, 0),
        m.Relations(number(), scope, theirs, None, "both", 10),
        longterm.remember_request("x", namespace=("b",), scope=scope),
    ]  # fmt: skip
    assert [longterm.refused(request) for request in refused] == ["not_found"] * len(refused)
    assert longterm.get(mine, theirs, below) == ["mine", "theirs", "below"]


def test_relations_to_what_lies_outside_are_not_shown(longterm: OwnedLongTerm) -> None:
    (mine,) = longterm.remember("mine", namespace=("a",))
    (theirs,) = longterm.remember("theirs", namespace=("b",))
    number = longterm.next_id()
    longterm.ask(m.Relate(number, (), "t", 7, number, mine, theirs, "k", 1.0), m.EndReply)
    shown = [
        longterm.ask(m.Relations(1, scope, mine, None, "both", 10), m.RelationsReply).relations
        for scope in ((), ("a",))
    ]
    assert [len(each) for each in shown] == [1, 0]


def test_listings_keys_and_namespaces_are_served(longterm: OwnedLongTerm) -> None:
    longterm.remember("first", key="k", namespace=("a", "x"))
    longterm.remember("second", namespace=("b",))
    page = longterm.ask(
        m.Memories(1, packed(MemoryFilter()), None, None, False, 1), m.MemoryPageReply
    )
    assert [v.text for v in unpacked(page.memories, list[MemoryView])] == ["first"]
    assert page.more
    by_key = longterm.ask(m.GetByKey(2, ("a", "x"), packed("k")), m.MemoriesReply)
    assert views(by_key)[0].text == "first"
    assert longterm.refused(m.GetByKey(3, ("b",), packed("k"))) == "not_found"
    places = longterm.ask(m.MemoryNamespaces(4, (), 1, None, 10), NamespacesReply)
    assert places.namespaces == [("a",), ("b",)]


def test_a_reply_is_cut_at_its_bound_and_never_empty(owning: Owning) -> None:
    owned = owning(reply_bytes_max=10_000)
    ids = owned.remember("a" * 9_000, "b" * 9_000)
    reply = owned.ask(m.GetMemories(1, (), ids, False), m.MemoriesReply)
    assert [v.text[0] for v in views(reply)] == ["a"]
    found = owned.recall("a", wait_ms=10_000)
    assert len(hits(found)) == 1


def test_a_mistake_of_one_request_is_its_own(longterm: OwnedLongTerm) -> None:
    bad = m.Recall(1, b"no cbor", packed(MemoryFilter()), "text", "weighted", 1, 0, False, 0, 0)
    good = longterm.remember_request("good")
    asked = longterm.start(bad, Audit(2, None, None, None, None, None, None, None, 1), good)
    longterm.until(lambda: all(one.replies for one in asked))
    assert [one.code for one in asked] == ["invalid_argument", "invalid_argument", None]


def test_after_a_failed_sync_the_log_is_opened_anew_and_all_that_was_promised_is_there(
    owning: Owning,
) -> None:
    fs = FailingFileSystem()
    owned = owning(fs=fs)
    owned.remember("promised")
    once = iter([True])  # it is opened anew at once, maybe before anything could be mended
    fs.fails = lambda op, path: op == "sync" and path.suffix == ".seg" and next(once, False)
    assert owned.refused(owned.remember_request("in doubt")) == "poisoned"
    owned.until(lambda: owned.status().state == "serving" and owned.status().index is not None)
    assert "promised" in owned.found("promised in doubt")
    owned.remember("afterwards")
    assert owned.found("afterwards", strategy="text") == ["afterwards"]


def test_what_is_asked_while_it_opens_waits(owning: Owning) -> None:
    owned = owning(opened=False)
    remember = owned.remember_request("early")
    asked = owned.start(remember, owned.recall_request("early"))
    assert not any(one.replies for one in asked)
    assert owned.status().state == "recovering"
    owned.owner.start()
    owned.until(lambda: all(one.replies for one in asked))
    assert isinstance(asked[1].answer, m.RecallReply)


def test_everybody_who_waits_is_told_when_it_ends(owning: Owning) -> None:
    owned = owning(opened=False)
    asked = owned.start(owned.remember_request("late"), owned.recall_request("late"))
    owned.owner.close()
    assert [one.code for one in asked] == ["unavailable", "unavailable"]


def test_what_was_written_for_the_process_is_synced_within_the_interval(owning: Owning) -> None:
    owned = owning()
    owned.remember("soon", sync=SYNC_PROCESS)
    region = owned.owner._life.region
    assert region is not None and region.durable < region.written
    owned.pass_time(1.0)
    assert region.durable == region.written


def test_a_backup_opens_as_the_store(longterm: OwnedLongTerm, tmp_path: Path) -> None:
    longterm.remember("copied")
    longterm.settle()
    target = tmp_path / "copy" / "longterm" / "0"
    reply = longterm.ask(BackupRequest(1, str(target)), BackupReply)
    assert reply.bytes > 0
    copy = LongTermRegion.open(LocalFileSystem(), target, store_id=STORE_ID)
    assert [view.text for view in copy.memories(MemoryFilter()).memories] == ["copied"]
    copy.close()
    copied = own(target, clock=ManualClock())
    assert copied.found("copied") == ["copied"]
    copied.owner.close()


def test_verify_reads_the_log_and_finds_nothing_wrong(longterm: OwnedLongTerm) -> None:
    longterm.remember("sound")
    reply = longterm.ask(Verify(1), VerifyReply)
    assert (reply.findings, reply.records) == ([], 1)


def test_settle_answers_when_all_is_searchable(longterm: OwnedLongTerm) -> None:
    longterm.start(longterm.remember_request(*(f"number {n}" for n in range(300))))
    longterm.ask(Settle(1), DoneReply)
    index = longterm.index()
    assert (index.lag, index.waiting, index.vectors) == (0, 0, 300)


@pytest.mark.parametrize("how", ["closed", "left"])
def test_what_was_remembered_is_found_by_the_next_owner(owning: Owning, how: str) -> None:
    owned = owning()
    owned.remember("kept for ever")
    owned.settle()
    if how == "closed":
        owned.owner.close()
    again = owning()
    for strategy in ("text", "vector"):
        assert again.found("kept", strategy=strategy) == ["kept for ever"]
    if how == "left":
        owned.owner.close()


def test_equal_texts_of_a_namespace_are_one_hit(longterm: OwnedLongTerm) -> None:
    """Both are kept: they are grouped where they are found, and others move up."""
    ids = longterm.remember(*["green tea"] * 12, namespace=("a",))
    longterm.remember("green tea", namespace=("b",))
    longterm.remember("black tea", namespace=("a",))
    for strategy in ("vector", "text", "hybrid"):
        found = hits(longterm.recall("green tea", strategy=strategy, limit=3))
        groups = [(hit.memory.text, hit.memory.namespace, len(hit.duplicates)) for hit in found]
        assert sorted(groups[:2]) == [("green tea", ("a",), 11), ("green tea", ("b",), 0)]
        assert groups[2] == ("black tea", ("a",), 0)
        first = next(hit for hit in found if hit.duplicates)
        assert sorted([first.memory.id, *first.duplicates]) == sorted(ids)
        second = hits(longterm.recall("green tea", strategy=strategy, limit=2, offset=1))
        assert [hit.memory.id for hit in second] == [hit.memory.id for hit in found[1:]]


def test_a_hit_that_cannot_be_read_is_replaced_by_the_next(longterm: OwnedLongTerm) -> None:
    texts = [f"number {n} of the teas" for n in range(30)]
    longterm.remember(*texts)
    longterm.settle()
    indexing = longterm.owner.indexing
    assert indexing is not None and indexing.index is not None
    view = indexing.index.view()
    bodies = Unreadable(view.bodies, set(view.rows.column("position")[:15].tolist()))
    indexing.region.state.bodies = bodies
    longterm.remember("another")  # a new view
    found = longterm.found("teas", strategy="text", limit=10)
    assert len(found) == 10
    assert not set(found).intersection(texts[:15])


class Unreadable:
    """Bodies, some of which cannot be read."""

    def __init__(self, inner: BodySource, bad: set[int]) -> None:
        self._inner = inner
        self._bad = bad

    def read(self, position: int) -> tuple[Header, Body]:
        if position in self._bad:
            raise Corrupt("it was erased a moment ago")
        return self._inner.read(position)

    def read_many(self, positions: Array, fields: Collection[int]) -> Iterator[tuple[int, Body]]:
        return read_each(self, positions)


def test_what_is_valid_now_is_recalled_first(longterm: OwnedLongTerm) -> None:
    """By the owner's clock, or seen from the moment that the caller names."""
    now = longterm.clock.now_us()
    longterm.remember("Ann lives in the town of Oslo", valid_to=now - 10)
    longterm.remember("Ann lives in the town of Bergen", valid_from=now - 10)
    asked = longterm.recall_request("where is Oslo, the town in which Ann lives?")
    then = msgspec.structs.replace(asked, now=now - 20)
    for request, expected in ((asked, ["Bergen", "Oslo"]), (then, ["Oslo", "Bergen"])):
        found = hits(longterm.ask(request, m.RecallReply))
        assert [hit.memory.text.split()[-1] for hit in found] == expected
