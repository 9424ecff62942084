"""More calls at once than an owner can take: one process, a task for each session.

    python -m tests.faults.flooding --store ray:NAME@ADDRESS --ip IP --told FILE --stop FILE ...

Notes what it was told as ``acknowledged.py`` does, for the same judge, and says as its last line
what became of its calls, as JSON: "calls", "seconds", and each error by its name. A turn in
``LARGE_EVERY`` is of up to 2 MiB. What was not done is not said again: the next turn is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import neverforget as nf
from tests.faults.acknowledged import Writer, digest_of

LARGE_EVERY = 10
LARGE_BYTES_MAX = 2 * 1024 * 1024
LARGE_BYTES_MEAN = 586_000  # of sizes between a 32nd of that and that, evenly by their logarithm
PAUSE_S = 0.05  # after an error


def flooding_content(writer: str, session: str, number: int) -> str | bytes:
    drawn = random.Random(f"{writer}/{session}/{number}")
    if drawn.randrange(LARGE_EVERY):
        return drawn.randbytes(150).hex()
    return drawn.randbytes(int(LARGE_BYTES_MAX / 2 ** drawn.uniform(0, 5)))


class Flood:
    """``calls``: the numbers of all calls together; every session takes the next one."""

    def __init__(self, writer: Writer, calls: int) -> None:
        self._writer = writer
        self._calls: Iterator[int] = iter(range(calls))
        self.outcomes: Counter[str] = Counter()
        self.slowest_s = 0.0

    async def say(self, chat: nf.aio.AsyncSession) -> None:
        for number, _ in enumerate(self._calls):
            if self._writer.stop.is_set():
                return
            began = time.monotonic()
            await self._one(chat, number)
            self.slowest_s = max(self.slowest_s, time.monotonic() - began)

    async def _one(self, chat: nf.aio.AsyncSession, number: int) -> None:
        writer, name = self._writer, chat.name
        content = flooding_content(writer.name, name, number)
        digest = digest_of(content)
        writer.note("ask", name, number, -1, digest)
        about = {"writer": writer.name, "number": number}
        try:
            turn = await chat.append("user", content, metadata=about)
        except nf.NeverforgetError as error:
            kind = type(error).__name__
            outcome = getattr(error, "outcome", None)
            surely_not = outcome == "not_applied" or isinstance(error, nf.Overloaded)
            writer.note("refused" if surely_not else "unknown", name, number, -1, kind)
            self.outcomes[f"{kind} ({outcome})" if outcome else kind] += 1
            await asyncio.sleep(PAUSE_S)
        except Exception as error:
            writer.note("untyped", name, number, -1, type(error).__name__)
            self.outcomes[f"untyped {type(error).__name__}: {error}"[:200]] += 1
        else:
            writer.note("ack", name, number, turn.seq, digest_of(turn.content))
            self.outcomes["acknowledged"] += 1


async def flood(asked: argparse.Namespace) -> None:
    end = threading.Event()
    writer = Writer(asked.name, asked.told, end)
    name, _, address = asked.store.removeprefix("ray:").partition("@")
    async with await nf.aio.connect(name, address=address, deadline=asked.deadline) as store:
        print("connected", flush=True)
        flooding = Flood(writer, asked.calls)
        began = time.monotonic()
        tasks = [asyncio.create_task(flooding.say(store.session(s))) for s in asked.sessions]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(0.1)
            if asked.stop.exists():
                end.set()
        await asyncio.gather(*tasks)
        seconds = time.monotonic() - began
    writer.close()
    found = {"seconds": seconds, "slowest_s": flooding.slowest_s, "outcomes": flooding.outcomes}
    print(json.dumps(found), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", required=True, help="ray:NAME@ADDRESS")
    parser.add_argument("--ip", required=True, help="of the node of Ray to be a driver on")
    parser.add_argument("--told", required=True, type=Path)
    parser.add_argument("--stop", required=True, type=Path)
    parser.add_argument("--name", required=True)
    parser.add_argument("--calls", type=int, required=True)
    parser.add_argument("--deadline", type=float, required=True)
    parser.add_argument("sessions", nargs="+")
    asked = parser.parse_args()
    import ray

    address = asked.store.partition("@")[2]
    ray.init(address=address, _node_ip_address=asked.ip, namespace="writers", log_to_driver=False)
    asyncio.run(flood(asked))
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
