"""The owner's loop over a file system that can fail: what is answered when, and what survives."""

from __future__ import annotations

import errno
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from neverforget.actors import region_opening
from neverforget.actors.messages import (
    AppendedReply,
    Backup,
    BackupReply,
    DoneReply,
    Erase,
    ErasureReply,
    Fork,
    Hello,
    Hide,
    Info,
    SessionReply,
    Settle,
    Status,
    StatusReply,
    Verify,
    VerifyReply,
    WindowReply,
)
from neverforget.actors.partition import Partition
from neverforget.storage.directory_lock import DirectoryLock
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.region import Region
from neverforget.storage.results import ForkPoint
from tests.actors.regions import (
    NAMESPACE,
    PATIENCE_S,
    SYNC_PROCESS,
    Asked,
    ManualClock,
    Owned,
    all_texts,
    append,
    disk,
    get,
    own,
    spec,
    syncs,
    texts,
    wait,
    writes,
)
from tests.fakes.crash_filesystem import ROOT, CrashFileSystem, Fault

# ---- groups --------------------------------------------------------------------------------------


def test_a_group_is_one_write_and_one_sync(owned: Owned) -> None:
    before = writes(owned.fs), syncs(owned.fs)
    asked = owned.ask(*(append(n, f"turn {n}") for n in range(50)))
    assert all(isinstance(a.answer, AppendedReply) for a in asked)
    assert (writes(owned.fs), syncs(owned.fs)) == (before[0] + 1, before[1] + 1)
    assert all_texts(owned) == [f"turn {n}" for n in range(50)]


def test_a_group_that_asks_for_process_only_is_not_synced(owned: Owned) -> None:
    before = syncs(owned.fs)
    owned.ask(append(1, sync=SYNC_PROCESS), append(2, sync=SYNC_PROCESS))
    assert syncs(owned.fs) == before


def test_process_is_answered_and_sent_before_the_sync_and_disk_after(owned: Owned) -> None:
    """Who asked for little does not wait for the disk because a neighbour asked for more."""
    events: list[Any] = []
    asked = [
        Asked(request, events) for request in (append(1), append(2, sync=SYNC_PROCESS), get(3))
    ]
    before = syncs(owned.fs)
    owned.partition.run(asked, lambda: events.append(("sent", syncs(owned.fs) - before)))
    assert events[:4] == [2, ("sent", 0), 1, ("sent", 1)]
    assert events[4] == 3


def test_a_read_of_the_same_turn_sees_what_was_appended(owned: Owned) -> None:
    read, _ = owned.ask(get(1), append(2, "new"))
    assert texts(read) == ["new"]


def test_an_error_of_one_request_leaves_its_group_alone(owned: Owned) -> None:
    broken = append(2)
    broken.records = broken.records[:-1] + b"\xff"
    first, bad, late, last = owned.ask(append(1), broken, append(3, expect=9), append(4))
    assert (bad.code, late.code) == ("invalid_argument", "conflict")
    assert isinstance(first.answer, AppendedReply)
    assert isinstance(last.answer, AppendedReply)
    assert len(all_texts(owned)) == 2


def test_a_repeat_of_what_is_not_durable_waits_for_the_disk(owned: Owned) -> None:
    owned.ask(append(1, seq=1, sync=SYNC_PROCESS))
    before = syncs(owned.fs)
    (again,) = owned.ask(append(2, seq=1))
    assert isinstance(again.answer, AppendedReply)
    assert len(again.answer.result.existing) == 1
    assert syncs(owned.fs) == before + 1
    owned.ask(append(3, seq=1))
    assert syncs(owned.fs) == before + 1


def test_everything_but_appends_is_synced_before_it_is_answered(owned: Owned) -> None:
    owned.ask(append(1, sync=SYNC_PROCESS))
    before = syncs(owned.fs)
    (hidden,) = owned.ask(Hide(2, NAMESPACE, "s", [(0, 0)], True, "me", None, 7, 2))
    assert hidden.answer == DoneReply(2)
    assert syncs(owned.fs) == before + 1


