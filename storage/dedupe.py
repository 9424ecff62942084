"""What was asked for before: request ids and keys, without an entry for every record ever written.

A request id is (producer_id, producer_seq); a client draws producer_seqs in rising order, so for
each producer the highest one and a bit window over those below it tell in O(1) that a request is
new: hundreds of threads of one client arrive out of order. Positions are kept only for records that
no side file covers yet; for older ones the log is asked (``Log.find``).

A key is found by its 96-bit digest. Digests can collide: whoever asks compares the full key.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neverforget.storage.errors import InvalidArgument
from neverforget.storage.format import Kind, RecordFlag

# At least the newest 1,000,000 records' producers: every producer has a record at least.
PRODUCERS_MAX = 1_000_000
WINDOW = 1024
_MASK = 2**WINDOW - 1
_SEQ_BITS = 32
_SEQ_MASK = 2**_SEQ_BITS - 1
_GENERATION = 65_536
_WINDOWS_AT_ONCE = 4096  # while loading: a byte for each bit

Heads = NDArray[Any]
Positions = NDArray[np.uint64]


def id12(producer: int, producer_seq: int) -> bytes:
    """A request id, or a key's digest, as header bytes 40..52 hold it."""
    return producer.to_bytes(8, "little") + producer_seq.to_bytes(4, "little")


class Requests:
    """Which requests were answered. ``_producers``: window << 32 | highest producer_seq, where bit
    i of the window stands for highest - i. ``_recent``: generations of (producer, producer_seq,
    position) triples, each with the position it begins at.
    """

    def __init__(self) -> None:
        self.evicted = False  # some producers are remembered no more
        self._producers: dict[int, int] = {}
        self._recent: list[tuple[int, array[int]]] = [(0, array("Q"))]

    def may_be_known(self, producer: int, producer_seq: int) -> bool:
        """False: surely never seen. True: ask ``find`` and the log. Raises InvalidArgument for what
        no record can hold."""
        if producer_seq >> _SEQ_BITS or producer >> 64:
            raise InvalidArgument(f"{producer}/{producer_seq} is no request id")
        state = self._producers.get(producer)
        if state is None:
            return False
        back = (state & _SEQ_MASK) - producer_seq
        return back >= WINDOW or (back >= 0 and bool(state >> (_SEQ_BITS + back) & 1))

    def note(self, producer: int, producer_seq: int, position: int) -> None:
        """The batch of this request stands at ``position``, above all noted before."""
        self._see(producer, producer_seq, 1)
        recent = self._recent[-1][1]
        if len(recent) >= 3 * _GENERATION:
            recent = array("Q")
            self._recent.append((position, recent))
        recent.extend((producer, producer_seq, position))

    def find(self, producer: int, producer_seq: int) -> int | None:
        """The position of a recent request's batch."""
        for _, recent in reversed(self._recent):
            # In place: while such a view is there, nothing can be added to the array.
            seqs = np.frombuffer(recent, np.uint64)[1::3]
            rows = np.flatnonzero(seqs == np.uint64(producer_seq)).tolist()
            del seqs
            for row in reversed(rows):
                if recent[3 * row] == producer:
                    return recent[3 * row + 2]
        return None

    def forget_below(self, position: int) -> None:
        """Side files answer for what lies below ``position``: drop whole generations of it."""
        while len(self._recent) > 1 and self._recent[1][0] <= position:
            del self._recent[0]

    def load(self, heads: Heads, positions: Positions, recent_from: int) -> None:
        """Enter the requests among ``heads``, which follow in log order what was loaded before."""
        named = (heads["producer_id"] != 0) & ((heads["flags"] & int(RecordFlag.KEYED)) == 0)
        rows = np.flatnonzero(named)
        if not len(rows):
            return
        producers, seqs = heads["producer_id"][rows], heads["producer_seq"][rows]
        for producer, highest, window in _windows(producers, seqs):
            self._see(producer, highest, window)
        self._load_recent(producers, seqs, np.asarray(positions)[rows], recent_from)

    def _load_recent(
        self, producers: Heads, seqs: Heads, positions: Positions, recent_from: int
    ) -> None:
        first = np.ones(len(producers), np.bool_)
        first[1:] = (producers[1:] != producers[:-1]) | (seqs[1:] != seqs[:-1])
        rows = np.flatnonzero(first & (positions >= np.uint64(recent_from)))
        triples = np.stack(
            (producers[rows], seqs[rows].astype(np.uint64), positions[rows].astype(np.uint64)), 1
        )
        for at in range(0, len(triples), _GENERATION):
            chunk = triples[at : at + _GENERATION]
            self._recent.append((int(chunk[0, 2]), array("Q", chunk.tobytes())))

    def _see(self, producer: int, producer_seq: int, window: int) -> None:
        """``window``: bit i set where producer_seq - i was seen; bit 0 is."""
        state = self._producers.pop(producer, None)
        if state is None:
            if len(self._producers) >= PRODUCERS_MAX:
                del self._producers[next(iter(self._producers))]  # the one not seen for longest
                self.evicted = True
        else:
            ahead = producer_seq - (state & _SEQ_MASK)
            seen = state >> _SEQ_BITS
            if ahead >= 0:
                window |= seen << ahead & _MASK if ahead < WINDOW else 0
            else:
                producer_seq -= ahead
                window = (window << -ahead & _MASK if -ahead < WINDOW else 0) | seen
        self._producers[producer] = window << _SEQ_BITS | producer_seq


