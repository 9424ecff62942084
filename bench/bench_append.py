"""Claim: a durable append from another process costs little more than SQLite's in-process commit.

The client is attached to a host process through its Unix socket. SQLite commits inside this
process (WAL, synchronous=FULL) on the same disk; the Ray call is of an actor that does nothing;
the limits are one pwrite and fdatasync of the same bytes, and one memcpy into a memory map.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from bench import ours
from bench.measure import Contender, Options, Rounds, Row, Table, interleave, main, scratch
from bench.peers import RECORD_BYTES, BareMap, BareSync, RayCall, SocketEcho, SQLite

BATCH = 100


def run(options: Options) -> Table:
    rounds, calls = (3, 50) if options.quick else (12, 1000)
    with ExitStack() as stack:
        folder = stack.enter_context(scratch(options, "append"))
        store = stack.enter_context(ours.hosted(folder / "store"))
        ray = RayCall()
        contenders: list[Contender] = [
            ours.Append(store, sync="disk"),
            ours.Append(store, sync="process"),
            ours.AppendMany(store, batch=BATCH),
            SQLite(folder / "one.db"),
            SQLite(folder / "many.db", batch=BATCH),
            BareSync(folder / "one.bin"),
            Batched(folder),
            BareMap(folder / "map.bin"),
            SocketEcho(64),
            ray,
            AsyncRayCall(ray),
        ]
        for contender in contenders:
            stack.callback(contender.close)
        heavy = {"append_many", f"SQLite, {BATCH} a transaction", "batch"}
        measured = interleave(
            contenders, rounds=rounds, calls=lambda n: max(10, calls // 10) if n in heavy else calls
        )
    return Table(
        "append",
        "Append: 300-character turns, one client in another process",
        [
            f"{rounds} interleaved rounds of {calls} calls ({max(10, calls // 10)} for batches); "
            "medians over rounds",
            "disk: the call returned after fdatasync; process: after pwrite by the owner",
            "p99 is of a shared machine; its target is for a quiet one",
            "a Ray call: of an empty method; async: of an empty coroutine, as owners have to be",
            "socket round trip: 64 bytes there and back between two blocking Python processes",
        ],
        rows_of(measured),
    )


class Batched(BareSync):
    """The bytes of a whole batch in one pwrite, then fdatasync."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "many.bin", size=BATCH * RECORD_BYTES)
        self.name = "batch"


class AsyncRayCall:
    """The same Ray, an actor of coroutines."""

    name = "async Ray actor call"

    def __init__(self, ray: RayCall) -> None:
        self.round = ray.round_async

    def close(self) -> None:
        pass


def rows_of(m: Rounds) -> list[Row]:
    disk, process, many = "append, sync=disk", "append, sync=process", "append_many"
    sqlite, bare, ray = "SQLite", "pwrite + fdatasync", "Ray actor call"
    slow_ray = "async Ray actor call"
    many_sqlite = f"SQLite, {BATCH} a transaction"
    to_sqlite, to_ray = m.ratio(disk, sqlite), m.ratio(disk, ray)
    process_to_ray = m.ratio(process, ray)
    per_second = BATCH * 1e6 / m.us(many)
    return [
        Row(
            "append, disk, p50", "us", m.us(disk), sqlite, m.us(sqlite), bare, m.us(bare),
            to_sqlite, "<= 1.25 x SQLite", to_sqlite <= 1.25,
        ),
        Row(
            "append, disk, p50", "us", m.us(disk), ray, m.us(ray), bare, m.us(bare),
            to_ray, "<= 1/8 of a Ray call", to_ray <= 1 / 8,
        ),
        Row(
            "append, disk, p50", "us", m.us(disk), slow_ray, m.us(slow_ray), bare, m.us(bare),
            m.ratio(disk, slow_ray),
        ),
        Row(
            "append, disk, p99", "us", m.us(disk, 0.99), sqlite, m.us(sqlite, 0.99), bare,
            m.us(bare, 0.99), m.ratio(disk, sqlite, 0.99), "< 1,000 us", m.us(disk, 0.99) < 1000,
        ),
        Row(
            "append, process, p50", "us", m.us(process), ray, m.us(ray), "memcpy into a map",
            m.us("memcpy into a map"), process_to_ray, "<= 1/20 of a Ray call",
            process_to_ray <= 1 / 20,
        ),
        Row(
            "append, process, p50", "us", m.us(process), slow_ray, m.us(slow_ray),
            "socket round trip", m.us("socket round trip"), m.ratio(process, slow_ray),
        ),
        Row(
            "append_many of 100", "turns/s", per_second, many_sqlite,
            BATCH * 1e6 / m.us(many_sqlite), "pwrite + fdatasync", BATCH * 1e6 / m.us("batch"),
            1 / m.ratio(many, many_sqlite), ">= 100,000", per_second >= 100_000,
        ),
    ]  # fmt: skip


if __name__ == "__main__":
    main(run)
