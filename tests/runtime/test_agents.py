"""``store.agents()`` over real owners, and that it is the same on event loops."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget import testing
from neverforget.runtime import recalling
from neverforget.storage import agent_activity
from tests.fakes.plain_host import PlainHost
from tests.runtime.conftest import Opener

NOON = datetime(2026, 3, 11, 12, tzinfo=UTC)


class HandClock:
    """It is noon until somebody says otherwise; waiting takes as long as elsewhere."""

    now = NOON

    def now_us(self) -> int:
        return int(self.now.timestamp()) * 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(tmp_path: Path, clock: HandClock) -> Iterator[nf.Store]:
    with testing.store(tmp_path / "store", clock=clock) as opened:
        yield opened


def counts(store: nf.Store) -> dict[str, tuple[int, int, int, int]]:
    """agent -> (turns, sessions, memories, recalls)"""
    return {a.agent: (a.turns, a.sessions, a.memories, a.recalls) for a in store.agents()}


def test_who_uses_a_store(opener: Opener) -> None:
    store = opener()
    ann, bob = store.scoped(agent="ann"), store.scoped(agent="bob")
    for name in ("one", "two", "three"):
        ann.session(name).append_many([{"role": "user", "content": f"{name} {n}"} for n in (1, 2)])
    bob.session("one").append("assistant", "hello")
    ann.remember("the parcel is in Oslo")
    bob.recall("parcel", strategy="text")
    bob.recall("parcel", strategy="text", namespace=("elsewhere",))
    assert counts(store) == {"ann": (6, 3, 1, 0), "bob": (1, 1, 0, 2)}
    assert {a.agent: a.writes for a in store.agents()} == {"ann": 7, "bob": 1}


def test_a_store_that_nobody_used_has_no_agents(store: nf.Store) -> None:
    store.session("s").append("user", "nobody's")
    store.remember("nobody's")
    store.recall("nobody")
    assert store.agents() == []


def test_the_one_that_was_active_last_comes_first(store: nf.Store, clock: HandClock) -> None:
    def at(hour: int) -> datetime:
        clock.now = NOON.replace(hour=hour)
        return clock.now

    store.session("s", agent="writer").append("user", "x", timestamp=at(13))
    at(15)
    store.scoped(agent="learner").remember("x")
    at(14)
    store.scoped(agent="reader").recall("x")
    found = {a.agent: a.last_active for a in store.agents()}
    assert list(found) == ["learner", "reader", "writer"]
    assert [None if t is None else t.hour for t in found.values()] == [15, 14, 13]


def test_a_view_sees_what_lies_in_it(store: nf.Store) -> None:
    for place in ("acme", "acme-corp"):
        view = store.scoped(namespace=(place,), agent=f"of-{place}")
        view.session("s").append("user", "x")
        view.remember("x")
        view.recall("x")
    assert counts(store.scoped(namespace="acme")) == {"of-acme": (1, 1, 1, 1)}
    assert counts(store.scoped(namespace="nobody")) == {}
    assert len(store.agents()) == 2


def test_an_agent_leaves_with_what_it_said(store: nf.Store) -> None:
    store.session("s", agent="ann").append("user", "x")
    store.session("t", agent="bob").append("user", "x")
    told = store.scoped(agent="bob").remember("y")
    store.session("s").erase(confirm=nf.CONFIRMED)
    assert counts(store) == {"bob": (1, 1, 1, 0)}
    store.forget(told.id, confirm=nf.CONFIRMED)
    assert counts(store) == {"bob": (1, 1, 0, 0)}
    view = store.scoped(namespace="acme", agent="eve")
    view.session("s").append("user", "x")
    view.remember("z")
    view.recall("z")
    assert counts(store)["eve"] == (1, 1, 1, 1)
    store.erase_where(namespace="acme", confirm=nf.CONFIRMED)
    assert "eve" not in counts(store)


def test_recalls_outlive_the_store_that_counted_them(tmp_path: Path) -> None:
    for _ in range(2):
        with nf.open(tmp_path / "store", inline=True, embedder="none", agent="ann") as store:
            store.recall("anything")
    with nf.open(tmp_path / "store", inline=True) as store:
        assert counts(store) == {"ann": (0, 0, 0, 2)}


def test_a_recall_of_many_replies_is_one(store: nf.Store) -> None:
    """The owner may cut its answer, and the client asks for the rest."""
    store.remember_many([{"text": f"parcel {n}"} for n in range(9)])
    view = store.scoped(agent="ann")
    asked = recalling.question(
        view._context, view._scope, "parcel", None, None, None, False, {},
        strategy="text", fusion="weighted", limit=9, offset=0, explain=False, wait=1.0,
    )  # fmt: skip
    operation = recalling.recall(view._context, view._scope, asked)
    call, requests = operation.send(None), 0
    with contextlib.suppress(StopIteration):
        while True:
            request: Any = call.request
            requests += 1
            request.limit, wanted = min(request.limit, 4), request.limit
            reply: Any = view._engine.channel.call(call.partition, request, 1e9)
            reply.more = wanted > 4
            call = operation.send(reply)
    assert requests == 3 and counts(store) == {"ann": (0, 0, 0, 1)}


def test_a_long_log_is_counted_in_many_requests(
    opener: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_activity, "_PART_BYTES", 1_000)
    store = opener(agent="ann")
    for name in range(10):
        turns = [{"role": "user", "content": f"turn {n}"} for n in range(50)]
        store.session(f"s{name}").append_many(turns)
    assert counts(store) == {"ann": (500, 10, 0, 0)}


def test_the_same_on_an_event_loop(host: PlainHost) -> None:
    async def asked() -> list[nf.AgentInfo]:
        async with await nf.aio.open(host.store.path, host="never", agent="ann") as store:
            await store.session("s").append("user", "x")
            await store.recall("x", strategy="text")
            return await store.agents()

    (one,) = asyncio.run(asked())
    assert (one.agent, one.turns, one.recalls) == ("ann", 1, 1)
