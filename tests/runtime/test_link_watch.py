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
