"""The rows of ``bench_recall`` that a user sees: a client process, an owner process, the default
embedder.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import neverforget as nf
from bench import ours
from bench.filling import filled
from bench.measure import TEXT, Options, Row, interleave
from bench.memories import DIMENSION, Corpus
from bench.peers import RECORD_BYTES, SocketEcho, SQLite
from neverforget.runtime.embedders import made
from neverforget.storage.embedder_file import EmbedderFile, write_embedder
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.identity import read_identity

QUERIES = 101
ROUNDS = 5


def attached(folder: Path, size: int, options: Options) -> list[Row]:
    """A hosted store of ``size`` memories, and one without an embedder to remember in."""
    corpus = Corpus(size)
    prepared(folder / "hosted", corpus)
    nf.open(folder / "words", inline=True, embedder="none").close()
    calls = 20 if options.quick else QUERIES
    with ExitStack() as stack:
        store = stack.enter_context(ours.hosted(folder / "hosted"))
        words = stack.enter_context(ours.hosted(folder / "words"))
        chat = words.session("chat")
        queries = [text for text, _ in corpus.queries(2 * ROUNDS * calls + calls)]
        known = [f"{query} known" for query in queries[:calls]]
        for query in known:
            assert store.recall(query, wait=60).complete, "every vector is there"
        ask = asking(store)
        peer, echo = SQLite(folder / "words.db"), SocketEcho(RECORD_BYTES)
        stack.callback(peer.close)
        stack.callback(echo.close)
        m = interleave(
            [
                ours.Call("known", ask(known)),
                ours.Call("new", ask(queries)),
                ours.Call("words", ask(queries, strategy="text")),
                ours.Call("remember", lambda: words.remember(TEXT)),
                ours.Call("append", lambda: chat.append("user", TEXT)),
                peer,
                echo,
            ],
            rounds=2 if options.quick else ROUNDS,
            calls=calls,
        )
    trip = ("socket round trip", m.us(echo.name))
    return [
        Row(f"store.recall, {size:,}, its vector known", "us", m.us("known"), "", None, *trip),
        Row(f"the same, p99, {size:,}", "us", m.us("known", 0.99), "", None, *trip),
        Row(f"store.recall, {size:,}, embedded by MiniLM", "us", m.us("new"), "", None, *trip),
        Row(f"store.recall, {size:,}, by words", "us", m.us("words"), "", None, *trip),
        Row(
            "store.remember, durable", "us", m.us("remember"), "append of a turn", m.us("append"),
            "SQLite", m.us(peer.name), m.ratio("remember", "append"),
        ),
    ]  # fmt: skip


def prepared(path: Path, corpus: Corpus) -> None:
    """A store of the default embedder that has everything embedded already, by vectors that are
    made up: what is measured does not depend on what they mean.
    """
    nf.open(path, inline=True).close()
    fs, longterm = LocalFileSystem(), path / "longterm" / "0"
    embedder = made("minilm")
    assert embedder is not None and embedder.dimension == DIMENSION
    held = EmbedderFile("minilm", embedder.model_id, DIMENSION)
    write_embedder(fs, longterm, held)
    filled(
        longterm, longterm / held.folder, corpus,
        store_id=read_identity(fs, longterm).store_id, model=embedder.model_id,
    )  # fmt: skip


def asking(store: nf.Store) -> Callable[..., Callable[[], object]]:
    def ask(queries: list[str], **how: str) -> Callable[[], object]:
        turn = itertools.cycle(queries)
        return lambda: store.recall(next(turn), **how)  # type: ignore[arg-type]

    return ask
