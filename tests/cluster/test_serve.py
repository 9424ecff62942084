"""Replicas of Ray Serve, actors and tasks connect to a deployed store, from any node."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.cluster.cluster_nodes import RayNodes
from tests.conftest import ROOT


def test_serve_replicas_actors_and_tasks_connect_from_any_node(ray_nodes: RayNodes) -> None:
    """A plain deployment on a node that has the store, an asynchronous one on a node that has not,
    with two replicas each; actors and asynchronous actors and tasks there as well. A replica and an
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
    assert found["through"] == {"plain-b": ["socket"], "async-a": ["ray"]}
    assert found["survived"] and not found["wrong"]
    assert found["acknowledged"] == 40 * (2 + 6 + 2)
