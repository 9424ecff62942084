"""The head of the cluster is lost, with a GCS that keeps its state and without."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from neverforget.storage.directory_lock import is_alive, read_holder
from tests.cluster.cluster_nodes import QUICK, RayNodes, reason_not_to_run, until
from tests.cluster.fault_control import Control, Raised

NAME = "headless"
PLAN = {
    "path": f"$NF_DATA/{NAME}",
    "nodes": 1,
    "settings": {"partitions": 2, "embedder": "none", "segment_bytes": 1 << 20},
}
SETTINGS = {**QUICK, "RAY_raylet_start_wait_time_s": "150"}
_RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"  # so long Ray looks for a head; 60 by default


@pytest.fixture
def nodes(request: pytest.FixtureRequest) -> Iterator[RayNodes]:
    """A head "a" without a part and a node "b" with all of the store; ``request.param``: whether
    the GCS keeps its state."""
    why = reason_not_to_run()
    if why is not None:
        pytest.skip(why)
    with RayNodes(environment=SETTINGS, persistent=request.param) as made:
        made.start("a", offers=False)
        if request.param:
            made.settings[_RECONNECT] = "600"
        made.start("b")
        yield made


def say(control: Control, text: str, deadline: float = 120.0) -> int:
    seq: int = control("append", name=NAME, session="chat-0", text=text, deadline=deadline)
    return seq


def owner(control: Control) -> dict[str, Any]:
    """That of the session's partition."""
    sessions = control("sessions", name=NAME, count=50)
    (partition,) = [int(n) for n, names in sessions.items() if "chat-0" in names]
    found: dict[str, Any] = control("owners", name=NAME)[partition]
    return found


def begin_head_again(nodes: RayNodes) -> None:
    (nodes.folder / "ray" / "ray_current_cluster").unlink(missing_ok=True)
    nodes.start("a", offers=False)


@pytest.mark.long
@pytest.mark.parametrize("nodes", [True], indirect=True)
def test_a_head_that_keeps_its_state_comes_back_and_nothing_was_missed(nodes: RayNodes) -> None:
    """Clients of other nodes go on meanwhile and afterwards. One that came through the head's node
    is lost with it where owners are started again: it is told so, and what to do, and does it."""
    near, through_head = Control(nodes, "b"), Control(nodes, "a")
    try:
        near("deploy", name=NAME, plan=PLAN)
        assert [say(near, "0"), say(through_head, "1")] == [0, 1]
        nodes.kill("a")
        assert [say(near, "2"), say(through_head, "3")] == [2, 3]
        begin_head_again(nodes)
        assert say(near, "4") == 4

        os.kill(owner(near)["pid"], signal.SIGKILL)
        assert say(near, "5") == 5
        with pytest.raises(Raised, match=r"given up the node .* connect again") as raised:
            say(through_head, "lost", deadline=10.0)
        assert raised.value.kind == "Unavailable"
        with pytest.raises(Raised, match="given up the node"):
            through_head("connect_again", name=NAME, shut_down=False)
        through_head("connect_again", name=NAME, shut_down=True)
        assert say(through_head, "6") >= 6
        assert near("verify", name=NAME) == []
    finally:
        near.close()
        through_head.close()


@pytest.mark.long
@pytest.mark.parametrize("nodes", [False], indirect=True)
def test_a_head_that_kept_nothing_ends_the_cluster_and_the_store_is_deployed_again(
    nodes: RayNodes,
) -> None:
    """The next head is another cluster's. The host of the old one gives its folder back as soon as
    it sees that; clients are told so. Deployed again, the store has everything."""
    near = Control(nodes, "b")
    try:
        near("deploy", name=NAME, plan=PLAN)
        assert say(near, "0") == 0
        folder = nodes.data("b") / NAME
        holder = read_holder(folder)
        assert holder is not None
        nodes.kill("a")
        assert say(near, "1") == 1  # through the socket, as before
        begin_head_again(nodes)
        until(lambda: not is_alive(holder.process), "the host to leave")
        assert not list((folder / "run").glob("*.sock"))  # in order
        with pytest.raises(Raised, match=r"another answers at .* neverforget deploy") as raised:
            say(near, "lost", deadline=10.0)
        assert raised.value.kind == "Unavailable"

        nodes.kill("b")
        nodes.start("b")
        fresh = Control(nodes, "b")
        try:
            fresh("deploy", name=NAME, plan=PLAN)
            turns = fresh("texts", name=NAME, session="chat-0")
            assert turns in (["0", "1"], ["0", "1", "lost"])
            assert fresh("verify", name=NAME) == []
        finally:
            fresh.close()
    finally:
        near.close()


_CONNECT = """
import sys
import neverforget as nf
try:
    nf.connect("headless", address=sys.argv[1])
except nf.Unavailable as error:
    print(error)
"""


def test_who_connects_where_no_head_is_learns_it_at_once() -> None:
    """Ray would look for it for half a minute, and may then end the process."""
    run = subprocess.run(
        [sys.executable, "-c", _CONNECT, "127.0.0.1:9"], capture_output=True, text=True, check=True
    )
    assert "no Ray cluster at '127.0.0.1:9'" in run.stdout


_CALL = """
import ray
from neverforget.actors.handles import OwnerHandle
from neverforget.storage.errors import Unavailable
ray.init(address="local", num_cpus=1, include_dashboard=False, _temp_dir=sys.argv[1])
class Owner:
    def call(self, frame):
        return frame
owner = ray.remote(Owner).options(name="owner", namespace="neverforget").remote()
handle = OwnerHandle("owner", owner)
assert handle.call(b"x", 120.0) == b"x"
ray.shutdown()
for each in (handle, OwnerHandle("owner")):
    try:
        each.call(b"x", 120.0)
    except Unavailable as error:
        print(error.outcome, error)
print(ray.is_initialized())
"""


def test_a_call_after_ray_shutdown_starts_no_cluster_and_joins_none() -> None:
    """Ray starts one by itself, or joins one that it finds, where a handle is used then."""
    folder = tempfile.mkdtemp(prefix="nfh-")
    try:
        run = subprocess.run(
            [sys.executable, "-c", f"import sys\n{_CALL}", folder],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    *errors, initialized = run.stdout.splitlines()[-3:]
    assert all("not_applied" in e and "call nf.connect again" in e for e in errors)
    assert len(errors) == 2 and initialized == "False"
