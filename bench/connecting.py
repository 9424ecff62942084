"""The tasks of ``bench_connects``, and a Ray of their own to run them in.

    python -m bench.connecting KIND TASKS ROUNDS FOLDER

One line of JSON comes of it: see ``measured``. Imported by every task: nothing heavy at the top.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

NAME = "memory"
PROCESSES = 20  # that are no tasks
PATIENCE_S = 300.0


class Held(NamedTuple):
    """One task: when it was done, seconds since the epoch; what that took it; its process."""

    done_at: float
    seconds: float
    processor_s: float
    pid: int


def nothing(number: int) -> None:
    """What a task takes that does nothing."""


def call(number: int) -> None:
    """Find an actor by its name, call it once: the least that connecting may take."""
    import ray

    ray.get(ray.get_actor("echo", namespace="bench").call.remote(b"x" * 300))


def connect(number: int) -> None:
    """Connect, append durably."""
    import neverforget as nf

    with nf.connect(NAME, deadline=PATIENCE_S) as store:
        store.session(f"chat-{number}").append("user", "hello")


WORK = {"nothing": nothing, "call": call, "connect": connect}


def held(kind: str, number: int, folder: str) -> Held:
    """Do it, say so, and stay until the gate opens: no process does two of them."""
    start, processor = time.perf_counter(), time.process_time()
    WORK[kind](number)
    found = Held(
        time.time(), time.perf_counter() - start, time.process_time() - processor, os.getpid()
    )
    Path(folder, f"{number}").touch()
    with Path(folder, "gate").open() as gate:
        fcntl.flock(gate, fcntl.LOCK_SH)
    return found


class Echo:
    """An actor that answers, and does nothing; a coroutine, as those of owners are."""

    async def call(self, record: bytes) -> int:
        return len(record)


def at_once(ray: Any, kind: str, tasks: int, folder: Path) -> tuple[float, list[Held]]:
    """Seconds until all of so many tasks have done it, and what each says."""
    folder.mkdir()
    gate = folder / "gate"
    remote = ray.remote(held).options(num_cpus=0.001, max_retries=0)
    with gate.open("w") as shut:
        fcntl.flock(shut, fcntl.LOCK_EX)
        start = time.time()
        calls = [remote.remote(kind, number, str(folder)) for number in range(tasks)]
        while len(os.listdir(folder)) <= tasks:
            time.sleep(0.05)
            failed, _ = ray.wait(calls, timeout=0)
            ray.get(failed)  # raises what went wrong
    found = ray.get(calls)
    return max(each.done_at for each in found) - start, found


PROGRAMS = {
    "nothing": "pass",
    "call": "import ray; ray.init(address={address!r}, log_to_driver=False); "
    "from bench.connecting import call; call(0)",
    "connect": "import neverforget as nf; store = nf.connect({name!r}, address={address!r}); "
    "store.session('other').append('user', 'hello')",
}


def processes(kind: str, address: str) -> float:
    """Seconds until so many processes, which know nothing of Ray, have started, done it and
    ended."""
    program = PROGRAMS[kind].format(address=address, name=NAME)
    start = time.perf_counter()
    started = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(PROCESSES)]
    codes = [process.wait() for process in started]
    assert not any(codes), f"{kind}: {codes}"
    return time.perf_counter() - start


def measured(kind: str, tasks: int, rounds: int, folder: Path) -> dict[str, Any]:
    """``new_s``: all tasks, each in a new process; ``processor_s``: of one of those, the median;
    ``again_s``: all of them in the same processes, each round; ``longest_s``: of one task there;
    ``reused``: how many of these processes were there before; ``processes_s``."""
    import ray

    import neverforget as nf

    folder.mkdir(parents=True)
    os.environ["NEVERFORGET_DATA"] = str(folder)
    ray.init(
        address="local",
        num_cpus=4,
        object_store_memory=128 << 20,
        include_dashboard=False,
        log_to_driver=False,
        resources={"neverforget": 1},
        _temp_dir=str(folder / "ray"),
    )
    settings = {"partitions": 2, "embedder": "none", "reflect_every_turns": 0}
    nf.deploy(NAME, {"path": "$NEVERFORGET_DATA/data", "settings": settings}, wait=PATIENCE_S)
    remote: Any = ray.remote  # its types know decorated classes only
    echo = remote(Echo).options(num_cpus=0, name="echo", namespace="bench").remote()
    ray.get(echo.call.remote(b""))
    new_s, first = at_once(ray, kind, tasks, folder / "new")
    again_s, longest_s, reused = [], [], []
    known = {each.pid for each in first}
    for number in range(rounds):
        seconds, found = at_once(ray, kind, tasks, folder / f"again-{number}")
        again_s.append(seconds)
        longest_s.append(max(each.seconds for each in found))
        reused.append(len(known & {each.pid for each in found}))
    processes_s = processes(kind, ray.get_runtime_context().gcs_address)
    nf.undeploy(NAME)
    ray.shutdown()
    spent = sorted(each.processor_s for each in first)
    return {
        "new_s": new_s,
        "processor_s": spent[len(spent) // 2],
        "again_s": again_s,
        "longest_s": longest_s,
        "reused": reused,
        "processes_s": processes_s,
    }


if __name__ == "__main__":
    kind, tasks, rounds, folder = sys.argv[1:5]
    # As a module, not as __main__: Ray sends what stands in that by value, to every task.
    from bench import connecting

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints on stdout, which is for the answer here
    found = connecting.measured(kind, int(tasks), int(rounds), Path(folder))
    print(json.dumps(found), file=answers, flush=True)
