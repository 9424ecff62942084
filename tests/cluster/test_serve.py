"""Replicas of Ray Serve, actors and tasks connect to a deployed store, from any node."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.cluster.cluster_nodes import RayNodes, reason_not_to_run
from tests.conftest import ROOT


@pytest.fixture
def nodes() -> Iterator[RayNodes]:
    if reason := reason_not_to_run():
        pytest.skip(reason)
    made = RayNodes()
    made.start("a", offers=False)
    made.start("b")
    yield made
    made.close()


def test_serve_replicas_actors_and_tasks_connect_from_any_node(nodes: RayNodes) -> None:
    """Plain and asynchronous deployments with two replicas each, on a node that has the store and
    on one that has not; actors and asynchronous actors and tasks there as well. A replica and an
    owner are killed. What was acknowledged is there once, where it was said to be."""
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.cluster.serve_replicas", nodes.address, "a", "b"],
        cwd=ROOT,
        env=nodes.environment("a"),
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
