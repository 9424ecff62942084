"""What is done on a node for somebody elsewhere, and goes wrong there."""

from __future__ import annotations

from typing import Any

import pytest

from neverforget.runtime import deployed_cluster
from neverforget.storage.errors import NeverforgetError, UnsupportedFormat


def not_installed() -> None:
    raise ModuleNotFoundError("No module named 'neverforget'")


def refused() -> None:
    raise UnsupportedFormat("a part of another store")


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
