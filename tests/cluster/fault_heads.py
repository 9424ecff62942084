"""The head of the cluster is lost, with a GCS that outlives it and without.

These start clusters of their own: what happens to the head happens to everybody.
"""

from __future__ import annotations

import os
import shutil
import signal

from tests.cluster.cluster_nodes import QUICK, RayNodes, until
from tests.cluster.fault_control import Control
from tests.cluster.fault_scenarios import lives, ready
from tests.cluster.fault_world import World
from tests.faults.writing import Row

# So long raylets and workers look for a head that is gone; 60 s by default.
_RECONNECT = "RAY_gcs_rpc_server_reconnect_timeout_s"
_RECONNECT_S = 15
_PATIENT_S = 300  # on a machine where a head takes a minute to start


def head_killed_and_back() -> Row:
    """[27] The head is killed; its GCS kept its state in RocksDB. Appends of clients go on while it
    is away, an owner is killed meanwhile, and the head starts again where it was."""
    with RayNodes(environment={**QUICK, _RECONNECT: str(_PATIENT_S)}, persistent=True) as nodes:
        ready(nodes, "a", "b", "c")
        with World(nodes, "head-back", control="b") as world:
            at_b, at_c = world.write("b"), world.write("c")
            world.progress()
            victim = world.partition_on("c")
            pid = world.owners()[victim]["pid"]
            world.fault()
            nodes.kill("a")
            world.progress(300)  # on both nodes, to both nodes
            during = world.next_append(world.all_sessions)
            os.kill(pid, signal.SIGKILL)
            world.progress(100, world.sessions_on("b"))
            (nodes.folder / "ray" / "ray_current_cluster").unlink(missing_ok=True)
            nodes.start("a", offers=False)
            back = world.since()
            fresh = world.write("b")
            world.progress(50, world.sessions_on("b"), fresh)
            joined = world.since()
            world.progress(100, world.sessions_on("c"), at_b, at_c)
            everything = world.since()
            row = world.finish("head killed, GCS in RocksDB, started again")
            row.next_s = during
            row.notes += [
                f"head back at {back:.1f} s, a new client at {joined:.1f} s",
                f"the owner killed meanwhile served everybody at {everything:.1f} s",
            ]
            world.cold(row)
            return row


def head_killed_for_good() -> Row:
    """[27] The head is killed and nothing of it was kept: the cluster ends. Another one is started
    and the store deployed again: everything is there."""
    with RayNodes() as nodes:
        ready(nodes, "a")
        nodes.settings[_RECONNECT] = str(_RECONNECT_S)
        ready(nodes, "b", "c")
        with World(nodes, "head-gone", control="b") as world:
            before = [world.write("b"), world.write("c")]
            world.progress()
            pids = [owner["pid"] for owner in world.owners()]
            world.fault()
            nodes.kill("a")
            until(lambda: not any(map(lives, pids)), "the owners to end with their cluster")
            ended = world.since()
            late = [t for w in before for s in w.sessions for t in w.acks(s) if t > world.fault_ns]
            for name in ("b", "c"):
                nodes.kill(name)
            world.control.close()
            shutil.rmtree(nodes.folder / "ray", ignore_errors=True)
            del nodes.settings[_RECONNECT]
            ready(nodes, "a", "b", "c")
            world.control = Control(nodes, "b")
            world.control("deploy", name=world.name, plan=world.plan)
            world.write("c")
            world.progress(100, None, world.writers[-1])
            row = world.finish("head killed, nothing kept, deployed again", killed=before)
            row.detected_s, row.next_s = ended, world.next_append(world.all_sessions)
            last = (max(late, default=world.fault_ns) - world.fault_ns) / 1e9
            row.notes.append(f"{len(late)} acknowledged without a head, the last at {last:.1f} s")
            row.notes += [f"writer {w.name}: {w.ends()}" for w in before]
            world.cold(row)
            return row
