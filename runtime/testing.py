"""Stores for tests: inline, small on disk, gone with the test."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from neverforget.runtime.config import Config
from neverforget.runtime.embedder_names import HASH
from neverforget.runtime.reaching import Wanted
from neverforget.runtime.store import Store, opened
from neverforget.runtime.store_path import real_path
from neverforget.storage.clock import Clock, SystemClock

if TYPE_CHECKING:
    from neverforget.actors.embedder_contract import Embedder
    from neverforget.actors.extractor_contract import Extractor

SEGMENT_BYTES = 64 * 1024


def store(
    tmp_path: str | os.PathLike[str],
    clock: Clock | None = None,
    embedder: str | Embedder = "hash",
    reflect_every_turns: int = 0,
    extractor: str | Extractor = "rules",
) -> Store:
    """A store of one partition inside this process, in ``tmp_path``; about 100 KB on disk, 200 KB
    with memories.

    Opening the same path again, also after ``close``, finds what was stored before. ``clock``
    stamps turns and drives timers: an object with ``now_us()`` (microseconds since 1970) and
    ``monotonic()`` (seconds). ``embedder``: "hash" compares memories by their words, the same on
    every machine and at once; it knows no meaning. Any other is as for ``neverforget.open``.
    ``reflect_every_turns`` 0: memories are made of what was said only when ``reflect`` is called,
    by ``extractor``.
    Close the store, or use it as a context manager.
    """
    if embedder == HASH:
        from neverforget.runtime.embedder_hash import HashEmbedder

        embedder = HashEmbedder()
    asked = Config(
        partitions=1,
        segment_bytes=SEGMENT_BYTES,
        embedder=embedder,
        reflect_every_turns=reflect_every_turns,
        extractor=extractor,
    )
    wanted = Wanted(inline=True, asked=asked, clock=clock or SystemClock())
    return opened(real_path(tmp_path), wanted)
