"""The long-term API on event loops: the same operations, over sockets and inline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from tests.fakes.plain_host import PlainHost

pytestmark = pytest.mark.asyncio


@pytest.fixture(params=["inline", "attached"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[nf.aio.AsyncStore]:
    if request.param == "inline":
        path: Path = request.getfixturevalue("tmp_path") / "store"
        mode: dict[str, Any] = {"inline": True, "embedder": "none", "partitions": 2}
    else:
        host: PlainHost = request.getfixturevalue("host")
        path, mode = host.store.path, {"host": "never"}
    async with await nf.aio.open(path, agent="ada", **mode) as opened:
        yield opened


async def test_every_call_has_its_coroutine(store: nf.aio.AsyncStore) -> None:
    made = await store.remember("Ada lives in Oslo", key="home", tags="geo", namespace="acme")
    one, two = await store.remember_many([{"text": "the parcel"}, {"text": "the train"}])
    hits = await store.recall("where is Oslo", strategy="text")
    assert [hit.memory for hit in hits] == [made] and hits.complete
    assert await store.get(key="home", namespace="acme") == made
    assert await store.get("nonsense", default=None) is None
    with pytest.raises(nf.NotFound):
        await store.get("nonsense")
    assert await store.get_many([two.id, "nonsense"]) == [two, None]
    assert [memory.text for memory in await store.memories(tags="geo")] == ["Ada lives in Oslo"]

    revised = await store.revise(made.id, text="Ada lives in Paris", expect_version=1)
    reverted = await store.revert(made.id, 1)
    assert await store.history(made.id) == [made, revised, reverted]
    await store.tag(made.id, "x")
    await store.untag(made.id, "geo")
    assert (await store.get(made.id)).tags == ("x",)
    await store.relate(one.id, two.id, "about")
    await store.session("chat").append_many([{"role": "user", "content": "a"}] * 2)
    await store.relate(one.id, nf.TurnRef((), "chat", 0, 1), "derived-from")
    assert len(await store.relations(one.id)) == 2
    assert await store.provenance(one.id) == [nf.TurnRef((), "chat", 0, 1)]
    await store.unrelate(one.id, two.id, "about")
    assert await store.relations(two.id) == []

    with pytest.raises(nf.ConfirmationRequired):
        await store.forget(one.id)
    assert (await store.forget(one.id, confirm=nf.CONFIRMED)).target["id"] == one.id
    await store.undo_forget(one.id)
    await store.archive(one.id, confirm=nf.CONFIRMED)
    await store.unarchive(one.id)
    assert await store.archive_where(tags="x", confirm=nf.CONFIRMED) == 1
    assert await store.forget_where(types="fact", namespace="acme", confirm=nf.CONFIRMED) == 1
    assert await store.purge(older_than=timedelta(0), confirm=nf.CONFIRMED) == 1
    assert (await store.erase(two.id, confirm=nf.CONFIRMED)).memories == 1
    chat = store.session("chat", namespace="acme")
    await chat.append("user", "hi")
    await store.remember("gone", namespace="acme")
    report = await store.erase_where(namespace="acme", confirm=nf.CONFIRMED)
    assert (report.sessions, report.turns, report.memories) == (1, 1, 1)
    assert len(await store.audit(target=one)) == 5
    assert (await store.deletion_report("today")).forgotten == 2
    assert (await store.namespaces()).items == ((),)
    status = await store.settle()
    assert status.memories == 1 and status.longterm.state == "serving"
    assert (await store.verify()).ok


async def test_tasks_remember_and_recall_together(store: nf.aio.AsyncStore) -> None:
    made = await asyncio.gather(*(store.remember(f"parcel word{n}") for n in range(40)))
    assert len({memory.id for memory in made}) == 40
    found = await asyncio.gather(
        *(store.recall(f"a word{n}", strategy="text", limit=1) for n in range(40))
    )
    assert [hits[0].memory.id for hits in found] == [memory.id for memory in made]


async def test_a_view_and_a_sync_handle_see_the_same(store: nf.aio.AsyncStore) -> None:
    made = await store.scoped(namespace="acme", agent="bob").remember("x")
    assert (made.namespace, made.agent, made.by) == (("acme",), "bob", "bob")
    assert await store.get(made.id) == made
    with pytest.raises(nf.NotFound):
        await store.scoped(namespace="other").get(made.id)
