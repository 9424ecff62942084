"""A process that ends while vectors are made in it ends in order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import neverforget as nf

_END_AT_ONCE = """
import sys, neverforget as nf
with nf.open(sys.argv[1], inline=True) as store:
    store.remember_many([{"text": f"word {n} " * 400} for n in range(40)])
    while store.status().longterm.embedder_state == "opening":
        pass
"""


def test_a_process_that_ends_amid_embedding_is_not_aborted(tmp_path: Path) -> None:
    """The model's thread came back into an interpreter that was gone: SIGABRT, two times of six."""
    path = tmp_path / "store"
    for _ in range(3):
        ended = subprocess.run(
            [sys.executable, "-c", _END_AT_ONCE, str(path)], capture_output=True, text=True
        )
        assert (ended.returncode, ended.stderr) == (0, "")
    with nf.open(path, inline=True) as store:
        assert store.verify().ok
