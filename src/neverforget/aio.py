"""neverforget on event loops: ``await aio.open(path)`` gives an ``AsyncStore``.

    from neverforget import aio

    async with await aio.open("memory") as store:
        chat = store.session("support/4711")
        await chat.append("user", "Where is my parcel?")
        async for turn in chat:
            print(turn.role, turn.content)

The same names and arguments as in ``neverforget``; values and errors are the same classes.
"""

from __future__ import annotations

from neverforget.runtime.async_session import AsyncSession
from neverforget.runtime.async_store import AsyncStore, connect, open
from neverforget.runtime.async_working_memory import AsyncWorkingMemory

__all__ = ["AsyncSession", "AsyncStore", "AsyncWorkingMemory", "connect", "open"]
