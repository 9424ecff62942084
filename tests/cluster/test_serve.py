"""Replicas of Ray Serve, actors and tasks connect to a deployed store, from any node."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.cluster.cluster_nodes import RayNodes
from tests.conftest import ROOT


def test_serve_replicas_actors_and_tasks_connect_from_any_node(ray_nodes: RayNodes) -> None:
    """Plain and asynchronous deployments with two replicas each, on a node that has the store and
    on one that has not; actors and asynchronous actors and tasks there as well. A replica and an
    owner are killed. What was acknowledged is there once, where it was said to be."""
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.serve_replicas", ray_nodes.address, "a", "b"],
        cwd=ROOT,
        env=ray_nodes.environment("a"),
        stdout=subprocess.PIPE,
        text=True,
    )
    output, _ = driver.communicate()
    assert driver.returncode == 0, output
    found = json.loads(output.splitlines()[-1])
    assert found["through"] == {
        "plain-a": ["ray"],
        "async-a": ["ray"],
        "plain-b": ["socket"],
        "async-b": ["socket"],
    }
    assert found["survived"] and not found["wrong"]
    assert found["acknowledged"] == 40 * (4 + 6 + 2)
