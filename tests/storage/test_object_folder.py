"""A folder of objects through kill -9, power cuts, full disks and failing ones."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from neverforget.storage.errors import Unavailable
from neverforget.storage.object_folder import FolderStore
from tests.fakes.crash_filesystem import CrashFileSystem, Fault, Killed
from tests.storage.object_stores import crashing_folder

KEYS = [f"store/log/{number:016d}" for number in range(1, 4)]
DATA = [bytes([number]) * 10_000 for number in range(1, 4)]


def put_all(fs: CrashFileSystem) -> list[str]:
    """The keys whose puts returned, before it died or after all of them."""
    done: list[str] = []
    try:
        store = crashing_folder(fs)
        for key, data in zip(KEYS, DATA):
            assert store.put_new(key, data)
            done.append(key)
    except Killed:
        pass
    return done


def calls_of_all() -> int:
    fs = CrashFileSystem()
    put_all(fs)
    return len(fs.calls)


@pytest.mark.parametrize("after", [False, True])
def test_a_power_cut_at_any_step_leaves_whole_objects_and_all_that_were_put(after: bool) -> None:
    for at in range(calls_of_all()):
        for seed in range(4):
            fs = CrashFileSystem(seed)
            fs.kill_at(at, after=after)
            done = put_all(fs)
            after_it = fs.power_cut()
            if not after_it.exists(fs.root / "bucket"):
                assert not done
                continue
            store = crashing_folder(after_it)
            for key, data in zip(KEYS, DATA):
                found = store.get(key)
                assert (found is None and key not in done) or (found and found.data == data)


def test_whoever_finds_a_key_taken_finds_it_durable() -> None:
    """The owner died between link and sync: its successor saw the object, was fenced by it or took
    it for shipped, and the next power cut took it away.
    """
    fs = CrashFileSystem(1)
    fs.inject(Fault("link", kill="after"))
    assert put_all(fs) == []
    fs = fs.process_death()
    assert not crashing_folder(fs).put_new(KEYS[0], b"another's")
    for seed in range(10):
        copy = CrashFileSystem(seed)
        copy._names, copy._durable, copy._changes = fs._names, fs._durable, fs._changes
        found = crashing_folder(copy.power_cut()).get(KEYS[0])
        assert found is not None and found.data == DATA[0]


def test_temporaries_of_the_dead_are_swept_by_the_next_owner() -> None:
    """One holds what may have been erased since."""
    fs = CrashFileSystem(2)
    fs.inject(Fault("link", kill="before"))
    assert put_all(fs) == []
    fs = fs.process_death()
    folder = fs.root / "bucket" / "store" / "log"
    assert len(fs.list_directory(folder)) == 1
    assert list(crashing_folder(fs).list("")) == []
    assert put_all(fs) == KEYS
    assert fs.list_directory(folder) == [key.rpartition("/")[2] for key in KEYS]


def test_erasing_sweeps_temporaries_too() -> None:
    fs = CrashFileSystem(2)
    put_all(fs)
    folder = fs.root / "bucket" / "store" / "log"
    fs.open(folder / "0000000000000004.0.tmp", create=True).close()
    store = crashing_folder(fs)
    found = store.get(KEYS[0])
    assert found is not None and store.replace(KEYS[0], b"", found.tag)
    assert len(fs.list_directory(folder)) == 3


@pytest.mark.parametrize("op", ["create", "allocate", "pwrite", "fdatasync", "make_directory"])
def test_what_fails_before_the_name_is_there_was_not_applied(op: str) -> None:
    fs = CrashFileSystem(3)
    store = crashing_folder(fs)
    fault = fs.inject(Fault(op, error=errno.EIO))  # type: ignore[arg-type]
    with pytest.raises(Unavailable) as failed:
        store.put_new(KEYS[0], DATA[0])
    assert failed.value.outcome == "not_applied" and fault.seen
    assert store.head(KEYS[0]) is None
    assert store.put_new(KEYS[0], DATA[0])


def test_a_failed_sync_of_the_directory_leaves_the_outcome_unknown() -> None:
    fs = CrashFileSystem(3)
    put_all(fs)
    fs.inject(Fault("sync_directory", error=errno.EIO))
    store = crashing_folder(fs)
    store._ready.add(fs.root / "bucket" / "store" / "log")
    key = "store/log/0000000000000004"
    with pytest.raises(Unavailable) as failed:
        store.put_new(key, DATA[0])
    assert failed.value.outcome == "unknown"
    renames = [call for call in fs.calls if call.op == "rename"]
    assert not store.put_new(key, DATA[0]), "it stands there"
    # The next sync may succeed without having written the name (as after any EIO): it is made anew.
    assert len([call for call in fs.calls if call.op == "rename"]) == len(renames) + 1
    assert not store.put_new(key, DATA[1])
    found = crashing_folder(fs.power_cut()).get(key)
    assert found is not None and found.data == DATA[0]


def test_a_full_disk_says_so() -> None:
    fs = CrashFileSystem(4, capacity_bytes=15_000)
    store = crashing_folder(fs)
    assert store.put_new(KEYS[0], DATA[0])
    with pytest.raises(Unavailable, match="free space") as failed:
        store.put_new(KEYS[1], DATA[1])
    assert failed.value.outcome == "not_applied"
    assert fs.list_directory(fs.root / "bucket" / "store" / "log") == [KEYS[0][-16:]]
    found = store.get(KEYS[0])
    assert found is not None and store.replace(KEYS[0], b"erased", found.tag)


def test_a_folder_that_is_not_there_is_said_once() -> None:
    """A typing error in ``restore --from`` said it twice: "object  in F: object  in F: not there;
    mount that folder, or see to it; mount that folder, or see to it"."""
    store = FolderStore(CrashFileSystem(), Path("/no/such"))
    with pytest.raises(Unavailable) as raised:
        list(store.list(""))
    assert str(raised.value).count("/no/such") == str(raised.value).count("mount that") == 1
    assert str(raised.value).startswith("the objects in /no/such: not there")
