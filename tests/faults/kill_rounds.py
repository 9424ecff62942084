"""kill -9 the owners of a hosted store, round after round, under load from several processes.

    python -m tests.faults.kill_rounds --rounds 50 --clients 8

A real host with real Ray actors. Every client appends to a session of its own and to one that all
share: single turns, batches, turns with keys. What it was told goes to a file of its own, outside
the store: that is the oracle. After the last round everything is read back, from the living host
and from a new one after a restart:

* every acknowledged turn is there, at its seq, with its content, once;
* a turn whose outcome was unknown is there once or not at all;
* nothing else is there, seqs have no holes, and each client's turns are in the order it wrote them.

Exit code 0 when all of that holds, 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import neverforget as nf
from tests.faults.disks import until

ROOT = Path(__file__).resolve().parent.parent.parent
SHARED = "everybody"
PATIENCE_S = 180.0  # with an owner, a host or a client that has to start on a busy machine
SEGMENT_BYTES = 1 << 18  # small, so that owners roll, make spares and side files all the time


# ---- a client ------------------------------------------------------------------------------------


def client(path: Path, number: int, told: Path, stop: Path) -> int:
    """Append until ``stop`` is there. A line of ``told``: ack|unknown SESSION SEQ TIME_NS TEXT."""
    descriptor = os.open(told, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def tell(word: str, session: str, seq: int, text: str) -> None:
        os.write(descriptor, f"{word} {session} {seq} {time.monotonic_ns()} {text}\n".encode())

    with nf.open(path, host="never", wait=PATIENCE_S, deadline_s=PATIENCE_S) as store:
        own, shared = store.session(f"client-{number}"), store.session(SHARED)
        turn = 0
        while not stop.exists():
            session = shared if turn % 3 == 0 else own
            texts = [f"{number}:{turn + i}" for i in range(5 if turn % 10 == 7 else 1)]
            try:
                if len(texts) > 1:
                    items = [{"role": "user", "content": text} for text in texts]
                    turns = session.append_many(items)
                elif turn % 4 == 0:
                    turns = [session.append("user", texts[0], key=texts[0])]
                else:
                    turns = [session.append("user", texts[0])]
            except (nf.Unavailable, nf.Poisoned, nf.Overloaded):
                for text in texts:
                    tell("unknown", session.name, -1, text)
            else:
                for acknowledged in turns:
                    tell("ack", session.name, acknowledged.seq, str(acknowledged.content))
            turn += len(texts)
    os.close(descriptor)
    return 0


# ---- the oracle ----------------------------------------------------------------------------------


@dataclass
class Told:
    """What the clients were told, of one session."""

    acked: dict[int, str] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)


@dataclass
class Summary:
    rounds: int = 0
    acknowledged: int = 0
    unknown: int = 0
    lost: int = 0
    doubled: int = 0
    invented: int = 0
    disordered: int = 0
    seconds: float = 0.0
    longest_wait_s: list[float] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not (self.lost or self.doubled or self.invented or self.disordered or self.findings)

    def __str__(self) -> str:
        waits = sorted(self.longest_wait_s) or [0.0]
        return (
            f"{self.rounds} rounds in {self.seconds:.0f} s: {self.acknowledged} acknowledged, "
            f"{self.unknown} unknown; lost {self.lost}, doubled {self.doubled}, invented "
            f"{self.invented}, out of order {self.disordered}, findings {len(self.findings)}; the "
            f"client that waited longest in a round: p50 {statistics.median(waits):.2f} s, "
            f"p95 {waits[int(len(waits) * 0.95)]:.2f} s, max {waits[-1]:.2f} s"
        )


def hear(files: list[Path]) -> tuple[dict[str, Told], list[list[int]]]:
    """What was told, and for each client when it was acknowledged, in nanoseconds."""
    sessions: dict[str, Told] = {}
    times: list[list[int]] = []
    for path in files:
        mine: list[int] = []
        for line in path.read_text().splitlines():
            word, session, seq, at_ns, text = line.split(" ", 4)
            told = sessions.setdefault(session, Told())
            if word == "ack":
                other = told.acked.setdefault(int(seq), text)
                assert other == text, f"two clients were told {session} {seq}: {other}, {text}"
                mine.append(int(at_ns))
            else:
                told.unknown.add(text)
        times.append(mine)
    return sessions, times


def compare(store: nf.Store, sessions: dict[str, Told], summary: Summary) -> None:
    for name, told in sessions.items():
        found: list[str] = []
        for turn in store.session(name):
            assert turn.seq == len(found), f"{name} has a hole at {len(found)}"
            found.append(str(turn.content))
        summary.lost += sum(found[s : s + 1] != [text] for s, text in told.acked.items())
        summary.doubled += len(found) - len(set(found))
        summary.invented += len(set(found) - set(told.acked.values()) - told.unknown)
        last: dict[str, int] = {}
        for text in found:
            number, turn_number = text.split(":")
            summary.disordered += int(turn_number) <= last.get(number, -1)
            last[number] = int(turn_number)
    report = store.verify()
    summary.findings += [str(f) for f in report.findings if "error" in str(f)]


# ---- the rounds ----------------------------------------------------------------------------------


class Hosting:
    """The host process, and a handle for looking at it."""

    def __init__(self, path: Path, output: Path, env: dict[str, str] | None = None) -> None:
        self.path = path
        self._output = output.open("ab")
        self._env = env
        self._start()
        self.store = self._attach()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "neverforget", "serve", str(self.path),
                "--set", f"segment_bytes={SEGMENT_BYTES}", "--set", "reflect_every_turns=0",
            ],
            cwd=ROOT,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
        )  # fmt: skip

    def _attach(self) -> nf.Store:
        opened: list[nf.Store] = []

        def attached() -> bool:
            assert self._process.poll() is None, f"the host ended; see {self._output.name}"
            try:
                opened.append(nf.open(self.path, host="never", wait=10, deadline_s=PATIENCE_S))
            except nf.Unavailable:
                return False
            return True

        until(attached, "the host", PATIENCE_S)
        return opened[0]

    def owners(self) -> dict[int, int]:
        """Partition -> pid, of those that serve."""
        try:
            owners = self.store.status().owners
        except nf.Unavailable:
            return {}
        return {o.partition: o.pid for o in owners if o.state == "serving"}

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.poll()

    def kill_and_restart(self) -> None:
        self._process.kill()
        self._process.wait()
        self._start()

    def stop(self) -> None:
        self.store.close()
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._output.close()


def rounds(
    path: Path,
    scratch: Path,
    *,
    count: int,
    clients: int,
    seed: int,
    host_every: int = 0,
    stop_every: int = 0,
) -> Summary:
    """Run them. ``host_every``: each so-manieth round kills the host itself; ``stop_every``: it
    stops the owner (SIGSTOP) and lets the host's watchdog find that out."""
    choices = random.Random(seed)
    summary = Summary(rounds=count)
    started = time.monotonic()
    told = [scratch / f"told-{number}" for number in range(clients)]
    kills: list[int] = []
    host = Hosting(path, scratch / "host.log")
    try:
        with talking(path, told, scratch / "stop") as children:
            for number in range(1, count + 1):
                progress(children, told, choices.randrange(500, 5000))
                kills.append(time.monotonic_ns())
                if host_every and number % host_every == 0:
                    host.kill_and_restart()
                else:
                    end_one_owner(host, choices, bool(stop_every) and number % stop_every == 0)
            progress(children, told, 2000)
        codes = [child.returncode for child in children]
        assert codes == [0] * clients, f"clients ended with {codes}"
        sessions, times = hear(told)
        summary.acknowledged = sum(len(t.acked) for t in sessions.values())
        summary.unknown = sum(len(t.unknown) for t in sessions.values())
        summary.longest_wait_s = longest_waits(kills, times)
        compare(host.store, sessions, summary)
    finally:
        host.stop()
    again = Hosting(path, scratch / "host.log")
    try:
        compare(again.store, sessions, summary)
    finally:
        again.stop()
    summary.seconds = time.monotonic() - started
    return summary