def test_settled_means_durable(owned: Owned) -> None:
    owned.ask(append(1, sync=SYNC_PROCESS))
    (settled,) = owned.ask(Settle(2))
    assert settled.answer == DoneReply(2)
    reopened = own(owned.fs.power_cut())
    assert all_texts(reopened) == ["hello"]
    reopened.partition.close()


def test_a_word_that_is_not_for_an_owner_is_refused(owned: Owned) -> None:
    (asked,) = owned.ask(Hello(1, "store"))
    assert asked.code == "invalid_argument"


def test_a_read_for_nobody_is_not_done(owned: Owned) -> None:
    asked = Asked(get(1), alive=False)
    owned.partition.run([asked])
    assert asked.replies == []


# ---- time ----------------------------------------------------------------------------------------


def test_what_was_not_synced_is_synced_within_a_second(owned: Owned) -> None:
    owned.ask(append(1, sync=SYNC_PROCESS))
    before = syncs(owned.fs)
    owned.pass_time(0.9)
    owned.ask(append(2, sync=SYNC_PROCESS))
    assert syncs(owned.fs) == before
    owned.pass_time(0.2)
    assert syncs(owned.fs) > before
    reopened = own(owned.fs.power_cut())
    assert len(all_texts(reopened)) == 2
    reopened.partition.close()


def test_an_idle_owner_proves_its_last_group_once(owned: Owned) -> None:
    """A no-op behind the last group lets recovery tell rot in it from a torn tail."""
    owned.ask(append(1))
    before = writes(owned.fs)
    owned.pass_time(60)
    assert writes(owned.fs) == before + 1
    owned.ask(get(2))
    owned.pass_time(60)
    assert writes(owned.fs) == before + 1


def test_an_idle_owner_has_nothing_due(owned: Owned) -> None:
    owned.ask(append(1))
    owned.pass_time(5)
    assert owned.partition.deadline() is None


# ---- followers -----------------------------------------------------------------------------------


def test_a_follower_is_answered_by_the_append_it_waits_for(owned: Owned) -> None:
    owned.ask(append(1))
    (follower,) = owned.ask(wait(2, after=0))
    assert follower.replies == []
    owned.ask(append(3, session="another"))
    assert follower.replies == []
    owned.ask(append(4))
    assert isinstance(follower.answer, SessionReply)
    assert follower.answer.session.turns == 2


def test_a_follower_of_what_is_there_is_answered_at_once(owned: Owned) -> None:
    follower, _ = owned.ask(wait(1, after=-1), append(2))
    assert isinstance(follower.answer, SessionReply)


def test_a_follower_of_a_session_that_begins_later_is_answered(owned: Owned) -> None:
    (follower,) = owned.ask(wait(1, after=-1, session="later"))
    owned.ask(append(2, session="later"))
    assert isinstance(follower.answer, SessionReply)


def test_a_follower_in_vain_learns_how_things_stand(owned: Owned) -> None:
    (follower,) = owned.ask(wait(1, after=5, timeout_ms=500))
    owned.pass_time(0.6)
    assert isinstance(follower.answer, SessionReply)
    assert not follower.answer.session.exists


def test_a_fork_wakes_its_followers(owned: Owned) -> None:
    owned.ask(append(1), append(2))
    (follower,) = owned.ask(wait(3, after=0, session="fork"))
    parent = ForkPoint(NAMESPACE, "s", 2)
    owned.ask(Fork(4, NAMESPACE, "fork", parent, 2, "me", 7, 4))
    assert isinstance(follower.answer, SessionReply)


# ---- when the disk fails -------------------------------------------------------------------------


