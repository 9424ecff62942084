"""Clusters that tests of several modules run on, one for each test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.cluster_nodes import RayNodes, reason_not_to_run


@pytest.fixture
def ray_nodes() -> Iterator[RayNodes]:
    """A head "a" that offers nothing and a node "b"."""
    if reason := reason_not_to_run():
        pytest.skip(reason)
    with RayNodes() as nodes:
        nodes.start("a", offers=False)
        nodes.start("b")
        yield nodes
