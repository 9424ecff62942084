"""ENDPOINT: where the owners of a store can be reached, and where their sockets stand.

The host writes the file when its owners are up and removes it when it ends in order. A host that
was killed leaves it behind; ``Endpoint.alive`` tells, because it names the process exactly. In a
copy of the directory it would lead to the owners of the original; it names the LOCK that its host
holds, and where another stands beside it, it counts for nothing.

Sockets stand in ``<path>/run/``. Where that name is too long for a socket (108 bytes) or its file
system has none, they stand in a folder of the store under ``$XDG_RUNTIME_DIR`` or the temporary
directory; that one is checked for owner, mode 0700 and no link, since others may write there too.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import Any, Literal

import msgspec

from neverforget.actors.listener import FRESH_SUFFIX
from neverforget.actors.places import EMBEDDER, HOST, LONGTERM, REFLECTOR
from neverforget.storage.atomic_file import read_checked, write_checked
from neverforget.storage.directory_lock import ProcessId, boot_id, is_alive, lock_inode
from neverforget.storage.errors import Corrupt, NotFound, Unavailable, UnsupportedFormat
from neverforget.storage.filesystem import FileSystem, LocalFileSystem

ENDPOINT_FILE = "ENDPOINT"
RUN_FOLDER = "run"
HOST_SOCKET = "host.sock"
_VERSION = 1
SOCKET_PATH_BYTES_MAX = 103  # 107 and a zero on Linux, 103 on macOS: one number for both

Kind = Literal["serve", "application", "inline"]


class Named(msgspec.Struct, frozen=True):
    """The owners' names in Ray: of the partitions, of the long-term owner, and of the reflector;
    ``bell``: its socket, where a bell hangs until it is needed. "": there is none.
    """

    partitions: tuple[str, ...] = ()
    longterm: str = ""
    reflector: str = ""
    bell: str = ""


class Endpoint(msgspec.Struct, frozen=True):
    """``kind`` "inline": the store is open inside that process and nobody can attach. ``sockets``
    and ``actors`` (names in Ray) are in the order of the partitions; ``longterm`` is the socket of
    the long-term owner and ``longterm_actor`` its name, ``embedders`` are the sockets of the pool,
    ``reflector`` is that of the reflector and ``reflector_actor`` its name: these may still be
    coming up. ``settings`` are the fixed
    and host settings in force. ``started_at``: microseconds UTC. ``lock``: device and inode of the
    host's LOCK."""

    store_id: str
    kind: Kind
    process: ProcessId
    boot: str
    node: str
    started_at: int
    control: str = ""
    sockets: tuple[str, ...] = ()
    actors: tuple[str, ...] = ()
    longterm: str = ""
    longterm_actor: str = ""
    reflector_actor: str = ""
    embedders: tuple[str, ...] = ()
    reflector: str = ""
    ray_address: str | None = None
    ray_namespace: str | None = None
    settings: dict[str, Any] = {}
    lock: tuple[int, int] | None = None
    version: int = _VERSION

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def named(self) -> Named:
        return Named(self.actors, self.longterm_actor, self.reflector_actor, self.reflector)

    def socket_of(self, place: int) -> str:
        """The socket of a partition, of the host, the long-term owner, the reflector or an
        embedder; see ``places.py``. Unavailable where this host has none."""
        if place == HOST:
            found = self.control
        elif place == LONGTERM:
            found = self.longterm
        elif place == REFLECTOR:
            found = self.reflector
        else:
            sockets, number = self.sockets, place
            if place <= EMBEDDER:
                sockets, number = self.embedders, EMBEDDER - place
            found = sockets[number] if number < len(sockets) else ""
        if not found:
            raise Unavailable(
                f"the host of this store (process {self.pid}) has no owner {place}; end it, and "
                "let the version of neverforget that asks bring up the next one",
                outcome="not_applied",
            )
        return found

    @property
    def alive(self) -> bool:
        """The very process that wrote this still runs, on this machine, in this boot."""
        return _lives(self.process, self.boot)


class _Host(msgspec.Struct, frozen=True):
    """What each version of the file says."""

    process: ProcessId
    boot: str
    lock: tuple[int, int] | None = None
    version: int = _VERSION


def _lives(process: ProcessId, boot: str) -> bool:
    return boot == boot_id() and (process.start < 0 or is_alive(process))


