"""A host without Ray: the real lock, sockets, owners and ENDPOINT, here or in a process of its own.

Everything a client meets is the product's own code; only the actors' processes are missing. Run as
a program with a path it serves until its standard input ends, or until it is killed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from neverforget.actors.chunker_local import local_chunkers
from neverforget.actors.embedding import LocalEmbedding
from neverforget.actors.host_messages import OwnerView
from neverforget.actors.longterm import LongTerm
from neverforget.actors.partition import Partition, PartitionSpec
from neverforget.actors.server import SocketServer
from neverforget.runtime import embedders
from neverforget.runtime.config import Config, host_settings
from neverforget.runtime.control import HostService
from neverforget.runtime.endpoint import (
    HOST_SOCKET,
    Endpoint,
    remove_endpoint,
    socket_folder,
    write_endpoint,
)
from neverforget.runtime.owner_specs import OwnerSpecs
from neverforget.runtime.store_directory import prepare
from neverforget.storage.directory_lock import DirectoryLock, boot_id, this_process
from neverforget.storage.filesystem import FileSystem, LocalFileSystem


class PlainHost:
    """Hosts the store at ``path`` from construction to ``close``; ``fs`` is that of its owners.
    ``reflects``: sessions become due. It has no reflector.
    """

    def __init__(
        self,
        path: Path,
        config: Config | None = None,
        fs: FileSystem | None = None,
        *,
        reflects: bool = False,
    ) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._fs = fs
        self._lock = DirectoryLock.acquire(path, role="serve")
        self.store = prepare(LocalFileSystem(), path, config or Config())
        self._folder = socket_folder(self.store.path, self.store.store_id)
        self._specs = OwnerSpecs(self.store, this_process(), self._folder, reflects=reflects)
        self._owners: dict[int, tuple[Partition, SocketServer]] = {}
        for number in range(self.store.config.partitions):
            self.start_owner(number)
        self.start_longterm()
        service = HostService(
            self.store.store_id,
            role="serve",
            ray_address=None,
            owners=self._views,
            linger_s=None,
            on_idle=lambda: None,
        )
        self._control = SocketServer(
            self._folder / HOST_SOCKET, service, store_id=self.store.store_id
        )
        self._control.start("plain-host")
        self.endpoint = Endpoint(
            store_id=self.store.store_id,
            kind="serve",
            process=this_process(),
            boot=boot_id(),
            node=os.uname().nodename,
            started_at=time.time_ns() // 1000,
            control=str(self._control.path),
            sockets=tuple(self._socket(n) for n in sorted(self._owners)),
            longterm=self._specs.longterm().socket,
            settings=host_settings(self.store.config),
        )
        write_endpoint(self.store.path, self.endpoint)

    def start_owner(self, number: int) -> None:
        """Open a partition and serve it, as a restarted actor does."""
        partition = Partition(_here(self._specs.partition(number)), fs=self._fs)
        server = SocketServer(Path(self._socket(number)), partition, store_id=self.store.store_id)
        partition.open()
        server.start(f"plain-p{number}")
        self._owners[number] = partition, server

    def spec(self, number: int) -> PartitionSpec:
        return self._specs.partition(number)

    def stop_owner(self, number: int) -> None:
        """End a partition; its socket is gone."""
        partition, server = self._owners.pop(number)
        server.stop()
        partition.close()

    def start_longterm(self) -> None:
        """The same for the long-term owner, with its embedder beside it."""
        spec = _here(self._specs.longterm())
        objects = self.store.config.embedder_objects
        lent = {name: embedders.made(embedder) for name, embedder in objects.items()}
        embedding = LocalEmbedding(embedders.made, {n: e for n, e in lent.items() if e is not None})
        chunkers = local_chunkers(self._specs.chunker(), self.store.config.summarizer_object)
        longterm = LongTerm(spec, embedding, chunkers=chunkers, fs=self._fs)
        server = SocketServer(Path(spec.socket), longterm, store_id=self.store.store_id)
        longterm.start()
        server.start("plain-lt0")
        self._longterm = longterm, server

    def stop_longterm(self) -> None:
        """End it; its socket is gone."""
        longterm, server = self._longterm
        server.stop()
        longterm.close()

    def close(self) -> None:
        """End everything, as an orderly host does."""
        if self._lock.displaced() is None:
            remove_endpoint(self.store.path, this_process())
        for number in list(self._owners):
            self.stop_owner(number)
        self.stop_longterm()
        self._control.stop()
        self._lock.release()

    def _socket(self, number: int) -> str:
        return self._specs.partition(number).socket

    def _views(self) -> list[OwnerView]:
        node = os.uname().nodename
        return [
            OwnerView(f"p{n}", os.getpid(), node, partition.state, 0, self._socket(n))
            for n, (partition, _) in sorted(self._owners.items())
        ]


def _here(spec: Any) -> Any:
    """Of an owner that nobody may end."""
    return replace(spec, role="application", host=None)


def spawn(path: Path) -> subprocess.Popen[bytes]:
    """A host in a process of its own; returns when it serves. Close its stdin to end it."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"serving\n"
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """End a spawned host in order, or reap a dead one."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    process.wait(timeout=30)
    process.stdout.close()


if __name__ == "__main__":
    host = PlainHost(Path(sys.argv[1]))
    print("serving", flush=True)
    sys.stdin.buffer.read()
    host.close()
