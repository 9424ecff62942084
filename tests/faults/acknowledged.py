"""What was acknowledged must be there: a writer that notes what it was told, and a judge.

    python -m tests.faults.acknowledged --store ray:NAME@ADDRESS --ip IP --told FILE --stop FILE ...

The writer is a process of its own, with one thread for each session. It notes what it is about to
say before it says it, and what became of that, in a file on another file system than the store's:
a line is ``WORD SESSION NUMBER SEQ TIME_NS DIGEST``. The judge compares that with what a fresh
client reads. Where nothing went wrong

* each acknowledged turn is there once, at the seq that was told, with the bytes that were sent;
  one that was salvaged is there once, and says that seq;
* one whose outcome is unknown is there once or not at all; one that was surely not done is not;
* nothing else is there, and seqs have no holes.

That the judge sees what is wrong is itself tested, in ``test_acknowledged.py``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import neverforget as nf

BATCH_TURNS = 5
PATIENCE_S = 180.0


class Line(NamedTuple):
    """``word``: ask, ack, unknown, refused (surely not done) or untyped (an error of another
    library). ``digest``: of the content; for the last three what was raised."""

    word: str
    session: str
    number: int
    seq: int
    time_ns: int
    digest: str


class Found(NamedTuple):
    """A turn as it was read. ``origin``: epoch and seq, of one that was salvaged."""

    seq: int
    writer: str
    number: int
    digest: str
    origin: tuple[int, int] | None = None


# ---- writing -------------------------------------------------------------------------------------


def content_of(writer: str, session: str, number: int) -> str | bytes:
    """Up to 600 characters, or bytes; the same for the same arguments."""
    drawn = random.Random(f"{writer}/{session}/{number}")
    text = drawn.randbytes(drawn.randrange(1, 300))
    return text if number % 8 == 3 else text.hex()


def on_replica(number: int) -> bool:
    """Whether a writer that mixes levels asks for "replica" in the call that says this turn."""
    start = (number - 7) // 10 * 10 + 7
    first = start if 0 <= number - start < BATCH_TURNS and start > 0 else number
    return first // 3 % 2 == 1


def digest_of(content: object) -> str:
    raw = content if isinstance(content, bytes) else str(content).encode()
    return hashlib.sha256(type(content).__name__.encode() + raw).hexdigest()[:32]


@dataclass
class Writer:
    """``told``: its file. ``pause_s``: between two calls of a session."""

    name: str
    told: Path
    stop: threading.Event
    pause_s: float = 0.002
    sync: str | None = None  # "mixed": odd turns "replica", others "disk"

    def __post_init__(self) -> None:
        self._file = os.open(self.told, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)

    def close(self) -> None:
        os.close(self._file)

    def note(self, word: str, session: str, number: int, seq: int, digest: str) -> None:
        line = f"{word} {session} {number} {seq} {time.monotonic_ns()} {digest}\n"
        os.write(self._file, line.encode())

    def write(self, chat: nf.Session, count: int) -> None:
        """``count`` turns and no more, alone and in batches, with and without keys."""
        number = 0
        while number < count and not self.stop.is_set():
            size = min(BATCH_TURNS if number % 10 == 7 else 1, count - number)
            self.say(chat, range(number, number + size))
            number += size
            self.stop.wait(self.pause_s)

    def say(self, chat: nf.Session, numbers: range) -> None:
        """One call. A turn with a key is repeated until its outcome is known."""
        items: list[dict[str, Any]] = []
        for number in numbers:
            content = content_of(self.name, chat.name, number)
            self.note("ask", chat.name, number, -1, digest_of(content))
            about = {"writer": self.name, "number": number}
            items.append({"role": "user", "content": content, "metadata": about})
            if number % 4 == 0:
                items[-1]["key"] = f"{self.name}-{number}"
        while not self._try(chat, numbers, items):
            if self.stop.wait(0.05) or not all("key" in item for item in items):
                return

    def _try(self, chat: nf.Session, numbers: range, items: list[dict[str, Any]]) -> bool:
        mixed = "replica" if on_replica(numbers[0]) else "disk"
        sync: Any = mixed if self.sync == "mixed" else self.sync
        try:
            if len(items) == 1:
                turns = [chat.append(**items[0], sync=sync)]
            else:
                turns = chat.append_many(items, sync=sync)
        except nf.NeverforgetError as error:
            surely_not = isinstance(error, nf.Unavailable) and error.outcome == "not_applied"
            word = "refused" if surely_not else "unknown"
            why = type(error).__name__
        except Exception as error:
            word, why = "untyped", type(error).__name__
        else:
            for number, turn in zip(numbers, turns, strict=True):
                self.note("ack", chat.name, number, turn.seq, self._told(turn, chat.name, number))
            return True
        for number in numbers:
            self.note(word, chat.name, number, -1, why)
        return False

    def _told(self, turn: nf.Turn, session: str, number: int) -> str:
        """The digest of what came back; where that is not what was sent, what it is."""
        digest = digest_of(turn.content)
        if digest == digest_of(content_of(self.name, session, number)):
            return digest
        about = (turn.seq, turn.state, type(turn.content).__name__, turn.key, dict(turn.metadata))
        return f"{digest}:{about}".replace(" ", "")


# ---- judging -------------------------------------------------------------------------------------


def hear(told: Path) -> list[Line]:
    """Whole lines: a writer may have been killed in the middle of the last."""
    lines = []
    for text in told.read_text().split("\n")[:-1]:
        word, session, number, seq, at, digest = text.split(" ")
        lines.append(Line(word, session, int(number), int(seq), int(at), digest))
    return lines


@dataclass
class Verdict:
    asked: int = 0
    acknowledged: int = 0
    unknown: int = 0
    lost: int = 0
    at_risk: int = 0  # lost, and nobody had promised more: a disk is gone
    doubled: int = 0
    altered: int = 0
    disordered: int = 0
    invented: int = 0
    contradicted: int = 0  # there, although it was said that it was surely not done
    salvaged: int = 0
    errors: Counter[str] = field(default_factory=Counter)
    untyped: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> dict[str, int]:
        names = ("lost", "doubled", "altered", "disordered", "invented", "contradicted")
        return {name: getattr(self, name) for name in names if getattr(self, name)}

    def see(self, what: str, count: int, example: object) -> None:
        setattr(self, what, getattr(self, what) + count)
        if count and len(self.examples) < 20:
            self.examples.append(f"{what}: {example}")


def judge(
    told: dict[str, list[Line]],
    found: dict[str, list[Found]],
    promised: Callable[[str, int], bool] = lambda writer, number: True,
) -> Verdict:
    """``told``: by writer; ``found``: by session, in the order of reading. ``promised``: that this
    turn of that writer is there after what was done to the store."""
    verdict = Verdict()
    for session, turns in found.items():
        _judge_session(verdict, session, told, turns, promised)
    unread = {line.session for lines in told.values() for line in lines} - found.keys()
    assert not unread, f"nobody has read {sorted(unread)}"
    return verdict


def _judge_session(
    verdict: Verdict,
    session: str,
    told: dict[str, list[Line]],
    turns: Sequence[Found],
    promised: Callable[[str, int], bool],
) -> None:
    there: dict[tuple[str, int], list[Found]] = defaultdict(list)
    for position, turn in enumerate(turns):
        there[turn.writer, turn.number].append(turn)
        if turn.seq != position:
            verdict.see("disordered", 1, f"{session} has seq {turn.seq} at place {position}")
    verdict.salvaged += sum(turn.origin is not None for turn in turns)
    asked: dict[tuple[str, int], str] = {}
    for writer, lines in told.items():
        mine = [line for line in lines if line.session == session]
        asked.update({(writer, n.number): n.digest for n in mine if n.word == "ask"})
        _judge_writer(verdict, session, writer, mine, there, promised)
    verdict.asked += len(asked)
    for key, copies in there.items():
        verdict.see("doubled", len(copies) - 1, f"{session} {key}")
        verdict.see("invented", int(key not in asked), f"{session} {key}")
        wrong = sum(asked.get(key, copy.digest) != copy.digest for copy in copies)
        verdict.see("altered", wrong, f"{session} {key}")


def _judge_writer(
    verdict: Verdict,
    session: str,
    writer: str,
    lines: Sequence[Line],
    there: dict[tuple[str, int], list[Found]],
    promised: Callable[[str, int], bool],
) -> None:
    acked = {line.number: line.seq for line in lines if line.word == "ack"}
    asked = {line.number: line.digest for line in lines if line.word == "ask"}
    verdict.acknowledged += len(acked)
    last = {line.number: line.word for line in lines}
    verdict.unknown += sum(word in ("unknown", "untyped", "ask") for word in last.values())
    possible: set[int] = set()  # some try of it may have been carried out
    for line in lines:
        if line.word in ("unknown", "untyped"):
            possible.add(line.number)
        if line.word == "ack" and asked.get(line.number) != line.digest:
            verdict.see("altered", 1, f"{writer} {line.number} was told {line.digest}")
        if line.word in ("unknown", "refused"):
            verdict.errors[line.digest] += 1
        if line.word == "untyped":
            verdict.untyped[line.digest] += 1
    for number, word in last.items():
        gone = word != "refused" or number in possible or number in acked
        verdict.see("contradicted", int(not gone and (writer, number) in there), (writer, number))
    places: dict[bool, list[int]] = {True: [], False: []}
    for number, seq in sorted(acked.items()):
        copies = there.get((writer, number))
        if not copies:
            kind = "lost" if promised(writer, number) else "at_risk"
            verdict.see(kind, 1, f"{session} {writer} {number} at {seq}")
            continue
        one = copies[0]
        says = one.seq if one.origin is None else one.origin[1]
        verdict.see("disordered", int(says != seq), f"{writer} {number}: {says}, told {seq}")
        places[one.origin is not None].append(one.seq)
    for seqs in places.values():
        verdict.see("disordered", sum(a >= b for a, b in pairwise(seqs)), f"{writer}: order")


def read_back(store: nf.Store, sessions: Iterable[str]) -> dict[str, list[Found]]:
    found: dict[str, list[Found]] = {}
    for name in sessions:
        turns = found[name] = []
        for turn in store.session(name):
            about = turn.metadata
            origin = getattr(turn, "salvaged_from", None)
            place = None if origin is None else (origin[0], origin[1])
            writer, number = str(about.get("writer")), int(about.get("number", -1))
            turns.append(Found(turn.seq, writer, number, digest_of(turn.content), place))
    return found


# ---- as a program --------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True, help="a path, or ray:NAME@ADDRESS")
    parser.add_argument("--ip", default="", help="of the node of Ray to be a driver on")
    parser.add_argument("--told", required=True, type=Path)
    parser.add_argument("--stop", required=True, type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--pause-ms", type=float, default=2.0)
    parser.add_argument("--deadline", type=float, default=PATIENCE_S)
    parser.add_argument("--sync")
    parser.add_argument("--attached", action="store_true", help="to a path that is hosted")
    parser.add_argument("--settings", type=json.loads, default={}, help="of a path: opened inline")
    parser.add_argument("sessions", nargs="+")
    asked = parser.parse_args()
    with _opened(asked) as store:
        end = threading.Event()
        writer = Writer(asked.name, asked.told, end, asked.pause_ms / 1000, asked.sync)
        threads = [
            threading.Thread(target=writer.write, args=(store.session(name), asked.count))
            for name in asked.sessions
        ]
        for thread in threads:
            thread.start()
        while not asked.stop.exists() and any(thread.is_alive() for thread in threads):
            end.wait(0.05)
        end.set()
        for thread in threads:
            thread.join()
        writer.close()
    return 0


def _opened(asked: argparse.Namespace) -> nf.Store:
    if asked.attached:
        return nf.open(asked.store, host="never", wait=PATIENCE_S, deadline_s=asked.deadline)
    if not asked.store.startswith("ray:"):
        return nf.open(asked.store, inline=True, deadline_s=asked.deadline, **asked.settings)
    import ray

    name, _, address = asked.store.removeprefix("ray:").partition("@")
    ray.init(address=address, _node_ip_address=asked.ip, namespace="writers", log_to_driver=False)
    return nf.connect(name, address=address, deadline=asked.deadline)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
