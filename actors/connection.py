"""One client's connection: bytes in, requests out; replies in, bytes out. Non-blocking, and bounded
both ways.

Invariants
* ``_part`` holds at most one frame that has not arrived whole, of an allowed length
  (``frame_bytes_max``; ``hello_bytes_max`` before the client has said who it is); it grows with
  what has arrived.
* ``_held`` holds whole or partial frames that were read but not taken yet, at most one read's worth
  (``SCRATCH_BYTES``); nothing more is read while it is there. So what a client sends too fast waits
  in the kernel.
* No request is taken while more than ``unsent_bytes_max`` of replies wait to be sent.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from neverforget.actors.frames import LENGTH, LENGTH_BYTES
from neverforget.actors.messages import (
    FRAME_BYTES_MAX,
    AnyReply,
    AnyRequest,
    Append,
    encoder,
    request_decoder,
)

SCRATCH_BYTES = 256 * 1024
_SEND_PIECES = 64
_PART_STEP = 256 * 1024


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one server grants, and one of its connections. Beyond it: see each."""

    frame_bytes_max: int = FRAME_BYTES_MAX  # closed
    hello_bytes_max: int = 4096  # closed: the first frame is small
    requests_max: int = 4096  # taken in one turn by all connections; beyond: Overloaded
    reads_max: int = 16  # taken in one turn from one connection; more wait for the next turn
    unsent_bytes_max: int = 8 * 1024 * 1024  # replies not sent; beyond, its requests wait
    connections_max: int = 4096  # Overloaded, then closed
    large_bytes: int = 1024 * 1024  # a frame of this size or more counts as large
    large_bytes_max: int = 256 * 1024 * 1024  # of large frames at once; more wait in the kernel
    stall_s: float = 30.0  # half a frame, or unsent replies, without progress; closed


class BrokenFrame(Exception):
    """The client sent what is no frame of ours. Its connection must be closed."""


class Disconnected(Exception):
    """The client is gone."""


