"""Calls on an event loop: one connection to each owner, shared by all tasks, no threads.

Replies are paired with their requests by id, so that a thousand tasks wait on one socket. Only the
search for the next host, after one has gone, blocks; it is done in a worker thread.
"""

from __future__ import annotations

import asyncio
import time
from typing import Protocol, cast

from neverforget.actors.frames import LENGTH, LENGTH_BYTES, frame, peer_is_trusted
from neverforget.actors.messages import (
    FRAME_BYTES_MAX,
    AnyReply,
    AnyRequest,
    Failure,
    Hello,
    Request,
    reply_decoder,
)
from neverforget.runtime.channel import Addresses, closed
from neverforget.runtime.connection import ConnectionLost, check_welcome
from neverforget.runtime.operation import Operation, T
from neverforget.runtime.retrying import Retrying, error_of
from neverforget.storage.errors import InvalidArgument, NeverforgetError, Unavailable


class AsyncChannel(Protocol):
    async def call(self, partition: int, request: Request, deadline: float) -> AnyReply:
        """As ``Channel.call``, for the tasks of one event loop."""
        ...

    def close(self) -> None:
        """As ``Channel.close``; on the loop's thread."""
        ...


async def run(operation: Operation[T], channel: AsyncChannel, deadline_s: float) -> T:
    """Drive ``operation`` to its end on the running loop. Each request may take ``deadline_s``."""
    try:
        call = operation.send(None)
        while True:
            patience_s = deadline_s if call.patience_s is None else call.patience_s
            deadline = time.monotonic() + patience_s
            try:
                reply = await channel.call(call.partition, call.request, deadline)
            except NeverforgetError as error:
                call = operation.throw(error)
            else:
                call = operation.send(reply)
    except StopIteration as stop:
        value: T = stop.value
        return value


class _Conversation(asyncio.Protocol):
    """One connection. ``waiting`` holds the future of each request that has no reply yet."""

    def __init__(self) -> None:
        self.waiting: dict[int, asyncio.Future[AnyReply]] = {}
        self.lost: ConnectionLost | None = None
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._pieces = bytearray()
        self._id = 0
        self._writable: asyncio.Event = asyncio.Event()
        self._writable.set()
        self._turn = asyncio.Lock()

    # ---- asyncio.Protocol ------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        pieces = self._pieces
        pieces += data
        start, end = 0, len(pieces)
        try:
            with memoryview(pieces) as view:
                while end - start >= LENGTH_BYTES:
                    (length,) = LENGTH.unpack_from(view, start)
                    if length > FRAME_BYTES_MAX:
                        raise ValueError(f"a reply of {length:,} bytes is no reply")
                    stop = start + LENGTH_BYTES + length
                    if stop > end:
                        break
                    self._take(reply_decoder.decode(view[start + LENGTH_BYTES : stop]))
                    start = stop
        except ValueError as error:  # also msgspec's errors
            self._end(f"the owner's reply cannot be read: {error}")
            return
        del pieces[:start]

    def connection_lost(self, exc: Exception | None) -> None:
        self._end("the owner closed the connection" if exc is None else f"it broke: {exc}")

    # ---- for the channel -------------------------------------------------------------------------

    async def ask(self, request: Request, deadline: float) -> AnyReply:
        """Send and wait. ConnectionLost when there is no reply in time."""
        await self._ready(deadline)
        self._id = request.id = self._id % 0x7FFFFFFF + 1  # 0 is the greeting's, and nobody's
        message = frame(cast("AnyRequest", request))
        if len(message) - LENGTH_BYTES > FRAME_BYTES_MAX:
            raise InvalidArgument(
                f"a request of {len(message):,} bytes is above the limit of {FRAME_BYTES_MAX:,}; "
                "append less at a time"
            )
        return await self.send(request.id, message, deadline)

    async def send(self, id: int, message: bytes, deadline: float) -> AnyReply:
        """Send a whole frame and wait for the reply with ``id``."""
        if self.lost is not None or self._transport is None:
            raise ConnectionLost("the connection is closed", sent=False)
        answer: asyncio.Future[AnyReply] = self._loop.create_future()
        self.waiting[id] = answer
        self._transport.write(message)
        try:
            async with asyncio.timeout_at(self._loop_time(deadline)):
                return await answer
        except TimeoutError:
            raise ConnectionLost("the owner does not answer", sent=True) from None
        finally:
            self.waiting.pop(id, None)

    async def _ready(self, deadline: float) -> None:
        """Until the connection takes more. One after the other: what is sent next may fill it, and
        it would grow by what everybody has who waits."""
        if self._writable.is_set() and not self._turn.locked():
            return
        try:
            async with asyncio.timeout_at(self._loop_time(deadline)), self._turn:
                await self._writable.wait()
        except TimeoutError:
            raise ConnectionLost("the owner takes no requests", sent=False) from None

    def _loop_time(self, deadline: float) -> float | None:
        left_s = deadline - time.monotonic()
        return None if left_s == float("inf") else self._loop.time() + left_s

    def peer_is_trusted(self) -> bool:
        """Does the owner run as this user, or as root?"""
        assert self._transport is not None
        return peer_is_trusted(self._transport.get_extra_info("socket"))

    def close(self) -> None:
        """Idempotent; requests without a reply end with ConnectionLost."""
        self._end("this store was closed")

    def _take(self, reply: AnyReply) -> None:
        answer = self.waiting.pop(reply.id, None)
        if answer is not None:
            if not answer.done():
                answer.set_result(reply)
        elif reply.id == 0 and isinstance(reply, Failure):
            self._end(reply.message)  # an error of the conversation, not of a request

    def _end(self, why: str) -> None:
        if self.lost is None:
            self.lost = ConnectionLost(why, sent=True)
        self._writable.set()
        waiting, self.waiting = self.waiting, {}
        for answer in waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionLost(why, sent=True))
        if self._transport is not None:
            self._transport.abort()


