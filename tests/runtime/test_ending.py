"""A process that ends while vectors are made in it ends in order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import neverforget as nf

_END_AT_ONCE = """
import sys, threading, neverforget as nf
from neverforget.runtime.embedder_minilm import MiniLMEmbedder

begun = threading.Event()

class Slow(MiniLMEmbedder):
    batch_texts_max = 256  # a call takes seconds, longer than closing waits

    def embed(self, texts):
        if len(texts) > 1:
            begun.set()
        return super().embed(texts)

with nf.open(sys.argv[1], inline=True, embedder=Slow(), chunk_over_characters=10_000) as store:
    store.remember_many([{"text": f"word {n} " * 500} for n in range(100)])
    begun.wait()
"""


def test_a_process_that_ends_amid_embedding_is_not_aborted(tmp_path: Path) -> None:
    """The model's thread came back into an interpreter that was gone: SIGABRT, two times of six."""
    path = tmp_path / "store"
    ended = subprocess.run(
        [sys.executable, "-c", _END_AT_ONCE, str(path)], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    with nf.open(path, inline=True) as store:
        assert len(store.memories()) == 100
