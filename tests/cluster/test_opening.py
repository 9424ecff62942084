"""Attaching without Ray: hosts that are brought up, found again, shared, and that end by
themselves. Everything happens in processes of its own, since this one may have Ray."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from neverforget.actors.greeting import greet
from neverforget.runtime.endpoint import Endpoint, read_endpoint
from neverforget.runtime.opening import attach
from neverforget.runtime.start_host import is_held
from neverforget.storage.directory_lock import ProcessId, start_time
from neverforget.storage.errors import StoreLocked, Unavailable, UnsupportedFormat
from tests.cluster.processes import (
    PATIENCE_S,
    attached,
    end_host,
    living,
    python,
    told,
    until,
    until_gone,
)


@pytest.fixture
def path(short_path: Path) -> Iterator[Path]:
    """Where a store will stand. Its host is ended afterwards."""
    found = short_path / "a store"
    yield found
    end_host(found)


def owners(endpoint: Endpoint) -> list[ProcessId]:
    found = []
    for address in endpoint.sockets:
        connection, welcome = greet(address, endpoint.store_id, PATIENCE_S)
        connection.close()
        found.append(ProcessId(welcome.pid, start_time(welcome.pid)))
    return found


# ---- one host ------------------------------------------------------------------------------------


def test_a_host_is_brought_up_found_again_and_never_needs_ray_in_the_client(path: Path) -> None:
    first, second = attached(path), attached(path)
    assert first == second
    assert first["kind"] == "serve"
    assert first["heavy"] == []
    words = Path(f"/proc/{first['pid']}/cmdline").read_bytes().split(b"\0")
    assert words[2:7] == [b"-m", b"neverforget", b"serve", os.fsencode(path), b"--linger"]
    assert os.getsid(first["pid"]) != os.getsid(0)
    priority = psutil.Process(first["pid"]).nice()  # of owners: as their host's, not below
    assert [psutil.Process(owner.pid).nice() for owner in owners(living(path))] == [priority] * 2


RACE = """
import json, sys, threading
from neverforget.runtime.opening import attach
count = int(sys.argv[2])
barrier, found, lock = threading.Barrier(count), [], threading.Lock()
def one():
    barrier.wait()
    attachment = attach(sys.argv[1], wait=120.0)
    with lock:
        found.append(attachment)
threads = [threading.Thread(target=one) for _ in range(count)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps([[a.endpoint.pid, a.store_id] for a in found]))
"""


def test_two_hundred_who_race_to_attach_get_one_host(path: Path) -> None:
    racers = [python(RACE, str(path), "50") for _ in range(4)]
    found = [tuple(each) for racer in racers for each in told(racer)]
    assert len(found) == 200
    assert len(set(found)) == 1


def test_settings_reach_the_host_that_is_brought_up(path: Path) -> None:
    script = """
import json, sys
from neverforget.runtime.config import Config
from neverforget.runtime.opening import attach
a = attach(sys.argv[1], wait=120.0, config=Config(partitions=1, tokenizer="o200k_base"))
print(json.dumps([len(a.endpoint.sockets), a.endpoint.settings["tokenizer"]]))
"""
    assert told(python(script, str(path))) == [1, "o200k_base"]


# ---- the next host -------------------------------------------------------------------------------


def test_owners_end_with_their_host_and_the_next_host_has_their_turns(path: Path) -> None:
    first = attached(path)
    endpoint = living(path)
    processes = owners(endpoint)
    end_host(path, signal.SIGKILL)
    for process in processes:
        until_gone(process)
    second = attached(path)
    assert second["pid"] != first["pid"]
    assert second["store"] == first["store"]


REFRESH = """
import json, sys, threading, time
from neverforget.runtime.opening import attach
attachment = attach(sys.argv[1], wait=120.0, host=sys.argv[2])
old = attachment.endpoint
print(json.dumps(old.pid), flush=True)
deadline, pause = time.monotonic() + 120, threading.Event()
while attachment.refresh(deadline).process == old.process:
    pause.wait(0.02)
