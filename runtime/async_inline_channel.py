"""Calls of tasks to owners that live in this process.

An owner's turn may wait for the disk, so it runs in a worker thread; waiting for an answer that
comes later (new turns, a verification) holds none, so any number of tasks may follow.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import cast

from neverforget.actors.messages import AnyReply, AnyRequest, Failure, Request
from neverforget.runtime.inline_channel import InlineChannel
from neverforget.runtime.retrying import Retrying


class _Awaited:
    """One request whose answer is a future of the event loop. Any thread may reply."""

    def __init__(self, request: AnyRequest) -> None:
        self.request = request
        self.answer: AnyReply | None = None
        self.alive = True
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[AnyReply] = self._loop.create_future()

    def reply(self, message: AnyReply) -> None:
        if self.answer is None:
            self.answer = message
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self._loop.call_soon_threadsafe(self._set, message)

    def _set(self, message: AnyReply) -> None:
        if not self.future.done():
            self.future.set_result(message)


class AsyncInlineChannel:
    """For the tasks of one event loop; the blocking channel belongs to the engine."""

    def __init__(self, channel: InlineChannel) -> None:
        self._channel = channel

    async def call(self, partition: int, request: Request, deadline: float) -> AnyReply:
        tries = Retrying(request, deadline)
        while True:
            waiting = _Awaited(cast("AnyRequest", request))
            try:
                await asyncio.to_thread(self._channel.turn, partition, waiting)
                left_s = deadline - time.monotonic()
                async with asyncio.timeout(None if left_s == float("inf") else left_s):
                    reply = await waiting.future
            except TimeoutError:
                raise tries.too_late("no answer within the deadline", sent=True) from None
            finally:
                waiting.alive = False
            if not isinstance(reply, Failure):
                return reply
            await asyncio.sleep(tries.refused(reply))

    def close(self) -> None:
        """Nothing of its own to let go."""
