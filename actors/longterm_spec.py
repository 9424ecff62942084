"""What the owner of the long-term store is told when it is made; loads nothing that searches."""

from __future__ import annotations

from neverforget.actors.fusion import FusionConfig
from neverforget.actors.owner_spec import OwnerSpec


class LongTermSpec(OwnerSpec, frozen=True, kw_only=True):
    """``directory``: that of the long-term region. ``embedder``, ``summarizer``: the names of the
    store's. ``chunker_processes``: how many chunkers there may be. ``tokenizer``: what counts the
    tokens of working memories.
    """

    shard: int = 0
    embedder: str = "none"
    fusion: FusionConfig = FusionConfig()
    chunk_over_characters: int = 2_000
    chunker_processes: int = 2
    summarizer: str = "none"
    tokenizer: str = "estimate"