def _windows(producers: Heads, seqs: Heads) -> Iterator[tuple[int, int, int]]:
    """(producer, highest seq, window) of each, in the order of their last records."""
    order = np.lexsort((seqs, producers))
    ids, numbers = producers[order], seqs[order].astype(np.uint64)
    starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    stops = np.append(starts[1:], len(ids))
    highest = numbers[stops - 1]
    newest = np.maximum.reduceat(order, starts)
    windows = _packed(np.repeat(highest, stops - starts) - numbers, starts, stops)
    for group in np.argsort(newest).tolist():
        yield int(ids[starts[group]]), int(highest[group]), windows[group]


def _packed(back: Positions, starts: NDArray[Any], stops: NDArray[Any]) -> list[int]:
    """The window of each group of rows: bit ``back`` is set for every row that is near enough."""
    windows: list[int] = []
    for first in range(0, len(starts), _WINDOWS_AT_ONCE):
        begins = starts[first : first + _WINDOWS_AT_ONCE]
        ends = stops[first : first + _WINDOWS_AT_ONCE]
        rows = slice(int(begins[0]), int(ends[-1]))
        group = np.repeat(np.arange(len(begins)), ends - begins)
        near = back[rows] < WINDOW
        bits = np.zeros((len(begins), WINDOW), np.bool_)
        bits[group[near], back[rows][near]] = True
        packed = np.packbits(bits, axis=1, bitorder="little")
        windows += [int.from_bytes(row.tobytes(), "little") for row in packed]
    return windows


class Keys:
    """Positions of recent keyed turns by the digest of their key, in generations like requests."""

    def __init__(self) -> None:
        self._recent: list[tuple[int, dict[int, int | tuple[int, ...]]]] = [(0, {})]
        self._count = 0

    def note(self, producer: int, producer_seq: int, position: int) -> None:
        """A turn with this digest (as its header splits it) stands at ``position``."""
        _, recent = self._recent[-1]
        if len(recent) >= _GENERATION:
            recent = {}
            self._recent.append((position, recent))
        digest = producer << 32 | producer_seq
        held = recent.setdefault(digest, position)
        if held != position:
            recent[digest] = (*(held if isinstance(held, tuple) else (held,)), position)

    def find(self, producer: int, producer_seq: int) -> tuple[int, ...]:
        """Every recent position with this digest, oldest first."""
        digest = producer << 32 | producer_seq
        found: tuple[int, ...] = ()
        for _, recent in self._recent:
            held = recent.get(digest)
            if held is not None:
                found += held if isinstance(held, tuple) else (held,)
        return found

    def forget_below(self, position: int) -> None:
        while len(self._recent) > 1 and self._recent[1][0] <= position:
            del self._recent[0]

    def load(self, heads: Heads, positions: Positions, recent_from: int) -> None:
        """Enter the keyed turns among ``heads`` at or above ``recent_from``."""
        keyed = (heads["kind"] == Kind.TURN) & ((heads["flags"] & int(RecordFlag.KEYED)) != 0)
        rows = np.flatnonzero(keyed & (np.asarray(positions) >= np.uint64(recent_from)))
        columns = (heads["producer_id"][rows], heads["producer_seq"][rows], positions[rows])
        for producer, producer_seq, position in zip(*(c.tolist() for c in columns)):
            self.note(producer, producer_seq, position)