print(json.dumps([attachment.endpoint.pid, attachment.store_id == old.store_id]))
"""


def test_an_attached_client_finds_or_brings_up_the_next_host(path: Path) -> None:
    attached(path)
    auto = python(REFRESH, str(path), "auto")
    never = python(REFRESH, str(path), "never")
    for client in (auto, never):
        assert client.stdout is not None
        assert client.stdout.readline().strip() == str(living(path).pid)
    end_host(path, signal.SIGKILL)
    (pid, same), (other, also) = told(auto), told(never)
    assert pid == other == living(path).pid
    assert (same, also) == (True, True)


def test_a_stopped_host_is_replaced(path: Path) -> None:
    first = attached(path)
    process = living(path).process
    os.kill(first["pid"], signal.SIGSTOP)
    second = attached(path)
    assert second["pid"] != first["pid"]
    until_gone(process)


def lingering(path: Path, linger_s: float) -> tuple[subprocess.Popen[bytes], socket.socket | None]:
    """A host, and a connection to it; None: it has ended before we came."""
    command = [sys.executable, "-m", "neverforget", "serve", str(path), "--linger", str(linger_s)]
    host = subprocess.Popen(command)
    until(lambda: host.poll() is not None or read_endpoint(path), "a host")
    with suppress(OSError):
        if (endpoint := read_endpoint(path)) is not None:
            return host, greet(endpoint.control, endpoint.store_id, PATIENCE_S)[0]
    assert host.wait(PATIENCE_S) == 0
    return host, None


def test_a_host_ends_when_nobody_has_needed_it_for_a_while(path: Path) -> None:
    for linger_s in (0.5, 5.0, 50.0):  # a busy machine takes longer than the first to connect
        host, connection = lingering(path, linger_s)
        if connection is not None:
            break
    assert connection is not None
    with pytest.raises(subprocess.TimeoutExpired):
        host.wait(3 * linger_s)
    connection.close()
    assert host.wait(PATIENCE_S) == 0
    assert read_endpoint(path) is None
    assert not is_held(path)


def test_a_host_ends_in_order_when_told_to(path: Path) -> None:
    host = subprocess.Popen([sys.executable, "-m", "neverforget", "serve", str(path)])
    processes = owners(living(path))
    host.send_signal(signal.SIGTERM)
    assert host.wait(PATIENCE_S) == 0
    for process in processes:
        until_gone(process)
    assert list((path / "regions" / "p0" / "log").glob("*.heads"))
    assert list((path / "run").iterdir()) == []


def test_a_host_whose_raylet_dies_ends_and_the_next_one_comes_up(path: Path) -> None:
    import psutil

    first = attached(path)
    children = psutil.Process(first["pid"]).children(recursive=True)
    (raylet,) = [child for child in children if child.name() == "raylet"]
    process = living(path).process
    raylet.kill()
    until_gone(process)
    assert attached(path)["pid"] != first["pid"]


# ---- when there is no host -----------------------------------------------------------------------


def test_never_attaches_only(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="run: neverforget serve"):
        attach(tmp_path / "store", host="never")
    assert not (tmp_path / "store").exists()


def test_nothing_is_created_for_who_only_comes_back(tmp_path: Path) -> None:
    script = """
import json, sys
from neverforget.runtime.opening import attach
from neverforget.storage.errors import NotFound
try: attach(sys.argv[1], create=False)
except NotFound as error: print(json.dumps(str(error)))
"""
    assert "no store" in told(python(script, str(tmp_path / "store")))
    assert not (tmp_path / "store").exists()


FAILS = """
import json, sys
from neverforget.runtime.opening import attach
try: attach(sys.argv[1], wait=120.0)
except Exception as error: print(json.dumps([type(error).__name__, str(error)]))
"""


def test_what_keeps_a_host_from_starting_is_told_to_who_wanted_it(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"not a store")
    kind, message = told(python(FAILS, str(tmp_path)))
    assert kind == UnsupportedFormat.__name__
    assert "holiday.jpg" in message


def test_a_host_that_dies_without_a_word_is_reported_by_its_last_line(
    tmp_path: Path, path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nif 'serve' in sys.argv: sys.exit('this machine is broken')\n"
    )
    kind, message = told(python(FAILS, str(path), PYTHONPATH=_first(tmp_path)))
    assert kind == Unavailable.__name__
    assert "this machine is broken" in message


def _first(folder: Path) -> str:
    return os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])


def test_a_store_that_is_open_inline_elsewhere_is_locked(path: Path) -> None:
    script = """
