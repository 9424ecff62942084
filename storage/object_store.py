"""The seam between shipping and whatever keeps objects beyond this machine.

Behind it: a folder (``object_folder``), or S3, GCS and Azure through obstore (``object_cloud``).
The same suite runs over all of them. Calls block; any thread may make them, several at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Protocol

from neverforget.storage.errors import InvalidArgument

_CLOUD_SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss")


class Stored(NamedTuple):
    """``tag``: which state of the object this is; see ``ObjectStore.replace``."""

    data: bytes
    tag: str


class ObjectStore(Protocol):
    """Keys are text of letters, digits, ``-``, ``.``, ``_`` in parts divided by ``/``.

    Whatever cannot be done raises Unavailable: ``outcome`` "unknown" says of a write that it may
    have been carried out, or may still be; "not_applied" that it was not and will not be.
    """

    name: str  # for messages: where it is, without secrets

    def put_new(self, key: str, data: bytes, *, behind: str | None = None) -> bool:
        """Create-only: of all who ever try, one gets True, once. False: the key is taken, of
        whomever. Either way what stands there then is durable, and complete to every reader.
        ``behind``: an object that is there; a folder that lacks it is another one: Unavailable.
        """
        ...

    def get(self, key: str) -> Stored | None:
        """None: there is none."""
        ...

    def get_start(self, key: str, n_bytes: int) -> bytes | None:
        """The first bytes of an object, fewer where it is shorter. ``n_bytes`` > 0."""
        ...

    def head(self, key: str) -> int | None:
        """Its size in bytes, or None. Like ``get``: what was put before this call is found."""
        ...

    def replace(self, key: str, data: bytes, tag: str) -> bool:
        """Put other bytes in place of the state that ``tag`` names, durably; False: it is in
        another state, or gone, and was left as it is. For erasure alone.
        """
        ...

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """(key, size) of every object below ``prefix``, which is "" or ends with ``/``; sorted."""
        ...


def open_object_store(url: str, *, timeout_s: float = 10.0, create: bool = False) -> ObjectStore:
    """``s3://BUCKET[/PREFIX]``, ``gs://…``, ``az://CONTAINER[/PREFIX]``, or the path of a folder,
    also as ``file:///…``. Credentials come from the environment, as obstore finds them. ``create``:
    make the folder, for a store that is new; buckets are made elsewhere.

    Raises InvalidArgument for what is none of these; Unavailable without the extra that it needs,
    or where the folder cannot be made.
    """
    scheme, divided, rest = url.partition("://")
    if divided and scheme in _CLOUD_SCHEMES:
        from neverforget.storage.object_cloud import open_cloud_store

        return open_cloud_store(url, timeout_s=timeout_s)
    if (divided and scheme != "file") or not url:
        raise InvalidArgument(
            f"{url!r} is no place for objects; pass s3://…, gs://…, az://… or the path of a folder"
        )
    from neverforget.storage.filesystem import LocalFileSystem
    from neverforget.storage.object_folder import FolderStore

    path = Path(rest if divided else url).expanduser().absolute()
    store = FolderStore(LocalFileSystem(), path)
    if create:
        store.make_root()
    return store
