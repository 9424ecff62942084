"""How the reflector reaches the owners of its store from a process of its own: its host outlives
it, so addresses never change.
"""

from __future__ import annotations

from typing import NamedTuple

from neverforget.runtime.channel import SocketChannel
from neverforget.runtime.endpoint import Endpoint


class HostAddresses(NamedTuple):
    endpoint: Endpoint

    def refresh(self, deadline: float | None = None) -> Endpoint:
        """The same: an owner that went away comes back where it was."""
        return self.endpoint


def channel_to(endpoint: Endpoint) -> SocketChannel:
    """To the owners of the host that ``endpoint`` tells of."""
    return SocketChannel(endpoint.store_id, HostAddresses(endpoint))