class Connection:
    """``requests`` and ``send`` do the I/O; the server decides when."""

    __slots__ = (
        "_bounds", "_held", "_part", "_part_filled", "_part_size", "_unsent",
        "closed", "closing", "events", "fd", "greeted",
        "progress_at", "socket", "unsent_bytes",
    )  # fmt: skip

    def __init__(self, accepted: socket.socket, bounds: Bounds, now: float) -> None:
        self.socket = accepted
        self.fd = accepted.fileno()
        self.greeted = False
        self.closing = False  # close when everything is sent
        self.closed = False
        self.events = 0  # what the selector watches; the server's
        self.progress_at = now
        self.unsent_bytes = 0
        self._bounds = bounds
        self._held = b""
        self._part: bytearray | None = None
        self._part_filled = 0
        self._part_size = 0
        self._unsent: deque[bytes | memoryview] = deque()

    # ---- in --------------------------------------------------------------------------------------

    @property
    def has_held(self) -> bool:
        """Something was read and not taken: call ``requests`` again before reading more."""
        return bool(self._held)

    @property
    def congested(self) -> bool:
        return self.unsent_bytes > self._bounds.unsent_bytes_max

    @property
    def waits_for_peer(self) -> bool:
        """A frame has begun and not ended, or replies wait for the client, or it has not greeted:
        it may stall."""
        return self._part is not None or self.unsent_bytes > 0 or not self.greeted

    @property
    def large_frame_bytes(self) -> int:
        """The size of the large frame that is arriving, 0 if none is."""
        size = 0 if self._part is None else self._part_size
        return size if size >= self._bounds.large_bytes else 0

    def requests(self, scratch: memoryview) -> list[AnyRequest]:
        """Read once, and take what is there. Raises Disconnected or BrokenFrame, which lose what
        came with it: the client learns of no answer, and asks again elsewhere."""
        if self._held:
            held = memoryview(self._held)
            self._held = b""
            return self._take(held, len(held))
        if self._part is not None:
            return self._continue_part()
        size = self._receive(scratch)
        return self._take(scratch, size) if size else []

    def _receive(self, target: memoryview) -> int:
        try:
            size = self.socket.recv_into(target)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError as error:
            raise Disconnected from error
        if size == 0:
            raise Disconnected
        return size

    def _take(self, view: memoryview, size: int) -> list[AnyRequest]:
        """Decode the whole frames in view[:size], up to this turn's share; keep what is left."""
        taken: list[AnyRequest] = []
        start = reads = 0
        while size - start >= LENGTH_BYTES and not self.congested:
            stop = start + LENGTH_BYTES + self._allowed(LENGTH.unpack_from(view, start)[0])
            if stop > size:
                break
            request = decode(view[start + LENGTH_BYTES : stop])
            taken.append(request)
            start = stop
            if type(request) is not Append:
                reads += 1
                # A Hello too: the frames behind it have other bounds, and nobody is answered before
                # it is judged.
                if reads >= self._bounds.reads_max or not self.greeted:
                    break
        if start < size:
            self._keep(view[start:size])
        return taken

    def _allowed(self, length: int) -> int:
        if length > (
            self._bounds.frame_bytes_max if self.greeted else self._bounds.hello_bytes_max
        ):
            raise BrokenFrame(f"a frame of {length:,} bytes")
        return length

    def _keep(self, rest: memoryview) -> None:
        """``rest`` begins at a frame. Whole frames are held; the beginning of one gets a buffer of
        its own."""
        known = len(rest) >= LENGTH_BYTES
        size = LENGTH_BYTES + (LENGTH.unpack_from(rest)[0] if known else 0)
        if known and len(rest) >= size:
            self._held = bytes(rest)
            return
        self._allowed(size - LENGTH_BYTES)
        self._part = bytearray(rest)
        self._part_filled = len(rest)
        self._part_size = size

    def _continue_part(self) -> list[AnyRequest]:
        part = self._part
        assert part is not None
        if len(part) == self._part_filled:
            # The buffer grows with what arrives, not with what was announced.
            part.extend(bytes(min(self._part_size - len(part), max(len(part), _PART_STEP))))
        with memoryview(part) as view, view[self._part_filled :] as target:
            self._part_filled += self._receive(target)
        if self._part_filled == LENGTH_BYTES == self._part_size:
            self._part_size += self._allowed(LENGTH.unpack_from(part)[0])
        if self._part_filled < self._part_size:
            return []
        self._part = None
        return [decode(memoryview(part)[LENGTH_BYTES:])]

    # ---- out -------------------------------------------------------------------------------------

    def queue(self, message: AnyReply) -> None:
        payload = encoder.encode(message)
        size = len(payload)
        if size < 4096:
            self._unsent.append(LENGTH.pack(size) + payload)
        else:
            self._unsent.append(LENGTH.pack(size))
            self._unsent.append(payload)
        self.unsent_bytes += size + LENGTH_BYTES

    def send(self) -> None:
        """Send as much as the system takes. Raises Disconnected."""
        unsent = self._unsent
        try:
            while unsent:
                if len(unsent) == 1:
                    sent = self.socket.send(unsent[0])
                else:
                    sent = self.socket.sendmsg(
                        [unsent[i] for i in range(min(len(unsent), _SEND_PIECES))]
                    )
                self.unsent_bytes -= sent
                while unsent and sent >= len(unsent[0]):
                    sent -= len(unsent.popleft())
                if sent:
                    unsent[0] = memoryview(unsent[0])[sent:]
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            raise Disconnected from error


class SocketPending:
    """A request that came over a connection (``ports.Pending``)."""

    __slots__ = ("_answer", "_answered", "_connection", "request")

    def __init__(
        self,
        request: AnyRequest,
        connection: Connection,
        answer: Callable[[Connection, AnyReply], None],
    ) -> None:
        self.request = request
        self._answered = False
        self._connection = connection
        self._answer = answer

    @property
    def alive(self) -> bool:
        return not self._connection.closed

    def reply(self, message: AnyReply) -> None:
        if not self._answered:
            self._answered = True
            self._answer(self._connection, message)


def decode(payload: memoryview) -> AnyRequest:
    try:
        return request_decoder.decode(payload)
    except msgspec.MsgspecError as error:
        raise BrokenFrame(str(error)) from error
