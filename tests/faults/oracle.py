"""Running an appender, keeping what it acknowledged, and holding a partition to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from neverforget.actors.messages import AnyReply, AnyRequest, Page, Verify, VerifyReply, WindowReply
from neverforget.actors.partition import Partition
from neverforget.storage.filesystem import LocalFileSystem
from neverforget.storage.format import BodyField
from neverforget.storage.record import decode_records
from neverforget.storage.region import Region
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.results import TurnFlag
from tests.faults.appender import NAMESPACE, SESSION, Asked, content_of, spec_of
from tests.faults.disks import until

ROOT = Path(__file__).resolve().parent.parent.parent
STORE_ID = "0193a7c0-0000-7000-8000-00000000fa17"
SEGMENT_BYTES = 1 << 20


def create_region(directory: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
    options = RegionOptions(segment_bytes=segment_bytes, first_segment_bytes=segment_bytes)
    Region.create(LocalFileSystem(), directory, store_id=STORE_ID, partition=0, options=options)


@dataclass
class Oracle:
    """``acked``: seq of each acknowledged request. ``unknown``: those that failed; each may be
    there, whole, or not. ``turns``: in each request.
    """

    turns: int = 1
    acked: dict[int, int] = field(default_factory=dict)
    acked_at_ns: dict[int, int] = field(default_factory=dict)
    errors: list[tuple[int, str]] = field(default_factory=list)

    def hear(self, line: str) -> None:
        match line.split():
            case ["ack", number, seq, at_ns]:
                if int(seq) >= 0:
                    self.acked[int(number)] = int(seq)
                self.acked_at_ns.setdefault(int(number), int(at_ns))
            case ["error", number, code]:
                self.errors.append((int(number), code))

    def forget_since(self, at_ns: int) -> None:
        """What was acknowledged from then on is not a promise: the machine was already dead."""
        for number in [n for n, at in self.acked_at_ns.items() if at >= at_ns]:
            del self.acked_at_ns[number]
            self.acked.pop(number, None)

    @property
    def last(self) -> int:
        return max(self.acked_at_ns, default=0)


class Appender:
    """A child process. Its output goes to a file, so that it never waits for this process."""

    def __init__(
        self,
        directory: Path,
        output: Path,
        *options: str | int,
        env: dict[str, str] | None = None,
    ) -> None:
        self.output = output
        self._file = output.open("wb")
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "tests.faults.appender", str(directory), STORE_ID,
                *map(str, options),
            ],
            cwd=ROOT,
            env=env,
            stdin=subprocess.PIPE,
            stdout=self._file,
        )  # fmt: skip

    def lines(self) -> list[str]:
        """Whole lines only: the last may be half written."""
        return self.output.read_text().split("\n")[:-1]

    def wait_for(self, text: str, count: int = 1) -> None:
        def said() -> bool:
            found = sum(line.startswith(text) for line in self.lines())
            assert found >= count or self.process.poll() is None, (
                f"the appender ended with {self.process.returncode}: {self.lines()[-3:]}"
            )
            return found >= count

        until(said, f"{count} x {text!r} of the appender")

    def tell(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def stop(self) -> None:
        """SIGSTOP, and wait until it has taken effect."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def kill(self) -> int:
        self.signal(signal.SIGKILL)
        return self.wait()

    def wait(self, timeout_s: float = 120) -> int:
        if self.process.stdin is not None:
            self.process.stdin.close()
            self.process.stdin = None
        code = self.process.wait(timeout_s)
        self._file.close()
        return code

    def heard_by(self, oracle: Oracle) -> Oracle:
        for line in self.lines():
            oracle.hear(line)
        return oracle


class Owner:
    """A partition in this process, for looking at what is there."""

    def __init__(self, directory: Path) -> None:
        spec = spec_of(directory, STORE_ID, segment_bytes=SEGMENT_BYTES)
        self.partition = Partition(spec)
        self.partition.open()

    def __enter__(self) -> Owner:
        return self

    def __exit__(self, *_: object) -> None:
        self.partition.close()

    @property
    def state(self) -> str:
        return self.partition.state

    def turn(self) -> str:
        """Let it do what is due; its state afterwards."""
        self.partition.tick()
        return self.state

    def ask(self, request: AnyRequest) -> AnyReply:
        asked = Asked(request)
        self.partition.run([asked])

        def answered() -> bool:
            self.partition.tick()
            return asked.answer is not None

        until(answered, "an answer of the partition")
        assert asked.answer is not None
        return asked.answer

    def contents(self) -> list[str | None]:
        """Every turn's content by seq; None where it cannot be read."""
        found: list[str | None] = []
        while True:
            after = len(found) - 1 if found else None
            reply = self.ask(Page(1, NAMESPACE, SESSION, after, None, False, 1000, True))
            assert isinstance(reply, WindowReply), reply
            window = reply.window
            lost = TurnFlag.UNREADABLE | TurnFlag.ERASED
            bad = {
                seq
                for first, last, flags in window.flags
                if flags & lost
                for seq in range(first, last + 1)
            }
            for header, body in decode_records(window.records):
                assert header.sequence_id == len(found), "a hole or a double"
                content = None if body is None or len(found) in bad else body[BodyField.CONTENT]
                found.append(content)
            if not window.more:
                return found

    def check(self, oracle: Oracle) -> int:
        """Every acknowledged request is there once, whole, at its seq; every other one once or not
        at all; nothing else. Returns how many turns there are.
        """
        assert self.state == "serving", self.partition.reason
        contents = self.contents()
        where: dict[int, int] = {}
        seq = 0
        while seq < len(contents):
            text = contents[seq]
            assert text is not None, f"turn {seq} is unreadable"
            number = int(text.split(".")[0])
            assert number not in where, f"request {number} is there twice: {where[number]}, {seq}"
            batch = [content_of(number, turn) for turn in range(oracle.turns)]
            assert contents[seq : seq + oracle.turns] == batch, f"turns at {seq} are not {number}"
            where[number] = seq
            seq += oracle.turns
        lost = {n: s for n, s in oracle.acked.items() if where.get(n) != s}
        assert not lost, f"{len(lost)} of {len(oracle.acked)} acknowledged are lost: {min(lost)}.."
        missing = oracle.acked_at_ns.keys() - where.keys()
        assert not missing, f"acknowledged as repeats and lost: {sorted(missing)[:10]}"
        return len(contents)

    def lost(self, oracle: Oracle) -> int:
        """How many acknowledged requests are gone: for the controls."""
        if self.state != "serving":
            return len(oracle.acked)
        there = set(self.contents())
        return sum(content_of(number) not in there for number in oracle.acked)

    def verify(self) -> list[str]:
        reply = self.ask(Verify(1))
        assert isinstance(reply, VerifyReply), reply
        # A kill may land between two pages of one pwrite: a torn tail that was never acknowledged.
        return [
            f"{f.kind} {f.severity} {f.message}"
            for f in reply.findings
            if (f.kind, f.severity) != ("torn_tail", "repaired")
        ]
