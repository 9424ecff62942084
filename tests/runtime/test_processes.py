"""Several processes at one store, and stores whose process ends or is interrupted."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime import engine
from neverforget.runtime.config import Config
from neverforget.runtime.inline import open_inline
from neverforget.storage.filesystem import Buffer, LocalFile, LocalFileSystem
from tests.fakes import plain_host
from tests.runtime.conftest import SMALL, filled, seqs


@pytest.fixture
def hosted(short_path: Path) -> Iterator[Path]:
    """The path of a store whose host is a process of its own."""
    process = plain_host.spawn(short_path / "store")
    yield short_path / "store"
    plain_host.end(process)


def in_children(count: int, work: Callable[[int], None]) -> None:
    """Run ``work(n)`` in ``count`` forked children, released together; all must end well."""
    read, write = os.pipe()
    pids = []
    for n in range(count):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(write)
                os.read(read, 1)  # ends when the parent closes its side
                work(n)
                code = 0
            finally:
                os._exit(code)
        pids.append(pid)
    os.close(read)
    os.close(write)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * count


def test_sixteen_processes_append_to_fresh_sessions_at_once(hosted: Path) -> None:
    with nf.open(hosted, host="never") as store:

        def work(n: int) -> None:
            for session in range(50):
                store.session(f"fresh-{session}").append("user", n)

        in_children(16, work)
        assert len(store.sessions()) == 50
        for session in range(50):
            turns = list(store.session(f"fresh-{session}"))
            assert seqs(turns) == list(range(16))
            assert sorted(turn.content for turn in turns) == list(range(16))


def test_time_zones_of_writers_do_not_matter(hosted: Path) -> None:
    with nf.open(hosted, host="never") as store:
        chat = store.session("chat")
        zones = ["Pacific/Kiritimati", "Pacific/Pago_Pago", "Asia/Kathmandu", "UTC"]

        def work(n: int) -> None:
            os.environ["TZ"] = zones[n]
            time.tzset()
            for _ in range(250):
                chat.append("user", n, timestamp=1_700_000_000_000, sync="process")

        in_children(4, work)
        turns = list(chat)
        assert seqs(turns) == list(range(1000))
        assert {turn.timestamp.isoformat() for turn in turns} == {"2023-11-14T22:13:20+00:00"}


def test_a_store_that_was_never_closed_ends_quietly_with_its_process(tmp_path: Path) -> None:
    """Sealing at exit found Python's worker pools gone and printed a traceback."""
    program = (
        "import sys, neverforget as nf\n"
        "store = nf.open(sys.argv[1], inline=True)\n"
        "print(store.session('chat').append('user', 'x', sync='process').seq)"
    )
    for expected in (b"0\n", b"1\n"):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program, str(tmp_path / "store")],
            capture_output=True,
            check=False,
        )
        assert (done.stdout, done.stderr) == (expected, b"")


def test_a_handle_that_is_dropped_last_of_all_waits_for_no_lock(
    inline: nf.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the interpreter ends it freezes threads: a ticker that held its lock kept the process
    for ever, one time of fifty. What is on the disk was sealed before.
    """
    inline.session("chat").append("user", "x")
    held, let_go = threading.Event(), threading.Event()
    channel: Any = inline._engine.channel

    def freeze() -> None:
        with channel._partitions._lock:
            held.set()
            let_go.wait()

    frozen = threading.Thread(target=freeze)
    frozen.start()
    assert held.wait(60)
    with monkeypatch.context() as patch:
        patch.setattr(engine, "is_finalizing", lambda: True)
        dropped = threading.Thread(target=inline._lease.__del__)
        dropped.start()
        dropped.join(20)
        waits = dropped.is_alive()
    let_go.set()
    frozen.join()
    assert not waits


class InterruptedFile(LocalFile):
    def pwrite(self, buffers: Sequence[Buffer], offset: int) -> None:
        if InterruptingFileSystem.armed:
            InterruptingFileSystem.armed = False
            raise KeyboardInterrupt
        super().pwrite(buffers, offset)


class InterruptingFileSystem(LocalFileSystem):
    """Ctrl-C arrives in the middle of the next write."""

    armed = False

    def open(self, path: Path, *, create: bool = False, read_only: bool = False) -> LocalFile:
        file = super().open(path, create=create, read_only=read_only)
        file.__class__ = InterruptedFile
        return file


def test_an_interrupt_in_mid_append_gives_no_seq_twice(tmp_path: Path) -> None:
    path = tmp_path / "store"
    host = open_inline(path, Config(**SMALL), fs=InterruptingFileSystem())
    with nf.open(path, inline=True) as store:
        chat = filled(store.session("chat"), 3)
        InterruptingFileSystem.armed = True
        with pytest.raises(KeyboardInterrupt):
            chat.append("user", "interrupted")
        turn = chat.append("user", "after")
        assert turn.seq == len(chat) - 1
        assert seqs(chat) == list(range(len(chat)))
        assert store.verify().ok
    host.close()
