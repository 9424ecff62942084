"""Claim: reading does not get slower as sessions grow long or many.

``tail``, ``page`` and ``get`` of an attached client, in sessions of 10 to 1,000,000 turns of one
store, then of one session in a store of 1 and of 100,000 sessions. Every read asks for 10 turns,
so that the shortest session has as many to give as the longest. SQLite answers the same questions
by primary key inside this process; the limit is a Unix socket round trip that carries as many
bytes.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import neverforget as nf
from bench import ours
from bench.measure import TEXT, Contender, Options, Rounds, Row, Table, interleave, main, scratch
from bench.peers import RECORD_BYTES, SocketEcho, connect

LIMIT = 10
OPERATIONS = ("tail", "page", "get")


def run(options: Options) -> Table:
    rounds, calls = (2, 20) if options.quick else (9, 400)
    lengths = [10, 100, 1000] if options.quick else [10, 1000, 100_000, 1_000_000]
    counts = [1, 200] if options.quick else [1, 100_000]
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(options, "read"))
        contenders: list[Contender] = [SocketEcho(LIMIT * RECORD_BYTES)]
        stack.callback(contenders[0].close)
        store = stack.enter_context(ours.hosted(folder / "lengths"))
        peer = stack.enter_context(peer_of(folder / "lengths.db"))
        for turns in lengths:
            ours.fill(store, f"of {turns}", turns)
            peer.fill(f"of {turns}", turns)
            contenders += list(of_ours(store, f"of {turns}", turns, f"{turns}"))
            contenders += list(peer.reads(f"of {turns}", turns, f"{turns}"))
        crowd, other = store, peer
        for count in counts:
            crowd = stack.enter_context(ours.hosted(folder / f"sessions-{count}"))
            other = stack.enter_context(peer_of(folder / f"sessions-{count}.db"))
            populate(crowd, other, count)
            contenders += list(of_ours(crowd, "session 0", 100, f"among {count}"))
            contenders += list(other.reads("session 0", 100, f"among {count}"))
        contenders += any_session(crowd, other, counts[-1])
        measured = interleave(contenders, rounds=rounds, calls=calls)
    return Table(
        "read",
        f"Reads of {LIMIT} turns as sessions grow",
        [
            f"{rounds} interleaved rounds of {calls} calls; random places, page cache warm",
            "growth: the longest (or fullest) against the shortest, same run",
            "SQLite reads inside this process and hands out plain rows: it has no hop to pay",
        ],
        rows_of(measured, lengths, counts),
    )


def of_ours(store: nf.Store, session: str, turns: int, label: str) -> Iterator[ours.Call]:
    chat = store.session(session)
    places = itertools.cycle(drawn(turns))
    yield ours.Call(f"tail {label}", lambda: chat.tail(LIMIT))
    yield ours.Call(f"page {label}", lambda: chat.page(after=next(places) - 1, limit=LIMIT))
    yield ours.Call(f"get {label}", lambda: chat.get(next(places)))


def any_session(store: nf.Store, peer: Peer, count: int) -> list[Contender]:
    """The first turn of a session drawn anew each time, so that nothing about it is warm."""
    places = itertools.cycle(drawn(count - LIMIT))
    first = "SELECT * FROM turns WHERE session = ? AND seq = 0"

    def ask_peer() -> object:
        return peer.connection.execute(first, (f"session {next(places)}",)).fetchone()

    return [
        ours.Call("get any", lambda: store.session(f"session {next(places)}").get(0)),
        ours.Call("SQLite get any", ask_peer),
    ]


def drawn(turns: int) -> list[int]:
    """Seqs that have LIMIT turns from there on; a prime number of them, so that rounds differ."""
    rng = random.Random(turns)
    return [rng.randrange(max(1, turns - LIMIT + 1)) for _ in range(1009)]


class Peer:
    """The same sessions as rows of one SQLite table."""

    def __init__(self, path: Path) -> None:
        self.connection = connect(path)

    def fill(self, session: str, turns: int) -> None:
        rows = ((session, seq, "user", TEXT, seq) for seq in range(turns))
        self.connection.execute("BEGIN")
        self.connection.executemany("INSERT INTO turns VALUES (?, ?, ?, ?, ?)", rows)
        self.connection.execute("COMMIT")

    def reads(self, session: str, turns: int, label: str) -> Iterator[ours.Call]:
        run = self.connection.execute
        places = itertools.cycle(drawn(turns))
        select = "SELECT * FROM turns WHERE session = ? "
        tail, page = f"{select} ORDER BY seq DESC LIMIT ?", f"{select} AND seq > ? LIMIT ?"
        get = f"{select} AND seq = ?"
        yield ours.Call(
            f"SQLite tail {label}", lambda: run(tail, (session, LIMIT)).fetchall()[::-1]
        )
        yield ours.Call(
            f"SQLite page {label}", lambda: run(page, (session, next(places) - 1, LIMIT)).fetchall()
        )
        yield ours.Call(f"SQLite get {label}", lambda: run(get, (session, next(places))).fetchone())


@contextmanager
def peer_of(path: Path) -> Iterator[Peer]:
    peer = Peer(path)
    try:
        yield peer
    finally:
        peer.connection.close()


def populate(store: nf.Store, peer: Peer, count: int) -> None:
    """``count`` sessions: the first of 100 turns, the others of one."""
    ours.fill(store, "session 0", 100)
    for number in range(1, count):
        store.session(f"session {number}").append("user", TEXT, sync="process")
    peer.fill("session 0", 100)
    rows = ((f"session {n}", 0, "user", TEXT, n) for n in range(1, count))
    peer.connection.execute("BEGIN")
    peer.connection.executemany("INSERT INTO turns VALUES (?, ?, ?, ?, ?)", rows)
    peer.connection.execute("COMMIT")


def rows_of(m: Rounds, lengths: list[int], counts: list[int]) -> list[Row]:
    rows = []
    for labels, noun in ((lengths, "turns"), (counts, "sessions")):
        for operation in OPERATIONS:
            names = [
                f"{operation} {n}" if noun == "turns" else f"{operation} among {n}" for n in labels
            ]
            for name, number in zip(names, labels, strict=True):
                rows.append(
                    Row(
                        f"{operation}, {number:,} {noun}", "us", m.us(name), "SQLite",
                        m.us(f"SQLite {name}"), "socket round trip", m.us("socket round trip"),
                        m.ratio(name, f"SQLite {name}"),
                    )
                )  # fmt: skip
            growth = m.ratio(names[-1], names[0])
            rows.append(
                Row(
                    f"{operation}, growth to {labels[-1]:,} {noun}", "x", growth, "SQLite",
                    m.ratio(f"SQLite {names[-1]}", f"SQLite {names[0]}"),
                    target="<= 1.2 x", met=growth <= 1.2,
                )
            )  # fmt: skip
    rows.append(
        Row(
            f"get, any of {counts[-1]:,} sessions", "us", m.us("get any"), "SQLite",
            m.us("SQLite get any"), "socket round trip", m.us("socket round trip"),
            m.ratio("get any", "SQLite get any"),
        )
    )  # fmt: skip
    return rows


if __name__ == "__main__":
    main(run)
