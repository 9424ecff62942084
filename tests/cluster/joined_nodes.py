"""A Ray cluster on this machine that this process is a driver of: its nodes have folders of their
own, and functions of a test run on them. ``cluster_nodes``: those that nobody here is a driver of.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import gone, processes_of


class Nodes:
    """A Ray cluster on this machine. ``start`` adds a node that offers a folder of this name;
    ``kill`` ends one as a power cut does, its folder stays."""

    def __init__(self, ray: Any, folder: Path) -> None:
        from ray.cluster_utils import Cluster

        self.ray, self.folder = ray, folder
        quick = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500}
        quick |= {"health_check_timeout_ms": 500, "health_check_failure_threshold": 4}
        self.cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 4,
                "_system_config": quick,
                "include_dashboard": False,
                "include_log_monitor": False,
                "no_monitor": True,
                "object_store_memory": 80 * 1024 * 1024,
                "temp_dir": str(folder / "ray"),
                "resources": {"head": 1},
            },
        )
        self.address = self.cluster.address
        self.nodes: dict[str, Any] = {}

    def start(self, name: str) -> Any:
        node = self.cluster.add_node(
            num_cpus=4,
            include_log_monitor=False,
            object_store_memory=80 * 1024 * 1024,
            resources={"neverforget": 1, name: 1},
            labels={"folder": name},
            env_vars={"NF_DATA": str(self.folder / name)},
        )
        self.nodes[name] = node
        return node

    def kill(self, name: str) -> None:
        node = self.nodes.pop(name)
        self.cluster.remove_node(node, allow_graceful=False)

    def on(self, name: str, work: Any, *arguments: Any) -> Any:
        """What ``work`` returns in a task on that node."""
        task = self.ray.remote(work).options(num_cpus=0, resources={name: 0.01})
        return self.ray.get(task.remote(*arguments))


@contextmanager
def joined(*names: str) -> Iterator[Nodes]:
    """A head that offers nothing, and these nodes; this process is a driver on the head."""
    ray = pytest.importorskip("ray")
    folder = Path(tempfile.mkdtemp(prefix="nfd-"))
    made = Nodes(ray, folder)
    for name in names:
        made.start(name)
    made.cluster.wait_for_nodes()
    ray.init(address=made.address, namespace="neverforget-tests", log_to_driver=False)
    yield made
    ray.shutdown()
    made.cluster.shutdown()
    left = gone(lambda: processes_of(folder))
    shutil.rmtree(folder, ignore_errors=True)
    assert not left, f"Ray left processes behind: {left}"