class AsyncSocketChannel:
    """Owners on this node, for the tasks of one event loop."""

    def __init__(self, store_id: str, addresses: Addresses) -> None:
        self._store_id = store_id
        self._addresses = addresses
        self._conversations: dict[int, _Conversation] = {}
        self._connecting: dict[int, asyncio.Lock] = {}
        self._closed = False

    async def call(self, partition: int, request: Request, deadline: float) -> AnyReply:
        tries = Retrying(request, deadline)
        outcome: Failure | ConnectionLost | None = None
        while True:
            if isinstance(outcome, Failure):
                await _pause(tries.refused(outcome))
            elif outcome is not None:
                await _pause(tries.lost(outcome, sent=outcome.sent))
            try:
                conversation = self._conversations.get(partition)
                if conversation is None or conversation.lost is not None:
                    conversation = await self._connect(partition, deadline)
            except ConnectionLost as error:
                outcome = ConnectionLost(str(error), sent=False)
                continue
            except Unavailable as error:
                raise tries.too_late(error.message) from error
            try:
                reply = await conversation.ask(request, deadline)
            except ConnectionLost as error:
                outcome = error
                continue
            if not isinstance(reply, Failure):
                return reply
            outcome = reply

    async def _connect(self, partition: int, deadline: float) -> _Conversation:
        lock = self._connecting.setdefault(partition, asyncio.Lock())
        async with lock:
            if self._ended():
                raise closed()
            known = self._conversations.get(partition)
            if known is not None and known.lost is None:
                return known  # another task was faster
            path = self._addresses.endpoint.socket_of(partition)
            try:
                made = await self._greet(path, partition, deadline)
            except OSError as error:
                await asyncio.to_thread(self._addresses.refresh, deadline)
                raise ConnectionLost(f"no owner at {path}: {error}", sent=False) from error
            self._conversations[partition] = made
            if self._ended():  # while this task was connecting
                made.close()
                raise closed()
            return made

    def _ended(self) -> bool:
        return self._closed

    async def _greet(self, path: str, partition: int, deadline: float) -> _Conversation:
        loop = asyncio.get_running_loop()
        _, conversation = await loop.create_unix_connection(_Conversation, path)
        try:
            if not conversation.peer_is_trusted():
                raise ConnectionLost(f"the process at {path} runs as another user", sent=False)
            reply = await conversation.send(0, frame(Hello(0, self._store_id)), deadline)
            if isinstance(reply, Failure):
                raise error_of(reply)
            check_welcome(reply, self._store_id, partition, path)
        except BaseException:
            conversation.close()
            raise
        return conversation

    def close(self) -> None:
        self._closed = True
        for conversation in self._conversations.values():
            conversation.close()
        self._conversations.clear()


async def _pause(pause_s: float) -> None:
    if pause_s:
        await asyncio.sleep(pause_s)
