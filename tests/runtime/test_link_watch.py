"""What errors say about the link to Ray."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neverforget.runtime.link_watch import LinkWatch
from neverforget.storage.errors import Unavailable

if TYPE_CHECKING:
    from neverforget.actors.ray_link import Trouble


def test_a_trouble_of_long_ago_is_not_what_is_wrong_now() -> None:
    """The head had been away in the morning. In the evening an owner died, and whoever called it
    was told that there was no link."""
    now_s = 1000.0
    found: list[Trouble | None] = ["not connected", None]
    watch = LinkWatch(lambda: found.pop(0), lambda: now_s)
    error = Unavailable("owner p0 did not answer", outcome="unknown")
    assert watch.explained(error) is error, "nothing is known yet"
    with watch._looking:  # until it has looked
        pass
    assert "not connected to Ray" in watch.explained(error).message
    now_s += 3600.0
    assert watch.explained(error) is error


def test_a_token_that_is_missing_is_told_from_a_cluster_that_is() -> None:
    """Ray's error says "Failed to connect", and what was wrong stands two causes behind it. People
    were told to start a cluster, where they only had to set RAY_AUTH_MODE."""
    from neverforget.actors.ray_link import not_joined

    try:
        try:
            raise RuntimeError("InvalidAuthToken: Authentication token is missing or incorrect")
        except RuntimeError as cause:
            raise ConnectionError("Failed to connect to Ray cluster at h:6379") from cause
    except ConnectionError as error:
        found = not_joined("h:6379", error)
    assert "RAY_AUTH_MODE=token" in found.message and "start one" not in found.message
    assert "start one" in not_joined("h:6379", ConnectionError("Connection refused")).message