import sys
from neverforget.runtime.inline import open_inline
host = open_inline(sys.argv[1])
print("open", flush=True)
sys.stdin.readline()
host.close()
"""
    inline = subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert inline.stdout is not None
    assert inline.stdout.readline() == "open\n"
    for host in ("auto", "never"):
        with pytest.raises(StoreLocked) as caught:
            attach(path, host=host)
        assert (caught.value.pid, caught.value.role) == (inline.pid, "application")
    inline.communicate("\n", timeout=PATIENCE_S)
    assert attached(path)["kind"] == "serve"


# ---- awkward places ------------------------------------------------------------------------------


# Root may write anywhere but into /proc. The other home is there, and must stay empty.
@pytest.mark.parametrize(
    ("name", "home"), [("with spaces and ümläuts", "/proc"), ("long" * 40, "")]
)
def test_any_path_and_a_home_that_cannot_be_written(
    tmp_path: Path, short_path: Path, name: str, home: str
) -> None:
    path = tmp_path / name / "store"
    # The mode is what a Ray in the parent process leaves behind.
    surroundings = {
        "HOME": home or str(short_path),
        "XDG_RUNTIME_DIR": "",
        "RAY_AUTH_MODE": "token",
    }
    found = attached(path, **surroundings)
    assert found["heavy"] == []
    endpoint = living(path)
    assert all(len(os.fsencode(address)) < 108 for address in endpoint.sockets)
    assert owners(endpoint)
    end_host(path)
    assert list(short_path.iterdir()) == []


def test_a_forked_child_attaches_anew_and_leaves_the_parents_hold_alone(path: Path) -> None:
    script = """
import json, os, sys
from neverforget.runtime.opening import attach
attachment = attach(sys.argv[1], wait=120.0)
control = attachment._control
child = os.fork()
if child == 0:
    assert attachment._control is None
    endpoint = attachment.refresh()
    attachment.close()
    os._exit(0 if endpoint.alive else 1)
_, status = os.waitpid(child, 0)
again = attachment.refresh()
print(json.dumps([os.waitstatus_to_exitcode(status), attachment._control is control]))
"""
    assert told(python(script, str(path))) == [0, True]


def test_a_driver_that_just_ends_has_sealed_what_it_hosted(path: Path) -> None:
    """No ``close``: the store is given back by an exit function, before Ray's own."""
    script = """
import json, sys
from neverforget.runtime.opening import attach
import ray
ray.init(address="local", include_dashboard=False, log_to_driver=False, num_cpus=2,
         object_store_memory=80 * 1024 * 1024, _temp_dir=sys.argv[2])
attachment = attach(sys.argv[1], wait=120.0)
print(json.dumps(attachment.endpoint.kind), flush=True)
"""
    ray_folder = path.parent / "ray"
    assert told(python(script, str(path), str(ray_folder))) == "application"
    assert read_endpoint(path) is None
    assert not is_held(path)
    assert len(list((path / "regions").glob("p*/log/*.heads"))) == 2


def test_ray_that_the_caller_shuts_down_frees_the_store(path: Path) -> None:
    script = """
import json, sys, threading
from neverforget.runtime.endpoint import read_endpoint
from neverforget.runtime.opening import attach
import ray
ray.init(address="local", include_dashboard=False, log_to_driver=False, num_cpus=2,
         object_store_memory=80 * 1024 * 1024, _temp_dir=sys.argv[2])
attachment = attach(sys.argv[1], wait=120.0)
ray.shutdown()
pause = threading.Event()
while read_endpoint(attachment.path) is not None:
    pause.wait(0.05)
kind = attachment.refresh().kind
again = ray.is_initialized()
attachment.close()
print(json.dumps([kind, again]), flush=True)
"""
    found = told(python(script, str(path), str(path.parent / "ray")))
    assert found == ["serve", False]