@contextmanager
def talking(path: Path, told: list[Path], stop: Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A client for each of ``told``; all have ended afterwards, however it went."""
    children = [
        subprocess.Popen(
            [
                sys.executable, "-m", "tests.faults.kill_rounds", "--client", str(number),
                "--path", str(path), "--told", str(file), "--stop", str(stop),
            ],
            cwd=ROOT,
        )
        for number, file in enumerate(told)
    ]  # fmt: skip
    try:
        yield children
    finally:
        stop.touch()
        for child in children:
            child.wait(PATIENCE_S)


def longest_waits(kills: list[int], times: list[list[int]]) -> list[float]:
    """For each round, how long the client that waited longest was without an acknowledgement."""
    waits = []
    for kill, following in zip(kills, [*kills[1:], 1 << 63], strict=True):
        longest = 0
        for mine in times:
            first, last = bisect_right(mine, kill), bisect_right(mine, following)
            seen = [kill, *mine[first:last]]
            longest = max([longest, *(b - a for a, b in pairwise(seen))])
        waits.append(longest / 1e9)
    return waits


def progress(children: list[subprocess.Popen[bytes]], told: list[Path], n_bytes: int) -> None:
    """Wait until every client has been told so much more."""

    def size(path: Path) -> int:
        return path.stat().st_size if path.exists() else 0

    before = [size(path) for path in told]

    def further() -> bool:
        assert all(child.poll() is None for child in children), "a client has ended"
        return all(size(path) - b >= n_bytes for path, b in zip(told, before, strict=True))

    until(further, "every client to be acknowledged again", PATIENCE_S)


def end_one_owner(host: Hosting, choices: random.Random, by_stopping: bool) -> None:
    until(lambda: bool(host.owners()), "an owner that serves", PATIENCE_S)
    partition, pid = choices.choice(sorted(host.owners().items()))
    os.kill(pid, signal.SIGSTOP if by_stopping else signal.SIGKILL)
    back = f"partition {partition} to be back"
    until(lambda: host.owners().get(partition, pid) != pid, back, PATIENCE_S)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--host-every", type=int, default=0)
    parser.add_argument("--stop-every", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--path", type=Path, help="the store; default: a temporary one")
    parser.add_argument("--client", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--told", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--stop", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client is not None:
        return client(args.path, args.client, args.told, args.stop)
    scratch = Path(tempfile.mkdtemp(prefix="nf-kills-"))
    print(f"seed {args.seed}, in {scratch}", flush=True)
    summary = rounds(
        args.path or scratch / "store",
        scratch,
        count=args.rounds,
        clients=args.clients,
        seed=args.seed,
        host_every=args.host_every,
        stop_every=args.stop_every,
    )
    print(summary)
    for finding in summary.findings:
        print(f"  {finding}")
    if summary.ok:
        shutil.rmtree(scratch)
    return 0 if summary.ok else 1


if __name__ == "__main__":
    sys.exit(main())
