"""A hosted store with real Ray whose logs are shipped: owners killed under it, then a lost disk."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import neverforget as nf
from neverforget.runtime.restoring import restore
from tests.cluster.processes import PATIENCE_S, end_host, python, told, until

SERVED = """
import json, sys
import neverforget as nf
path, away = sys.argv[1:]
with nf.open(path, wait=150.0, deadline_s=150.0, partitions=1, embedder="none",
             extractor="none", replica="file://" + away) as store:
    chat = store.session("chat")
    turn = chat.append("user", "first", sync="replica")
    memory = store.remember("Oslo is wet", sync="replica")
    print(json.dumps({"pid": store.status().owners[0].pid, "seq": turn.seq}))
"""


@pytest.fixture
def path(short_path: Path) -> Iterator[Path]:
    found = short_path / "store"
    yield found
    end_host(found)


def test_a_killed_owner_comes_back_with_what_is_there_and_a_lost_disk_too(
    path: Path, short_path: Path
) -> None:
    away = short_path / "away"
    first = told(python(SERVED, str(path), str(away)))
    with nf.open(path, host="never", wait=PATIENCE_S, deadline_s=PATIENCE_S) as store:
        os.kill(first["pid"], signal.SIGKILL)
        chat = store.session("chat")
        assert chat.append("user", "second", sync="replica", key="k").seq == 1
        assert [turn.content for turn in chat] == ["first", "second"]
        until(lambda: store.status().owners[0].pid != first["pid"], "another owner")
        replica = store.status().owners[0].replica
        assert replica is not None and replica.state == "everything"
    end_host(path)
    shutil.rmtree(path)
    assert restore(short_path / "new", f"file://{away}").memories == 1
    with nf.open(short_path / "new", inline=True) as store:
        assert [turn.content for turn in store.session("chat")] == ["first", "second"]
