"""The directory of a hosted store is deleted or renamed: its host ends, and its path is free."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime.endpoint import read_endpoint
from neverforget.runtime.opening import attach
from tests.cluster.processes import PATIENCE_S

GIVEN_UP_S = 2.0  # a renamed store may come back: whoever appends waits for a host until then


def serve(path: Path, **environment: str) -> subprocess.Popen[str]:
    """``neverforget serve``, once it serves. Its remarks are read with ``communicate``."""
    process = subprocess.Popen(
        [sys.executable, "-m", "neverforget", "serve", str(path), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    return process


@pytest.mark.parametrize("fate", ["deleted", "renamed"])
def test_a_host_whose_store_is_gone_ends_and_a_new_store_may_stand_there(
    short_path: Path, fate: str
) -> None:
    """It went on acknowledging turns into unlinked files, and old handles joined it."""
    path, elsewhere = short_path / "store", short_path / "elsewhere"
    process = serve(path)
    with nf.open(path, host="never", deadline_s=PATIENCE_S) as old:
        chat = old.session("chat")
        assert chat.append("user", "kept").seq == 0
        if fate == "deleted":
            shutil.rmtree(path)
        else:
            path.rename(elsewhere)
        hasty = old.scoped(deadline=GIVEN_UP_S).session("chat")
        with pytest.raises((nf.Corrupt, nf.Unavailable, nf.NotFound)):
            for n in range(1_000_000):
                hasty.append("user", f"lost {n}")
        _, remarks = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1
        assert f"ending: {path}/LOCK is gone" in remarks
        assert "may be lost with it" in remarks
        with nf.open(path, inline=True) as new:
            assert len(new.session("chat")) == 0
    if fate == "renamed":
        with nf.open(elsewhere, inline=True) as found:
            assert found.session("chat")[0].content == "kept"


def test_a_process_that_hosts_in_its_own_ray_starts_again_at_once(
    ray_local: Any, short_path: Path
) -> None:
    path = short_path / "store"
    old = attach(path)
    assert old.endpoint.pid == os.getpid()
    shutil.rmtree(path)
    new = attach(path)
    assert new.endpoint.pid == os.getpid()
    assert new.store_id != old.store_id
    old.close()
    assert read_endpoint(path) is not None
    new.close()
    assert read_endpoint(path) is None


def test_a_host_says_why_it_ends_and_leaves_no_folder_behind(short_path: Path) -> None:
    """A path too long for sockets has them elsewhere: the folder there stayed behind, empty."""
    path = short_path / ("long" * 40) / "store"
    folders = short_path / f"neverforget-{os.geteuid()}"
    process = serve(path, XDG_RUNTIME_DIR=str(short_path))
    endpoint = read_endpoint(path)
    assert endpoint is not None
    assert Path(endpoint.control).parent.parent == folders
    process.send_signal(signal.SIGTERM)
    _, remarks = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert "ending: told to by SIGTERM" in remarks
    assert list(folders.iterdir()) == []


def test_a_host_that_was_started_for_a_client_says_that_nobody_came_again(short_path: Path) -> None:
    path = short_path / "store"
    process = subprocess.run(
        [sys.executable, "-m", "neverforget", "serve", str(path), "--linger", "0.2"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert process.returncode == 0
    assert "ending: no client for 0.2 s" in process.stderr