def write_endpoint(path: Path, endpoint: Endpoint, fs: FileSystem | None = None) -> None:
    endpoint = msgspec.structs.replace(endpoint, lock=lock_inode(path))
    content = msgspec.json.format(msgspec.json.encode(endpoint), indent=1)
    write_checked(fs or LocalFileSystem(), path / ENDPOINT_FILE, content + b"\n")


def read_endpoint(path: Path) -> Endpoint | None:
    """None where there is none, or one of another directory, or one that cannot be read: the next
    host writes a new one. Raises UnsupportedFormat while a host of a newer version serves."""
    try:
        content = read_checked(LocalFileSystem(), path / ENDPOINT_FILE)
        host = msgspec.json.decode(content, type=_Host)
        if host.lock != lock_inode(path):
            return None
        if host.version == _VERSION:
            return msgspec.json.decode(content, type=Endpoint)
    except (NotFound, Corrupt, msgspec.MsgspecError):
        return None
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return None
        raise
    if not _lives(host.process, host.boot):
        return None  # it was killed
    raise UnsupportedFormat(
        f"{path / ENDPOINT_FILE} was written by a newer neverforget, whose process "
        f"{host.process.pid} serves the store; use that one to attach, or end it"
    )


def remove_endpoint(path: Path, process: ProcessId) -> None:
    """Take back our own; a successor's stays."""
    found = read_endpoint(path)
    if found is not None and found.process == process:
        with contextlib.suppress(FileNotFoundError):
            (path / ENDPOINT_FILE).unlink()


# ---- where sockets stand -------------------------------------------------------------------------


def socket_folder(path: Path, store_id: str) -> Path:
    """A folder, made and checked, in which this store's sockets can be bound."""
    inside = path / RUN_FOLDER
    if _fits(inside) and _is_made(inside) and _sockets_work(inside):
        return inside
    return _private_folder(place_digest(path, store_id)[:16])


def place_digest(path: Path, store_id: str) -> str:
    """For names outside the directory: a copy of a store, with the same id, may be open as well."""
    return hashlib.blake2b(store_id.encode() + os.fsencode(path), digest_size=16).hexdigest()


def leave_socket_folder(path: Path, folder: Path) -> None:
    """The sockets that stood in ``folder`` are gone. One outside the store goes too, once it is
    empty: nothing else would ever remove it."""
    if folder != path / RUN_FOLDER:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _is_made(folder: Path) -> bool:
    """``folder`` is there, ours and closed to others."""
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    folder.chmod(0o700)
    return True


def _fits(folder: Path) -> bool:
    longest = folder / f"p999.sock{FRESH_SUFFIX}"
    return len(os.fsencode(longest)) <= SOCKET_PATH_BYTES_MAX


def _sockets_work(folder: Path) -> bool:
    """Some file systems (shared folders of virtual machines, FAT, some network ones) have none."""
    probe = folder / f".{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as bound:
        try:
            bound.bind(str(probe))
        except OSError:
            return False
        finally:
            with contextlib.suppress(OSError):
                probe.unlink()
    return True


def _private_folder(name: str) -> Path:
    """``neverforget-UID/NAME`` where this user may put what only lives while a process does."""
    refused: list[str] = []
    for base in _bases():
        try:
            home = checked_folder(base / f"neverforget-{os.geteuid()}")
            folder = checked_folder(home / name)
        except OSError as error:
            refused.append(f"{base}: {error.strerror or error}")
            continue
        if _fits(folder) and _sockets_work(folder):
            return folder
        refused.append(f"{base}: no sockets there, or its name is too long")
    raise OSError(
        errno.ENAMETOOLONG,
        "no folder for the sockets of the store; set XDG_RUNTIME_DIR to one with a short name that "
        "only you can enter (" + "; ".join(refused) + ")",
    )


def _bases() -> list[Path]:
    named = os.environ.get("XDG_RUNTIME_DIR")
    bases = [Path(named)] if named else []
    return [*bases, Path(tempfile.gettempdir()), Path("/tmp")]


def checked_folder(folder: Path) -> Path:
    """``folder``, made if it is missing: ours, 0700, no link. PermissionError otherwise: somebody
    else may have put it there to get hold of what we write."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise PermissionError(errno.EPERM, "is a link or no folder", str(folder))
    if status.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, "belongs to another user", str(folder))
    if stat.S_IMODE(status.st_mode) & ~stat.S_ISGID != 0o700:  # a group's folder passes its bit on
        raise PermissionError(errno.EPERM, "others can enter it: chmod 700 it", str(folder))
    return folder