@pytest.mark.parametrize("op", ["pwrite", "fdatasync"])
def test_a_failed_write_or_sync_is_never_acknowledged_and_the_owner_recovers(
    owned: Owned, op: Any
) -> None:
    """After one EIO the next fsync succeeds falsely. So nothing is retried in place: the log is
    opened anew, and only what recovery makes durable counts."""
    owned.ask(append(1, "before"))
    owned.fs.inject(Fault(op, path=".seg", error=errno.EIO))
    lost, read = owned.ask(append(2, "lost?"), get(3))
    assert lost.code == "poisoned"
    assert read.replies == []
    owned.until("serving")
    assert isinstance(read.answer, WindowReply)
    (again,) = owned.ask(append(4, "lost?", seq=2))
    assert isinstance(again.answer, AppendedReply)
    assert all_texts(owned) == ["before", "lost?"]
    after_cut = own(owned.fs.power_cut())
    assert all_texts(after_cut) == ["before", "lost?"]
    after_cut.partition.close()


def test_what_was_answered_before_the_sync_failed_stays_answered(owned: Owned) -> None:
    owned.fs.inject(Fault("fdatasync", path=".seg", error=errno.EIO))
    process, durable = owned.ask(append(1, "a", sync=SYNC_PROCESS), append(2, "b"))
    assert isinstance(process.answer, AppendedReply)
    assert durable.code == "poisoned"
    owned.until("serving")
    assert all_texts(owned)[0] == "a"


def test_a_background_sync_that_fails_makes_the_owner_recover(owned: Owned) -> None:
    owned.ask(append(1, sync=SYNC_PROCESS))
    owned.fs.inject(Fault("fdatasync", path=".seg", error=errno.EIO))
    epoch = owned.partition.welcome(0).epoch
    owned.pass_time(1.1)
    owned.until("serving")
    assert owned.partition.welcome(0).epoch == epoch + 1
    assert all_texts(owned) == ["hello"]


def test_requests_wait_while_the_owner_recovers(owned: Owned) -> None:
    owned.fs.inject(Fault("fdatasync", path=".seg", error=errno.EIO))
    owned.ask(append(1))
    while_down, status = owned.ask(append(2, "after"), Status(3))
    assert isinstance(status.answer, StatusReply)
    assert (status.answer.state, status.answer.region) == ("recovering", None)
    owned.until("serving")
    assert isinstance(while_down.answer, AppendedReply)


def test_more_requests_than_the_bound_do_not_wait_for_recovery() -> None:
    owned = own(disk(), opened=False, requests_queued_max=3)
    asked = owned.ask(*(append(n) for n in range(5)))
    assert [a.replies != [] for a in asked] == [False, False, False, True, True]
    assert asked[4].code == "overloaded"
    owned.partition.start()
    owned.until("serving")
    assert all(isinstance(a.answer, AppendedReply) for a in asked[:3])
    owned.partition.close()


def test_a_disk_that_cannot_be_written_is_read_from(owned: Owned) -> None:
    owned.ask(append(1, "durable"))
    owned.pass_time(1)
    owned.fs.inject(Fault("pwrite", error=errno.EIO, count=10**6))
    owned.ask(append(2, "lost"))
    owned.until("readonly")
    read, refused, erased = owned.ask(
        get(3), append(4), Erase(5, NAMESPACE, "s", None, "confirmed", "me", None, 7, 5)
    )
    assert texts(read) == ["durable"]
    assert (refused.code, erased.code) == ("poisoned", "poisoned")
    assert "read-only" in str(refused.answer)


def test_a_read_only_owner_serves_again_when_the_disk_is_well(owned: Owned) -> None:
    owned.ask(append(1, "durable"))
    owned.pass_time(1)
    fault = owned.fs.inject(Fault("pwrite", error=errno.EIO, count=10**6))
    owned.ask(append(2, "lost"))
    owned.until("readonly")
    fault.count = 0
    owned.pass_time(60)
    owned.until("serving")
    (asked,) = owned.ask(append(3, "again"))
    assert isinstance(asked.answer, AppendedReply)
    assert all_texts(owned) == ["durable", "again"]


def test_a_full_disk_refuses_turns_and_goes_on_reading(owned: Owned) -> None:
    owned.ask(append(1, "x" * 10_000))
    owned.fs.capacity_bytes = 0
    codes = [owned.ask(append(n, "y" * 10_000))[0].code for n in range(2, 30)]
    assert codes[-1] == "out_of_space"
    assert owned.partition.state == "serving"
    assert len(all_texts(owned)) == 1 + codes.count(None)
    owned.fs.capacity_bytes = None
    (asked,) = owned.ask(append(40, "z"))
    assert isinstance(asked.answer, AppendedReply)


