"""What is done on a node for somebody elsewhere, and goes wrong there."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from neverforget.runtime import deployed_cluster
from neverforget.storage.errors import NeverforgetError, Unavailable, UnsupportedFormat


def not_installed() -> None:
    raise ModuleNotFoundError("No module named 'neverforget'")


def refused() -> None:
    raise UnsupportedFormat("a part of another store")


def slow() -> None:
    threading.Event().wait()


def test_what_goes_wrong_on_one_node_is_an_error_of_ours_to_who_asked(ray_local: Any) -> None:
    """A node that offered the resource and could not run our code raised Ray's error in the keeper,
    which then looked after no node at all: no host was started again, nothing was moved."""
    node = ray_local.get_runtime_context().get_node_id()
    with pytest.raises(
        NeverforgetError, match=r"cannot do .* No module named 'neverforget'"
    ) as told:
        deployed_cluster.on_node(node, not_installed)
    assert type(told.value) is NeverforgetError
    with pytest.raises(UnsupportedFormat, match="another store"):
        deployed_cluster.on_node(node, refused)


def test_who_waited_in_vain_is_told_how_long_and_what_to_do(ray_local: Any) -> None:
    """ "The keeper does not answer: Get timed out: some object(s) not ready."""
    node = ray_local.get_runtime_context().get_node_id()
    with pytest.raises(Unavailable, match=r"within 1 s.*neverforget status") as told:
        deployed_cluster.on_node(node, slow, wait_s=1.0)
    assert told.value.outcome == "unknown"
