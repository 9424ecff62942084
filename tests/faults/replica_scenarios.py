"""What happens to a store whose logs are shipped, when the object store misbehaves or the disk is
lost; a scenario returns a ``Row``. No Ray: the owners live in the writer's process.

In each, every second call asks for ``sync="replica"`` and the others for "disk". Of what was
acknowledged at "replica" nothing may be lost with the disk; of the rest, what was not shipped yet.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import neverforget as nf
from tests.cluster.cluster_nodes import until
from tests.conftest import ROOT
from tests.faults.acknowledged import judge, on_replica, read_back
from tests.faults.object_proxy import ObjectProxy
from tests.faults.writing import NotRun, Row, Writing, told_folder
from tests.storage.object_stores import make_bucket, s3_server

SESSIONS = ["chat-0", "chat-1", "chat-2"]
CREDENTIALS = {
    "AWS_ALLOW_HTTP": "true",
    "AWS_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false",
}


class Place:
    """A folder for stores and an object store to ship to; ``proxy``: where that is an S3 server."""

    def __init__(self, folder: Path, url: str, proxy: ObjectProxy | None) -> None:
        self.folder, self.url, self.proxy = folder, url, proxy
        self.told_folder = told_folder(folder)
        self.writers: list[Writing] = []
        found = {} if proxy is None else {**CREDENTIALS, "AWS_ENDPOINT_URL": proxy.url}
        path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        self.environment = {**os.environ, **found, "PYTHONPATH": path}

    def settings(self) -> dict[str, Any]:
        return {
            "partitions": 2, "embedder": "none", "segment_bytes": 1 << 18,
            "reflect_every_turns": 0, "replica": self.url,
        }  # fmt: skip

    def write(self, store: str, *options: str) -> Writing:
        """A process that owns ``store``."""
        writing = Writing(
            f"{store}-{len(self.writers)}", str(self.folder / store), self.told_folder, SESSIONS,
            "--settings", json.dumps(self.settings()), "--sync", "mixed", *options,
            environment=self.environment,
        )  # fmt: skip
        self.writers.append(writing)
        return writing

    def restore(self, store: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "neverforget", "restore", str(self.folder / store)]
        return subprocess.run(
            [*command, "--from", self.url],
            env=self.environment, cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip

    def judged(self, scenario: str, store: str, *, disk_lost: bool) -> Row:
        """Of what a process reads that opens ``store`` now. Nobody else may have it open."""
        with self.opened(store) as opened:
            found = read_back(opened, SESSIONS)
            report = opened.verify()
        verdict = judge(
            {writer.name: writer.lines() for writer in self.writers},
            found,
            lambda _, number: on_replica(number) or not disk_lost,
        )
        damaged = [str(each) for each in report.findings if each.severity == "error"]
        return Row(scenario, verdict, problems=damaged)

    @contextmanager
    def opened(self, store: str) -> Iterator[nf.Store]:
        before = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        try:
            with nf.open(self.folder / store, inline=True, **self.settings()) as found:
                yield found
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value

    def close(self) -> None:
        for writer in self.writers:
            writer.kill()
        shutil.rmtree(self.told_folder, ignore_errors=True)


@contextmanager
def place(kind: str) -> Iterator[Place]:
    """``kind``: "folder" or "s3"."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nfo-")))
        if kind == "folder":
            made = Place(folder, f"file://{folder / 'objects'}", None)
        else:
            try:
                endpoint = stack.enter_context(s3_server())
            except ModuleNotFoundError as error:
                raise NotRun(f"not run: {error}") from error
            bucket = f"bucket-{secrets.token_hex(4)}"  # the server keeps those of earlier ones
            make_bucket(endpoint, bucket)
            proxy = ObjectProxy(endpoint)
            stack.callback(proxy.close)
            made = Place(folder, f"s3://{bucket}/stores", proxy)
        stack.callback(made.close)
        yield made


def acknowledged(writer: Writing, count: int, session: str = SESSIONS[0]) -> None:
    """Wait for so many more turns."""
    before = len(writer.acks(session))

    def there() -> bool:
        writer.check()
        return len(writer.acks(session)) >= before + count

    until(there, f"{count} more turns of {writer.name}")


# ---- scenarios -----------------------------------------------------------------------------------


def disk_lost(kind: str) -> Row:
    """kill -9 in the middle of writing, and the disk is gone; the store is made again."""
    with place(kind) as at:
        writer = at.write("store")
        acknowledged(writer, 300)
        writer.kill()
        fault = time.monotonic()
        shutil.rmtree(at.folder / "store")
        again = at.restore("again")
        assert again.returncode == 0, again.stderr
        second = at.write("again")
        acknowledged(second, 1)
        next_s = time.monotonic() - fault
        acknowledged(second, 100)
        problems = [] if second.stop() == 0 else [second.said()]
        row = at.judged(f"disk lost, restored from {kind}", "again", disk_lost=True)
        row.next_s = next_s
        row.problems += problems
        return row


