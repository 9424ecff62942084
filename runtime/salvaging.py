"""Bringing what a disk holds and nobody shipped to the owner that serves its place now.

For a disk that comes back after its places were moved away: run on the node that has it. Nothing is
changed there but the name of a region's directory, when all of it has arrived.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from neverforget.actors.places import LONGTERM
from neverforget.runtime.config import longterm_directory
from neverforget.runtime.store_directory import region_directory
from neverforget.storage.directory_lock import DirectoryLock
from neverforget.storage.errors import Conflict, NotFound, Unavailable
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.identity import Identity, check_identity
from neverforget.storage.object_store import ObjectStore, open_object_store
from neverforget.storage.old_logs import Aside, asides, parts_of_log
from neverforget.storage.parting import parting
from neverforget.storage.salvage_reading import encode_piece, pieces
from neverforget.storage.salvage_results import Piece, SalvageReport
from neverforget.storage.shipping_mark import Mark, marked
from neverforget.storage.shipping_object import log_prefix

if TYPE_CHECKING:
    from neverforget.actors.messages import AnyReply, Request

Ask = Callable[[int, "Request"], "AnyReply"]  # of a place
log = logging.getLogger(__name__)
_TRIES = 10  # the owner that is told was opened anew so often in the middle of it
SALVAGED_SUFFIX = ".salvaged-"


class _Old(NamedTuple):
    """The directory of one region, which nobody else has now."""

    directory: Path
    prefix: str
    identity: Identity


def unshipped(path: Path, store_id: str, place: int, replica_url: str) -> Iterator[bytes]:
    """Whole batches that the folder ``path`` has of ``place`` (a partition, or ``LONGTERM``) and
    the objects lack, in pieces of 256 KiB at most but for single larger batches; nothing where
    nothing is missing. To be sent as ``Salvage``, in this order.

    Raises NotFound, UnsupportedFormat, StoreLocked (an owner has it), Corrupt, Unavailable, or
    OSError.
    """
    objects = open_object_store(replica_url)
    with _owned(path, store_id, place) as old:
        for piece in _read(old, objects):
            yield encode_piece(piece)


def salvaged(path: Path, place: int) -> Path | None:
    """All of it has arrived: the directory gets another name, under which nobody looks for it, and
    keeps what it holds. Durable when this returns. None: it has no directory of its own any more.
    """
    fs, directory = LocalFileSystem(), _directory(path, place)
    if not fs.exists(directory):
        return None
    number = 1
    while fs.exists(kept := directory.with_name(f"{directory.name}{SALVAGED_SUFFIX}{number}")):
        number += 1
    fs.rename(directory, kept)
    fs.sync_directory(directory.parent)
    return kept


def bring_back(
    path: Path,
    store_id: str,
    place: int,
    replica_url: str,
    ask: Callable[[Request], AnyReply],
) -> SalvageReport:
    """All of it: read, told to the owner that ``ask`` asks, marked as done. May be repeated after
    whatever went wrong. Raises what ``unshipped`` and ``ask`` raise.
    """
    from neverforget.actors.salvage_messages import Salvage, SalvageReply

    objects = open_object_store(replica_url)
    with _owned(path, store_id, place) as old:
        for _ in range(_TRIES):
            total = SalvageReport()
            try:
                for piece in _read(old, objects):
                    reply = ask(Salvage(0, encode_piece(piece)))
                    assert isinstance(reply, SalvageReply), reply
                    if piece.last:
                        total.add(reply.report)
            except Conflict as error:
                log.warning("what %s holds is told again: %s", old.directory, error)
                continue
            kept = salvaged(path, place)
            log.info("what %s held has arrived (%s); it is kept in %s", old.directory, total, kept)
            return total
    raise Unavailable(
        f"the owner of what {old.directory} holds was opened anew {_TRIES} times meanwhile; try "
        "again later",
        outcome="unknown",
    )


def bring_back_all(
    path: Path, store_id: str, partitions: int, replica_url: str, ask: Ask
) -> SalvageReport:
    """Of every part that the folder ``path`` has. ``ask``: as of a channel, see there. Raises
    StoreLocked while a host has the folder, and what ``bring_back`` raises.
    """
    total, missing = SalvageReport(), 0
    places = (*range(partitions), LONGTERM)
    lock = DirectoryLock.acquire(path, role="application")
    try:
        for place in places:
            try:
                told = bring_back(path, store_id, place, replica_url, partial(ask, place))
            except NotFound:
                missing += 1  # it was brought back before, or was never here
            else:
                total.add(told)
    finally:
        lock.release()
    if missing == len(places):
        raise NotFound(f"{path} has no part of store {store_id} that could be brought back")
    return total


def _directory(path: Path, place: int) -> Path:
    return longterm_directory(path) if place == LONGTERM else region_directory(path, place)


@contextmanager
def _owned(path: Path, store_id: str, place: int) -> Iterator[_Old]:
    directory = _directory(path, place)
    is_longterm = place == LONGTERM
    identity = check_identity(
        LocalFileSystem(),
        directory,
        store_id=store_id,
        what="longterm" if is_longterm else "region",
        partition=0 if is_longterm else place,
    )
    name = "longterm-0" if is_longterm else f"partition-{place}"
    lock = DirectoryLock.acquire(directory, role="application")
    try:
        yield _Old(directory, log_prefix(store_id, name), identity)
    finally:
        lock.release()


def _read(old: _Old, objects: ObjectStore) -> Iterator[Piece]:
    """What an owner there had set aside and did not come to bring back, then the log itself."""
    fs, log_id = LocalFileSystem(), old.identity.log_id
    mark = marked(fs, old.directory) or Mark(0)
    parted_at = parting(fs, old.directory, objects, old.prefix, log_id, mark)
    rest = Aside(parted_at, [], parts_of_log(fs, old.directory / "log", parted_at))
    for part in (*asides(fs, old.directory), rest):
        stream = int.from_bytes(os.urandom(8), "little")
        for piece in pieces(part.parts, log_id=log_id, parting=part.parting, stream=stream):
            if piece is None:
                continue
            if not piece.last or piece.index or piece.batches or piece.unreadable:
                yield piece
