"""What a member of the embedder pool is told when it is made; loads nothing that embeds."""

from __future__ import annotations

from neverforget.actors.owner_spec import OwnerSpec


class EmbedderSpec(OwnerSpec, frozen=True, kw_only=True):
    """``directory`` is "": it has none. ``member``: 0, 1, …"""

    member: int = 0