def objects_misbehave(rounds: int = 1) -> Row:
    """503 and cut connections, slow answers, puts whose answer is lost and puts that are done after
    they were refused, one after the other, under an owner that writes; then its disk is lost."""
    with place("s3") as at:
        assert at.proxy is not None
        proxy, waited = at.proxy, 0.0
        writer = at.write("store")
        acknowledged(writer, 100)
        for _ in range(rounds):
            for fault, every in (("fail", 3), ("cut", 3), ("slow", 2), ("lose", 2), ("late", 2)):
                with proxy.faulty(fault, every=every, delay_s=0.3):  # type: ignore[arg-type]
                    until(partial(proxy.has_hit, fault, 5), f"the store to {fault}")
                    acknowledged(writer, 20)
                healed = time.monotonic()
                acknowledged(writer, 1)
                waited = max(waited, time.monotonic() - healed)
            with proxy.faulty("cut"):  # wholly away: "replica" waits, and so does "disk", later
                time.sleep(1.0)
            healed = time.monotonic()
            acknowledged(writer, 50)
            waited = max(waited, time.monotonic() - healed)
        writer.kill()
        proxy.settle()
        shutil.rmtree(at.folder / "store")
        again = at.restore("again")
        assert again.returncode == 0, again.stderr
        row = at.judged("object store fails, slow, loses and delays puts; disk lost", "again",
                        disk_lost=True)  # fmt: skip
        row.next_s = waited
        row.notes.append("; ".join(f"{count} x {fault}" for fault, count in proxy.hits.items()))
        return row


def fenced_while_writing(kind: str) -> Row:
    """[23] The store is taken over elsewhere while its owner lives and writes: it stops."""
    with place(kind) as at:
        writer = at.write("store", "--deadline", "20")
        acknowledged(writer, 300)
        fault, fault_wall = time.monotonic_ns(), time.time_ns()
        again = at.restore("again")
        assert again.returncode == 0, again.stderr
        second = at.write("again")
        acknowledged(second, 100)
        until(lambda: "OwnerFenced" in {n.digest for n in writer.lines()}, "the fence to be felt")
        last = max(line.time_ns for line in writer.lines() if line.word == "ack")
        problems = []
        writer.kill()
        if second.stop() != 0:
            problems.append(second.said())
        row = at.judged(f"taken over while its owner writes ({kind})", "again", disk_lost=True)
        first = [t for s in SESSIONS for t in second.acks(s)]
        row.next_s = (min(first) - fault) / 1e9
        row.last_byte_s = (_newest_ns(at.folder / "store" / "regions") - fault_wall) / 1e9
        row.notes.append(f"its last acknowledgement at {(last - fault) / 1e9:.2f} s")
        row.problems += problems
        return row


def create_only_race() -> Row:
    """Two take the same lost store over at once, from an object store that delays puts. Each log
    has one owner afterwards, whichever; a third one takes all of them over."""
    with place("s3") as at:
        assert at.proxy is not None
        with at.opened("store") as store:
            store.remember("of the long-term log, too, something is there", sync="replica")
        writer = at.write("store")
        acknowledged(writer, 200)
        writer.kill()
        shutil.rmtree(at.folder / "store")
        tries: dict[str, int] = {"one": 0, "two": 0}

        def take(name: str) -> None:
            while at.restore(name).returncode != 0 and tries[name] < 5:
                tries[name] += 1  # the same command goes on where it was interrupted

        with at.proxy.faulty("slow", every=2, delay_s=0.2):
            threads = [threading.Thread(target=take, args=(name,)) for name in tries]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        both = [at.write(name, "--deadline", "10") for name in tries]
        served: dict[str, set[str]] = {}

        def all_served() -> bool:
            for session in SESSIONS:
                served[session] = {w.name for w in both if len(w.acks(session)) > 50}
            return all(served.values())

        until(all_served, "each log to have an owner")
        for each in both:
            each.kill()
        again = at.restore("again")
        assert again.returncode == 0, again.stderr
        row = at.judged("two take over at once (s3)", "again", disk_lost=True)
        row.problems += [f"{s} was served by {by}" for s, by in served.items() if len(by) > 1]
        row.notes.append(f"{sum(tries.values())} of their tries were refused")
        return row


def _newest_ns(folder: Path) -> int:
    """When a file below it was last written."""
    return max(path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file())
