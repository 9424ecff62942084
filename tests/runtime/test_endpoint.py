"""Where owners can be reached: the ENDPOINT file, and a place for their sockets."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from neverforget.runtime.endpoint import (
    SOCKET_PATH_BYTES_MAX,
    Endpoint,
    checked_folder,
    read_endpoint,
    remove_endpoint,
    socket_folder,
    write_endpoint,
)
from neverforget.storage.directory_lock import DirectoryLock, ProcessId, boot_id, this_process
from neverforget.storage.errors import UnsupportedFormat

STORE_ID = "3f0c9a52-6f3e-4a53-9a0f-0123456789ab"


def endpoint(process: ProcessId | None = None, boot: str | None = None) -> Endpoint:
    return Endpoint(
        store_id=STORE_ID,
        kind="serve",
        process=process or this_process(),
        boot=boot_id() if boot is None else boot,
        node="here",
        started_at=1,
        control="/x/host.sock",
        sockets=("/x/p0.sock", "/x/p1.sock"),
        settings={"partitions": 2},
    )


def binds(folder: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(folder / "p255.sock~"))
    (folder / "p255.sock~").unlink()
    return True


# ---- the file ------------------------------------------------------------------------------------


def test_an_endpoint_is_read_back_as_written(tmp_path: Path) -> None:
    assert read_endpoint(tmp_path) is None
    write_endpoint(tmp_path, endpoint())
    assert read_endpoint(tmp_path) == endpoint()


def test_a_host_of_a_newer_version_is_not_talked_to_while_it_lives(tmp_path: Path) -> None:
    """One that was killed left its file, and there was no way back to the version before."""
    ours = endpoint()
    write_endpoint(tmp_path, replace(ours, version=2))
    with pytest.raises(UnsupportedFormat, match=f"newer .* process {os.getpid()} "):
        read_endpoint(tmp_path)
    for gone in (endpoint(boot="before"), endpoint(ProcessId(ours.pid, ours.process.start + 1))):
        write_endpoint(tmp_path, replace(gone, version=2))
        assert read_endpoint(tmp_path) is None


def test_an_endpoint_counts_only_beside_the_lock_of_its_host(tmp_path: Path) -> None:
    """In a copy of a hosted store it led to the owners of the original."""
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.mkdir()
    lock = DirectoryLock.acquire(original, role="serve")
    write_endpoint(original, endpoint())
    shutil.copytree(original, copy)
    found = read_endpoint(original)
    assert found is not None and found.sockets == endpoint().sockets
    assert read_endpoint(copy) is None
    original.rename(tmp_path / "moved")
    assert read_endpoint(tmp_path / "moved") == found
    lock.release()


@pytest.mark.parametrize("content", [b"", b"{", b"\0" * 100, b"{}\ncrc32c 00000000\n"])
def test_a_damaged_endpoint_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "ENDPOINT").write_bytes(content)
    assert read_endpoint(tmp_path) is None


def test_there_is_no_endpoint_where_there_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert read_endpoint(tmp_path / "missing") is None
    assert read_endpoint(tmp_path / "file") is None


def test_an_endpoint_is_alive_while_its_very_process_runs() -> None:
    this = this_process()
    assert endpoint().alive
    assert not endpoint(ProcessId(this.pid, this.start + 1)).alive
    assert not endpoint(boot="another boot").alive


def test_a_host_takes_back_its_own_endpoint_only(tmp_path: Path) -> None:
    write_endpoint(tmp_path, endpoint())
    remove_endpoint(tmp_path, ProcessId(1, 1))
    assert read_endpoint(tmp_path) is not None
    remove_endpoint(tmp_path, this_process())
    assert read_endpoint(tmp_path) is None


# ---- the sockets ---------------------------------------------------------------------------------


def test_sockets_stand_in_the_store_where_they_can(short_path: Path) -> None:
    store = short_path / "a store"
    store.mkdir()
    folder = socket_folder(store, STORE_ID)
    assert folder == store / "run"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert binds(folder)


def test_a_long_path_gets_a_short_private_folder(
    tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_path))
    store = tmp_path / ("long" * 30) / "st öre"
    store.mkdir(parents=True)
    folder = socket_folder(store, STORE_ID)
    assert short_path in folder.parents
    assert len(os.fsencode(folder / "p999.sock~")) <= SOCKET_PATH_BYTES_MAX
    assert folder.stat().st_mode & 0o777 == 0o700
    assert binds(folder)
    assert socket_folder(store, STORE_ID) == folder
    assert socket_folder(store, "another-store") != folder
    copy = store.with_name("copy" + "long" * 30)
    copy.mkdir()
    assert socket_folder(copy, STORE_ID) != folder


def test_a_runtime_folder_that_others_prepared_is_not_used(
    tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who can write to the folder above could put a link there, to a folder of his."""
    theirs = short_path / "theirs"
    theirs.mkdir(mode=0o700)
    (short_path / f"neverforget-{os.geteuid()}").symlink_to(theirs)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_path))
    store = tmp_path / ("long" * 30)
    store.mkdir()
    folder = socket_folder(store, STORE_ID)
    assert short_path not in folder.parents
    assert list(theirs.iterdir()) == []


def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").write_text("")
    for name in ("open", "link", "file"):
        with pytest.raises(PermissionError):
            checked_folder(tmp_path / name)
    assert checked_folder(tmp_path / "new").stat().st_mode & 0o777 == 0o700


def test_a_folder_made_in_that_of_a_group_is_taken(tmp_path: Path) -> None:
    """Kubernetes gives volumes to a group (fsGroup): what is made in them gets its set-group-ID bit
    and was taken for a folder that others can enter."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o2775)
    made = checked_folder(shared / "new")
    assert checked_folder(made) == made
    made.chmod(0o750)
    with pytest.raises(PermissionError):
        checked_folder(made)


@pytest.mark.root
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir(mode=0o700)
    os.chown(tmp_path / "theirs", 65534, 65534)
    with pytest.raises(PermissionError):
        checked_folder(tmp_path / "theirs")
