"""What every test gets: a printed seed, no leaks, and Ray workers that import this checkout.

Tests under ``tests/cluster/`` are marked ``ray``; every other test may not start Ray. After each
test without Ray the process must hold the descriptors, children and threads it held before.
"""

from __future__ import annotations

import gc
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest

ROOT = Path(__file__).resolve().parent.parent
SETTLE_S = 60.0  # what a process or thread that was told to end may take where many wait for a CPU
CLUSTER_TIMEOUT_S = 900  # of a test that starts dozens of processes: it is for one that hangs
MEMORY_BYTES_MIN = 1 << 30  # what must be free in memory for tests to keep their files there
SEED: pytest.StashKey[int] = pytest.StashKey()

# Ray workers start in the driver's directory, where `import storage` finds a second copy of it.
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
)
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DEDUP_LOGS", "0")
# Workers share the processors: threads that wait for the next matrix would keep them from others.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# Tests start hundreds of processes. Where none may keep bytecode, each compiles the package anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# No clock decides whether a test passes: drawing takes as long as this machine is busy.
NO_CLOCK: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [hypothesis.HealthCheck.too_slow],
}
# The default run draws the same examples each time: it guards, and the long run searches.
hypothesis.settings.register_profile(
    "steady", derandomize=True, print_blob=True, database=None, max_examples=50, **NO_CLOCK
)
hypothesis.settings.register_profile(
    "long", print_blob=True, database=None, max_examples=1000, **NO_CLOCK
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run what takes minutes")
    parser.addoption(
        "--seed",
        default="0",
        metavar="N",
        help="seed of the `seed` and `rng` fixtures (default 0); `random` draws one and prints it",
    )


def pytest_configure(config: pytest.Config) -> None:
    chosen = str(config.getoption("--seed"))
    drawn = random.SystemRandom().getrandbits(32)
    config.stash[SEED] = drawn if chosen == "random" else int(chosen)
    hypothesis.settings.load_profile("long" if config.getoption("--long") else "steady")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts what runs in its background so; children would inherit it, and tests that
        # press Ctrl-C would wait for ever.
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.stash[SEED]} (repeat with --seed {config.stash[SEED]})"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whoever runs the part without Ray reads none of the rest: each worker would import Ray."""
    without = config.getoption("markexpr") == "not ray"
    return True if without and collection_path == ROOT / "tests" / "cluster" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "cluster" in item.path.relative_to(ROOT).parts:
            item.add_marker(pytest.mark.ray)
            if not item.get_closest_marker("timeout"):
                item.add_marker(pytest.mark.timeout(CLUSTER_TIMEOUT_S))
        if item.get_closest_marker("root") and os.geteuid() != 0:
            item.add_marker(pytest.mark.skip(reason="not run: needs root"))
    if not config.getoption("--long"):
        kept = [item for item in items if not item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=[i for i in items if i.get_closest_marker("long")])
        items[:] = kept


def pytest_collection_finish() -> None:
    """What is loaded by now stays to the end: no later collection of garbage looks at it again. And
    there are fewer of them: what tests drop goes without, but for cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000)


@pytest.fixture(scope="session", autouse=True)
def owners_hide_nothing() -> Iterator[None]:
    """An owner in a process of its own has all it holds looked at once by the collector of garbage,
    and never again. Here that is all that the tests have loaded: 0.2 s for each such owner.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("neverforget.actors.region_life.hide_from_collector", lambda: None)
        yield


