"""How a store has its long-term owner and its embedder: made with it, opened when first asked."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.actors.messages import Status
from neverforget.runtime.config import Config, longterm_directory
from neverforget.runtime.embedder_hash import HashEmbedder
from neverforget.runtime.endpoint import Endpoint
from neverforget.runtime.stored_settings import read_stored
from neverforget.storage.directory_lock import boot_id, this_process
from neverforget.storage.embedder_file import read_embedder
from neverforget.storage.filesystem import LocalFileSystem
from tests.fakes.plain_host import PlainHost

HASH = "object:hash-64"


def inline(path: Path, embedder: Any = None) -> nf.Store:
    named = {} if embedder is None else {"embedder": embedder}
    config = Config(partitions=1, segment_bytes=65536, **named)
    return nf.open(path, inline=True, config=config)


def test_a_store_that_only_chats_loads_nothing_that_searches(tmp_path: Path) -> None:
    program = """
import sys, threading, neverforget as nf
with nf.open(sys.argv[1], inline=True) as store:
    store.session("chat").append("user", "x")
    store.session("chat").tail()
    print(sorted({"faiss", "pyarrow", "tantivy", "onnxruntime", "ray"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "s")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


def test_the_embedder_is_fixed_and_named_in_its_own_file(tmp_path: Path) -> None:
    with inline(tmp_path, embedder=HashEmbedder()) as store:
        assert store.config.embedder_name == HASH
        json.dumps(store.config.as_dict())
    assert read_embedder(LocalFileSystem(), longterm_directory(tmp_path)).name == HASH
    assert "embedder" not in (tmp_path / "store.toml").read_text().split("[host]")[0]
    with inline(tmp_path) as store:
        assert (store.config.embedder_name, store.config.sources["embedder"]) == (HASH, "store")
    for other in ("minilm", "none", HashEmbedder(8)):
        with pytest.raises(nf.EmbedderMismatch, match="reindex"):
            inline(tmp_path, embedder=other)
    with inline(tmp_path, embedder=HashEmbedder()):
        pass


def test_an_attaching_client_that_names_another_embedder_is_refused(short_path: Path) -> None:
    host = PlainHost(short_path / "store", Config(partitions=1, embedder="none"))
    try:
        with pytest.raises(nf.EmbedderMismatch):
            nf.open(short_path / "store", host="never", embedder="minilm")
        with nf.open(short_path / "store", host="never", embedder="none") as store:
            assert store.config.embedder == "none"
    finally:
        host.close()


def test_no_new_store_has_an_object_that_nobody_passed(tmp_path: Path) -> None:
    with pytest.raises(nf.InvalidArgument, match="pass the object itself"):
        inline(tmp_path, embedder=HASH)


def test_without_its_object_a_store_finds_by_words_and_says_so(tmp_path: Path) -> None:
    with inline(tmp_path, embedder=HashEmbedder()) as store:
        store.remember("red apples")
        assert "vector" in store.recall("red apples", wait=30)[0].sources
    with inline(tmp_path) as store:
        hits = store.recall("apples", wait=60)
        assert list(hits[0].sources) == ["text"] and not hits.complete
        with pytest.raises(nf.Unavailable, match="not given that object"):
            store.recall("apples", strategy="vector", wait=60)
        assert store._engine.reach.lend_embedder(HashEmbedder()) == HASH


def test_a_missing_longterm_directory_is_quarantined_and_conversations_go_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """What is wrong is said in a sentence: a traceback stood above it."""
    inline(tmp_path).close()
    shutil.rmtree(tmp_path / "longterm")
    with inline(tmp_path) as store:
        store.session("chat").append("user", "x")
        with pytest.raises(nf.Corrupt, match="quarantined"):
            store.remember("lost")
        assert len(store.session("chat")) == 1
    (said,) = [each for each in caplog.records if "is quarantined" in each.message]
    assert said.exc_info is None
    assert not (tmp_path / "longterm" / "0" / "IDENTITY").exists()


def test_a_creation_that_died_before_the_memories_had_their_place_is_finished(
    tmp_path: Path,
) -> None:
    inline(tmp_path, embedder="none").close()
    (tmp_path / "IDENTITY").unlink()
    (tmp_path / "longterm").rename(tmp_path / "regions" / "longterm")
    with inline(tmp_path) as store:
        assert store.config.embedder == "none"
        assert store.remember("there").text == "there"


def test_a_damaged_embedder_file_leaves_conversations_alone(tmp_path: Path) -> None:
    inline(tmp_path, embedder="none").close()
    file = longterm_directory(tmp_path) / "EMBEDDER"
    file.write_bytes(file.read_bytes()[:-4])
    assert "embedder" not in read_stored(tmp_path)
    with inline(tmp_path) as store:
        store.session("chat").append("user", "x")


def test_a_place_that_is_not_there_is_never_another_one(tmp_path: Path) -> None:
    """-3 was, of a list of sockets, the last but two."""
    endpoint = Endpoint(
        store_id="s",
        kind="serve",
        process=this_process(),
        boot=boot_id(),
        node="n",
        started_at=0,
        control="host",
        sockets=("p0", "p1", "p2", "p3"),
        longterm="lt",
        embedders=("e0", "e1"),
    )
    places = {0: "p0", 3: "p3", -1: "host", -2: "lt", -3: "e0", -4: "e1"}
    assert {place: endpoint.socket_of(place) for place in places} == places
    for place in (4, -5):
        with pytest.raises(nf.Unavailable, match=f"no owner {place}"):
            endpoint.socket_of(place)
    with inline(tmp_path) as store:
        for place in (1, -1, -3):
            with pytest.raises(nf.Unavailable, match=f"no owner {place}"):
                store._engine.channel.call(place, Status(0), time.monotonic() + 30)


def test_async_and_blocking_handles_share_one_owner(tmp_path: Path) -> None:
    import asyncio

    async def on_loop() -> str:
        async with await nf.aio.open(tmp_path, inline=True) as twin:
            return (await twin.get(key="k")).text

    with inline(tmp_path, embedder=HashEmbedder()) as store:
        store.remember("one engine", key="k")
        assert asyncio.run(on_loop()) == "one engine"


@pytest.mark.parametrize(
    "wrong",
    [
        {"timezone": "Mars/Base"},
        {"timezone": ""},
        {"recall_text": -1},
        {"recall_vector": math.nan},
        {"recall_candidates": 0},
        {"embedder_processes": 0},
        {"embedder": "object:"},
        {"embedder": 1.5},
        {"embedder": "hash"},
    ],
    ids=str,
)
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(nf.InvalidArgument):
        Config(**wrong)
