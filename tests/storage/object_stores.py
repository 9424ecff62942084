"""Object stores for tests: a folder, a folder that crashes, an S3 server on the loopback, and one
in front of any of them that fails, is slow or loses answers when told.
"""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from neverforget.storage.errors import Unavailable
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.object_cloud import CloudStore, open_cloud_store
from neverforget.storage.object_folder import FolderStore
from neverforget.storage.object_store import ObjectStore, Stored
from tests.fakes.crash_filesystem import CrashFileSystem


def crashing_folder(fs: CrashFileSystem) -> FolderStore:
    """The one on this file system, made where it is not there."""
    store = FolderStore(fs, fs.root / "bucket", exclusive=lambda path: nullcontext())
    if not fs.exists(fs.root / "bucket"):
        store.make_root()
    return store


@contextmanager
def s3_server() -> Iterator[str]:
    """The URL of an S3 server on the loopback; ModuleNotFoundError without moto and flask."""
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def make_bucket(endpoint: str, bucket: str) -> None:
    request = urllib.request.Request(f"{endpoint}/{bucket}", method="PUT")
    urllib.request.urlopen(request, timeout=10).close()


def s3_store(endpoint: str, place: str, timeout_s: float = 10.0) -> CloudStore:
    """``place``: BUCKET or BUCKET/PREFIX."""
    return open_cloud_store(
        f"s3://{place}",
        timeout_s=timeout_s,
        endpoint=endpoint,
        region="us-east-1",
        access_key_id="test",
        secret_access_key="test",
        virtual_hosted_style_request=False,
        # No connection outlives its call: a test leaves nothing open.
        client_options={"allow_http": True, "pool_max_idle_per_host": "0"},
    )


class UnreliableStore:
    """``before`` and ``after`` are called with (operation, key) around every call; what they raise
    is what the caller gets. "after": it was carried out all the same.
    """

    def __init__(self, store: ObjectStore) -> None:
        self.name = store.name
        self._store = store
        self.before: Callable[[str, str], None] = lambda operation, key: None
        self.after: Callable[[str, str], None] = lambda operation, key: None

    def put_new(self, key: str, data: bytes, *, behind: str | None = None) -> bool:
        with self._around("put_new", key):
            return self._store.put_new(key, data, behind=behind)

    def get(self, key: str) -> Stored | None:
        with self._around("get", key):
            return self._store.get(key)

    def get_start(self, key: str, n_bytes: int) -> bytes | None:
        with self._around("get_start", key):
            return self._store.get_start(key, n_bytes)

    def head(self, key: str) -> int | None:
        with self._around("head", key):
            return self._store.head(key)

    def replace(self, key: str, data: bytes, tag: str) -> bool:
        with self._around("replace", key):
            return self._store.replace(key, data, tag)

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        with self._around("list", prefix):
            return self._store.list(prefix)

    @contextmanager
    def _around(self, operation: str, key: str) -> Iterator[None]:
        self.before(operation, key)
        yield
        self.after(operation, key)


def fails(*operations: str) -> Callable[[str, str], None]:
    """For ``before`` or ``after``: these operations do not answer."""

    def refuse(operation: str, key: str) -> None:
        if operation in operations:
            raise Unavailable(f"{operation} of {key} was made to fail", outcome="unknown")

    return refuse


def folder(path: Path) -> FolderStore:
    store = FolderStore(LocalFileSystem(), path)
    store.make_root()
    return store
