"""One engine per process and real path, without Ray and sockets."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from neverforget.actors.messages import AppendedReply
from neverforget.runtime.config import Config
from neverforget.runtime.endpoint import read_endpoint
from neverforget.runtime.inline import open_inline
from neverforget.runtime.opening import attach
from neverforget.storage.errors import InvalidArgument, NotFound, StoreLocked, UnsupportedFormat
from tests.actors.regions import Asked, append


def test_handles_share_one_engine_and_the_last_one_ends_it(tmp_path: Path) -> None:
    first = open_inline(tmp_path / "store")
    (tmp_path / "link").symlink_to(tmp_path / "store")
    second = open_inline(tmp_path / "link")
    assert second.partitions is first.partitions
    assert second.lock is first.lock
    first.close()
    first.close()
    asked = Asked(append(1))
    second.partitions[0].run([asked])
    assert isinstance(asked.answer, AppendedReply)
    second.close()
    assert read_endpoint(tmp_path / "store") is None
    third = open_inline(tmp_path / "store")
    assert third.partitions is not first.partitions
    third.close()


def test_others_learn_at_once_that_they_cannot_attach(tmp_path: Path) -> None:
    host = open_inline(tmp_path)
    for choice in ("auto", "never"):
        with pytest.raises(StoreLocked, match="this process") as caught:
            attach(tmp_path, host=choice)
        assert (caught.value.pid, caught.value.role) == (os.getpid(), "application")
    host.close()


def test_threads_that_open_at_once_share_it(tmp_path: Path) -> None:
    barrier = threading.Barrier(16)
    found = []

    def one() -> None:
        barrier.wait()
        found.append(open_inline(tmp_path, Config(partitions=1)))

    threads = [threading.Thread(target=one) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(host.partitions) for host in found}) == 1
    for host in found:
        host.close()
    assert read_endpoint(tmp_path) is None


def test_a_forked_child_closes_nothing_of_its_parents(tmp_path: Path) -> None:
    host = open_inline(tmp_path)
    child = os.fork()
    if child == 0:
        host.close()
        try:
            open_inline(tmp_path)
        except StoreLocked:
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    asked = Asked(append(1))
    host.partitions[0].run([asked])
    assert isinstance(asked.answer, AppendedReply)
    host.close()


def test_an_engine_that_cannot_open_leaves_nothing_held(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(UnsupportedFormat):
        open_inline(tmp_path)
    (tmp_path / "thesis.tex").unlink()
    open_inline(tmp_path).close()


def test_nothing_is_created_for_who_only_comes_back(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        open_inline(tmp_path / "store", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_place_for_a_store(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "store"):
        with pytest.raises(InvalidArgument):
            open_inline(path)
        with pytest.raises(InvalidArgument):
            attach(path)
