"""What the owner of the long-term store is told when it is made; loads nothing that searches."""

from __future__ import annotations

from neverforget.actors.fusion import FusionConfig
from neverforget.actors.owner_spec import OwnerSpec


class LongTermSpec(OwnerSpec, frozen=True, kw_only=True):
    """``directory``: that of the long-term region. ``embedder``: the name of the store's."""

    shard: int = 0
    embedder: str = "none"
    fusion: FusionConfig = FusionConfig()