@pytest.fixture
def long_run(request: pytest.FixtureRequest) -> bool:
    """Under --long the loops of a test are longer; what they prove is the same."""
    return bool(request.config.getoption("--long"))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The run's seed, mixed with the test's name so that tests do not share one sequence."""
    return request.config.stash[SEED] ^ hash_of(request.node.nodeid)


@pytest.fixture
def rng(seed: int) -> random.Random:
    print(f"rng seed {seed}")
    return random.Random(seed)


def hash_of(text: str) -> int:
    value = 0
    for byte in text.encode():
        value = (value * 131 + byte) & 0xFFFFFFFF
    return value


@pytest.fixture
def memory_path() -> Iterator[Path]:
    """A folder in memory where there is room, else on the disk; its name is short. For tests that
    make many stores, and of which none is about a disk: nobody waits for its syncs.
    """
    shared = Path("/dev/shm")
    room = shared.is_dir() and shutil.disk_usage(shared).free > MEMORY_BYTES_MIN
    path = Path(tempfile.mkdtemp(prefix="nf-", dir=shared if room else None))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A folder whose name leaves room for a socket's 108 bytes, unlike tmp_path."""
    path = Path(tempfile.mkdtemp(prefix="nf-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


# ---- leaks ---------------------------------------------------------------------------------------


def held_descriptors() -> dict[str, str]:
    """Open descriptors by number, with what they point to. Empty where /proc is not there."""
    held: dict[str, str] = {}
    try:
        names = os.listdir("/proc/self/fd")
    except FileNotFoundError:
        return held
    for name in names:
        try:
            held[name] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
    return held


def child_pids() -> set[int]:
    """Direct children. From /proc where it tells: asking psutil costs milliseconds a test."""
    try:
        tasks = os.listdir("/proc/self/task")
        texts = [Path(f"/proc/self/task/{task}/children").read_text() for task in tasks]
    except FileNotFoundError:
        return {child.pid for child in psutil.Process().children()}
    return {int(pid) for text in texts for pid in text.split()}


def leaked(before: dict[str, str], children: set[int], threads: set[int]) -> list[str]:
    """What is held now and was not before, in words. Devices and event fds do not count."""
    found = []
    for name, target in held_descriptors().items():
        if before.get(name) != target and not target.startswith(("/dev/", "/proc/", "anon_inode:")):
            found.append(f"descriptor {name} -> {target}")
    for pid in child_pids() - children:
        try:
            child = psutil.Process(pid)
            if child.status() != psutil.STATUS_ZOMBIE:
                found.append(f"process {pid}: {' '.join(child.cmdline())[:200]}")
        except psutil.NoSuchProcess:
            continue  # it ended while we looked
    for thread in threading.enumerate():
        if thread.ident not in threads and thread.is_alive():
            found.append(f"thread {thread.name}")
    return found


def gone(look: Any) -> list[str]:
    """Ask ``look`` until it finds nothing, at most SETTLE_S; then what it still finds."""
    deadline = time.monotonic() + SETTLE_S
    pause, pause_s = threading.Event(), 0.001  # most are threads that are about to end
    while found := look():
        if time.monotonic() > deadline:
            return list(found)
        if pause_s > 0.01:
            gc.collect()  # a cycle that holds a file is not a leak
        pause.wait(pause_s)
        pause_s = min(2 * pause_s, 0.1)
    return []


@pytest.fixture(autouse=True)
def no_leaks(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test leaves what it found. Tests with Ray are exempt: Ray keeps pools of its own."""
    if request.node.get_closest_marker("ray"):
        yield
        return
    before = held_descriptors()
    children = child_pids()
    threads = {thread.ident for thread in threading.enumerate() if thread.ident is not None}
    yield
    found = gone(lambda: leaked(before, children, threads))
    if found:
        pytest.fail("left behind: " + "; ".join(found), pytrace=False)


# ---- Ray -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ray_local() -> Iterator[Any]:
    """The one local Ray that a module's tests share; this process is its driver. Yields the module.
    The next module may be a driver of another cluster.

    Its temporary directory is its own and short (sockets); it never joins a cluster that was
    there before. Afterwards no process of it may be left.
    """
    ray = pytest.importorskip("ray")
    assert not ray.is_initialized(), "a test started Ray by itself and left it running"
    folder = Path(tempfile.mkdtemp(prefix="nfr-"))
    ray.init(
        address="local",
        num_cpus=4,
        object_store_memory=128 * 1024 * 1024,
        include_dashboard=False,
        log_to_driver=False,
        namespace="neverforget-tests",
        _temp_dir=str(folder),
    )
    yield ray
    ray.shutdown()
    left = gone(lambda: processes_of(folder))
    shutil.rmtree(folder, ignore_errors=True)
    assert not left, f"Ray left processes behind: {left}"


def processes_of(folder: Path) -> list[str]:
    """Living processes that name ``folder`` on their command line."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "status"]):
        words = process.info["cmdline"] or []
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(str(folder) in w for w in words):
            found.append(f"{process.info['pid']}: {words[0]}")
    return found
