"""When a store chunks, and what summarises: settings of its host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime.config import Config, attached, effective, host_settings
from neverforget.runtime.stored_settings import read_stored, store_toml
from tests.actors.chunkers import long_text
from tests.fakes.summarizers import Answering


def summary_of(store: nf.Store, memory: nf.Memory) -> list[str]:
    found = store.relations(memory.id, kind="summarizes")
    return [store.get(relation.source).text for relation in found]


def test_an_inline_store_chunks_by_its_settings(tmp_path: Path) -> None:
    path, text = tmp_path / "s", long_text("tea", 1_000)
    settings: dict[str, Any] = {"inline": True, "embedder": "none", "partitions": 1}
    with nf.open(path, **settings) as store:
        memory = store.remember(text)
        store.settle()
        assert store.chunks(memory.id) == []
    given = Answering()
    with nf.open(path, **settings, chunk_over_characters=200, summarizer=given) as store:
        store.settle()  # what is too long by now is chunked when the store is opened
        chunks = store.chunks(memory.id)
        assert "".join(chunk.text for chunk in chunks) == text
        assert max(len(chunk.text) for chunk in chunks) <= 200
        assert summary_of(store, memory) == ["In short."] and given.asked == 1
        status = store.status().longterm
        assert (status.chunks_waiting, status.chunks_running, status.chunks_failed) == (0, 0, 0)
        assert (status.chunkers, status.summaries_failed, status.chunk_error) == (1, 0, None)
        assert store.config.sources["summarizer"] == "argument"


@pytest.mark.parametrize(
    "wrong",
    [
        {"chunk_over_characters": 199},
        {"chunk_over_characters": 2000.0},
        {"chunker_processes": 0},
        {"chunker_processes": 33},
        {"summarizer": "clever"},
        {"summarizer": None},
        {"summarizer": Answering},
        {"summarizer": Answering(summarizer_id="two\nlines")},
        {"summarizer": Answering(summarizer_id="x" * 600)},
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(nf.InvalidArgument, match=r"characters|processes|summarizer"):
        Config(**wrong)


def test_the_file_keeps_the_name_of_a_summarizer_that_is_an_object(tmp_path: Path) -> None:
    odd = Answering(summarizer_id='say "short" \\ 短く')
    config = effective(Config(summarizer=odd, chunker_processes=3), {})
    (tmp_path / "store.toml").write_bytes(store_toml(config))
    stored = read_stored(tmp_path)
    assert stored["summarizer"] == 'object:say "short" \\ 短く' == config.summarizer_name
    assert stored["chunker_processes"] == 3
    assert effective(Config(), stored).summarizer_object is None
    assert effective(Config(summarizer=odd), stored).summarizer_object is odd


def test_who_attaches_names_the_summarizer_of_the_host_or_none() -> None:
    hosted = host_settings(effective(Config(summarizer=Answering()), {}))
    assert attached(Config(summarizer=Answering()), hosted, {}).summarizer_name == (
        "object:answering"
    )
    with pytest.raises(nf.InvalidArgument, match="at the host"):
        attached(Config(summarizer="extractive"), hosted, {})


def test_without_its_object_a_host_chunks_and_says_what_is_missing(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"inline": True, "embedder": "none", "partitions": 1}
    nf.open(tmp_path / "s", **settings, summarizer=Answering()).close()
    with nf.open(tmp_path / "s", **settings) as store:
        memory = store.remember(long_text())
        store.settle()
        assert store.chunks(memory.id) and summary_of(store, memory) == []
        status = store.status().longterm
        assert status.summaries_failed == 1 and "was not given" in str(status.chunk_error)


def test_an_object_is_not_sent_to_a_host_of_its_own(short_path: Path) -> None:
    with pytest.raises(nf.InvalidArgument, match="given as summarizer lives in the process"):
        nf.open(short_path / "store", summarizer=Answering())
    assert not (short_path / "store" / "regions").exists()
