"""Stores for tests: inline, small on disk, gone with the test."""

from __future__ import annotations

import os

from neverforget.runtime import engine
from neverforget.runtime.config import Config
from neverforget.runtime.reaching import Wanted
from neverforget.runtime.scope import Scope
from neverforget.runtime.store import Store
from neverforget.runtime.store_path import real_path
from neverforget.storage.clock import Clock, SystemClock

SEGMENT_BYTES = 64 * 1024


def store(tmp_path: str | os.PathLike[str], clock: Clock | None = None) -> Store:
    """A store of one partition inside this process, in ``tmp_path``; about 100 KB on disk.

    Opening the same path again, also after ``close``, finds what was stored before. ``clock``
    stamps turns and drives timers: an object with ``now_us()`` (microseconds since 1970) and
    ``monotonic()`` (seconds). Close it, or use it as a context manager.
    """
    asked = Config(partitions=1, segment_bytes=SEGMENT_BYTES)
    wanted = Wanted(inline=True, asked=asked, clock=clock or SystemClock())
    held, config = engine.lease(real_path(tmp_path), wanted)
    return Store(held, Scope().configured(config), config)
