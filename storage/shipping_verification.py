"""Reading every object of one log, and comparing it with the local log, where that is at hand.
Reads only; beside the owner, up to its durable mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from neverforget.storage.errors import Corrupt, UnsupportedFormat
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.identity import Identity
from neverforget.storage.object_store import ObjectStore
from neverforget.storage.results import Finding
from neverforget.storage.shipping_local import LocalCopy
from neverforget.storage.shipping_object import (
    Author,
    ObjectKind,
    check_origin,
    decode_object,
    log_prefix,
    object_key,
    store_bytes,
)


class RemoteVerification:
    """``objects`` and ``bytes``: read so far. Iterate over it for what is wrong.

    ``directory``: of the region; None: the objects are checked by themselves. ``identity``: of the
    region. ``durable``, ``shipped``: log positions as the owner told them before this began.
    """

    def __init__(
        self,
        fs: FileSystem,
        directory: Path | None,
        identity: Identity,
        store: ObjectStore,
        log: str,
        *,
        durable: int,
        shipped: int,
    ) -> None:
        self.objects = 0
        self.bytes = 0
        self._store = store
        self._prefix = log_prefix(identity.store_id, log)
        self._author = Author(store_bytes(identity.store_id), identity.log_id, 0)
        self._local = (
            None
            if directory is None
            else LocalCopy(fs, directory, log_id=identity.log_id, tail=durable, epoch=0)
        )
        self._durable = durable
        self._shipped = shipped
        self._position = self._epoch = 0

    def __iter__(self) -> Iterator[Finding]:
        """Raises Unavailable where the store does not answer."""
        number = 1
        while (found := self._store.get(object_key(self._prefix, number))) is not None:
            self.objects += 1
            self.bytes += len(found.data)
            wrong = self._look_at(number, found.data)
            if wrong is not None:
                yield self._finding(number, *wrong, len(found.data))
            number += 1
        for key, size in self._store.list(self._prefix):
            name = key.removeprefix(self._prefix)
            if name.isdecimal() and int(name) > number:
                why = f"object {number} is missing in front of it"
                yield self._finding(int(name), "object_missing", why, size)
                return
        if self._position < self._shipped:
            why = f"the objects end at {self._position}, shipped was up to {self._shipped}"
            yield self._finding(number, "object_missing", why, self._shipped - self._position)

    def _look_at(self, number: int, data: bytes) -> tuple[str, str] | None:
        """(kind, message) of what is wrong with it."""
        try:
            header, payload = decode_object(data)
        except (Corrupt, UnsupportedFormat) as error:
            return "bad_object", error.message
        wrong = check_origin(header, self._author, number)
        if wrong is None and header.stop < self._position:
            wrong = f"it ends at {header.stop}, the one before it at {self._position}"
        if wrong is None and header.epoch < self._epoch:
            wrong = f"it is of epoch {header.epoch}, the one before it of {self._epoch}"
        if wrong is not None:
            return "bad_object", wrong
        before, self._position, self._epoch = self._position, header.stop, header.epoch
        local = self._local
        if local is None or header.kind == ObjectKind.FENCE or header.stop > self._durable:
            return None
        same_until, _ = local.same_until(header, payload, before)
        if same_until >= header.stop:
            return None
        return "object_differs", f"the local log holds something else at {same_until}"

    def _finding(self, number: int, kind: str, message: str, size: int) -> Finding:
        place = f"{self._store.name}/{object_key(self._prefix, number)}"
        return Finding(kind, "error", place, 0, size, message)
