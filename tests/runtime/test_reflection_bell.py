"""How a host learns that sessions are due: owners say so when they are greeted, and its watchdog
rings at the reflector's door.
"""

from __future__ import annotations

import queue
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import neverforget as nf
from neverforget.actors.doorbell import Doorbells, ring
from neverforget.actors.places import REFLECTOR
from neverforget.runtime.config import Config
from neverforget.runtime.endpoint import read_endpoint
from neverforget.runtime.watchdog import Owner, Watchdog
from tests.fakes.plain_host import PlainHost


def test_ringing_takes_no_notice_of_a_door_without_a_bell(short_path: Path) -> None:
    rung: queue.Queue[str] = queue.Queue()
    bells = Doorbells()
    bells.hang(short_path / "r0.sock", partial(rung.put, "r0"))
    bells.start()
    ring(short_path / "r1.sock")
    ring(short_path / "r0.sock")
    assert rung.get(timeout=60) == "r0"
    ring(short_path / "r0.sock")  # nobody listens there any more
    bells.close()
    assert rung.empty()


def test_a_watchdog_tells_that_sessions_of_an_owner_are_due(short_path: Path) -> None:
    told: queue.Queue[None] = queue.Queue()
    config = Config(partitions=1, embedder="none", reflect_every_turns=2)
    host = PlainHost(short_path / "store", config, reflects=True)
    try:
        handle: Any = SimpleNamespace(name="p0", pid=lambda: None)
        cluster: Any = SimpleNamespace(lost=lambda: None)
        owner = Owner(host.spec(0), handle, lambda: handle)
        dog = Watchdog([owner], cluster, lambda why: None, on_due=partial(told.put, None))
        with nf.open(host.store.path, host="never") as store:
            chat = store.session("chat")
            chat.append("user", "one")
            dog.check(owner)
            assert told.empty()
            chat.append("user", "two")
            dog.check(owner)
            told.get_nowait()
            found = store.status().reflection
            assert (found.turns, found.due, found.state) == (2, 1, "idle")
            with pytest.raises(nf.Unavailable, match="wait to be reflected: 1;"):
                store.settle(timeout=0)
    finally:
        host.close()


def test_a_host_without_a_reflector_says_so(short_path: Path) -> None:
    host = PlainHost(short_path / "store", Config(partitions=1, embedder="none"))
    try:
        endpoint = read_endpoint(host.store.path)
        assert endpoint is not None
        with pytest.raises(nf.Unavailable, match="has no owner"):
            endpoint.socket_of(REFLECTOR)
    finally:
        host.close()