def test_an_interrupt_in_the_middle_of_a_turn_leaves_nothing_in_doubt(
    owned: Owned, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inline, ctrl-C can surface between staging and writing. The staged turn must not come to the
    log later, under a seq that was given again."""
    owned.ask(append(1, "before"))
    region = owned.partition._life.region

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(region, "write", interrupted)
    asked = Asked(append(2, "in doubt"))
    with pytest.raises(KeyboardInterrupt):
        owned.partition.run([asked])
    assert asked.code == "poisoned"
    owned.until("serving")
    owned.ask(append(3, "after"))
    assert all_texts(owned) == ["before", "after"]


# ---- what is found at opening --------------------------------------------------------------------


def test_a_missing_directory_is_quarantined_and_never_a_fresh_start() -> None:
    owned = own(CrashFileSystem())
    assert owned.partition.state == "quarantined"
    (asked,) = owned.ask(append(1))
    assert asked.code == "corrupt"
    assert "quarantined" in str(asked.answer)
    owned.partition.close()


def test_another_stores_directory_is_quarantined() -> None:
    owned = own(disk(), store_id="another")
    assert owned.partition.state == "quarantined"
    assert owned.ask(get(1))[0].code == "unsupported_format"
    owned.partition.close()


def test_a_quarantined_owner_says_why() -> None:
    owned = own(CrashFileSystem())
    assert owned.partition.reason is not None
    assert "IDENTITY" in owned.partition.reason
    welcome = owned.partition.welcome(1)
    assert (welcome.state, welcome.reason) == ("quarantined", owned.partition.reason)
    owned.partition.close()


def test_an_unreadable_disk_makes_no_exception() -> None:
    fs = disk()
    fs.inject(Fault("pread", error=errno.EIO, count=10**6))
    owned = own(fs)
    assert owned.partition.state in ("readonly", "quarantined")
    assert owned.ask(get(1))[0].code in ("poisoned", "corrupt")
    owned.partition.close()


# ---- checks, copies, erasure ---------------------------------------------------------------------


def test_checks_and_copies_run_beside_the_loop(owned: Owned) -> None:
    owned.ask(append(1), append(2))
    check, copy = owned.ask(Verify(3), Backup(4, str(ROOT / "copy")))
    for asked in (check, copy):
        assert asked.answered.wait(PATIENCE_S)
    assert isinstance(check.answer, VerifyReply)
    assert check.answer.findings == []
    assert check.answer.records >= 2
    assert isinstance(copy.answer, BackupReply)
    copied = own(owned.fs, directory=ROOT / "copy")
    assert len(all_texts(copied)) == 2
    copied.partition.close()


def test_a_copy_that_cannot_be_made_is_an_error_of_that_request_only(owned: Owned) -> None:
    owned.ask(append(1))
    copy, _ = owned.ask(Backup(2, str(ROOT / "p0")), append(3))
    assert copy.answered.wait(PATIENCE_S)
    assert copy.code is not None
    assert owned.partition.state == "serving"


def test_an_erased_session_is_gone(owned: Owned) -> None:
    owned.ask(append(1, "secret"))
    refused, erased, info = owned.ask(
        Erase(2, NAMESPACE, "s", None, None, "me", None, 7, 2),
        Erase(3, NAMESPACE, "s", None, "confirmed", "me", None, 7, 3),
        Info(4, NAMESPACE, "s"),
    )
    assert refused.code == "confirmation_required"
    assert isinstance(erased.answer, ErasureReply)
    assert isinstance(info.answer, SessionReply)
    assert not info.answer.session.exists


# ---- the end -------------------------------------------------------------------------------------


def test_closing_tells_everybody_who_waits(owned: Owned) -> None:
    (follower,) = owned.ask(wait(1, after=5))
    owned.partition.close()
    assert follower.code == "unavailable"


def test_what_was_sealed_opens_from_side_files() -> None:
    owned = own(disk())
    owned.ask(*(append(n) for n in range(20)))
    owned.partition.close()
    assert [
        path for path in owned.fs.list_directory(ROOT / "p0" / "log") if path.endswith(".heads")
    ]
    again = own(owned.fs)
    assert len(all_texts(again)) == 20
    again.partition.close()


def test_an_owner_that_is_closed_before_it_has_looked_is_sealed_all_the_same() -> None:
    """The background had opened the region, and no turn had taken it over yet."""
    owned = own(disk(), opened=False)
    owned.partition.start()
    assert owned.woken.acquire(timeout=PATIENCE_S)
    owned.partition.close()
    assert [name for name in owned.fs.list_directory(ROOT / "p0" / "log") if ".heads" in name]


def test_one_directory_has_one_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second says who has it, and takes over when that one is gone."""
    monkeypatch.setattr(region_opening, "LOCK_WAIT_S", 0.0)
    Region.create(LocalFileSystem(), tmp_path / "p0", store_id="store", partition=0)
    first = Partition(spec(tmp_path / "p0"))
    first.open()
    second = Partition(spec(tmp_path / "p0"))
    second.open()
    assert (first.state, second.state) == ("serving", "recovering")
    assert second.error is not None
    assert second.error.code == "store_locked"
    first.close()
    second.close()


@pytest.mark.parametrize("fate", ["deleted", "renamed", "replaced"])
def test_an_owner_whose_directory_is_gone_is_quarantined_within_a_second(
    tmp_path: Path, fate: str
) -> None:
    """Somebody ran `rm -r` on a store in use: appends went on being acknowledged, into files that
    had no name any more."""
    place = tmp_path / "p0"
    owned = own_real(place)
    (kept,) = owned.ask(append(1))
    assert isinstance(kept.answer, AppendedReply)
    (follower,) = owned.ask(wait(2, after=5, timeout_ms=600_000))
    owned.pass_time(1.0)
    assert owned.partition.state == "serving"
    if fate == "deleted":
        shutil.rmtree(place)
    else:
        place.rename(tmp_path / "elsewhere")
    if fate == "replaced":
        Region.create(LocalFileSystem(), place, store_id="another", partition=0)
        DirectoryLock.acquire(place, role="application").release()
    before = tree(place)
    owned.pass_time(1.0)
    assert owned.partition.state == "quarantined"
    reason = owned.partition.reason or ""
    assert str(place) in reason and "may be lost" in reason
    assert ("another file now" if fate == "replaced" else "is gone") in reason
    refused, status = owned.ask(append(3), Status(4))
    assert (refused.code, follower.code) == ("corrupt", "corrupt")
    assert isinstance(status.answer, StatusReply) and status.answer.reason == reason
    owned.partition.close()
    assert tree(place) == before  # not even a side file: the name is somebody else's now
    if fate != "deleted":
        again = own_real(tmp_path / "elsewhere", make=False)
        assert len(all_texts(again)) == 1
        again.partition.close()


def test_an_owner_that_is_closed_before_it_has_looked_writes_nothing_into_the_new_directory(
    tmp_path: Path,
) -> None:
    owned = own_real(tmp_path / "p0")
    owned.ask(append(1))
    (tmp_path / "p0").rename(tmp_path / "elsewhere")
    (tmp_path / "p0" / "log").mkdir(parents=True)
    owned.partition.close()
    assert tree(tmp_path / "p0") == ["log"]


def own_real(place: Path, *, make: bool = True) -> Owned:
    """A partition on the real file system, its lock taken, and a clock that is told to pass."""
    if make:
        Region.create(LocalFileSystem(), place, store_id="store", partition=0)
    clock = ManualClock()
    partition = Partition(spec(place), clock=clock)
    woken = threading.Semaphore(0)
    partition.bind(woken.release)
    partition.open()
    assert partition.state == "serving", partition.reason
    return Owned(partition, CrashFileSystem(), clock, woken)


def tree(place: Path) -> list[str]:
    return sorted(str(path.relative_to(place)) for path in place.rglob("*"))
