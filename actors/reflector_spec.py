"""What the reflector is told when it is made; loads nothing that extracts."""

from __future__ import annotations

from neverforget.actors.owner_spec import OwnerSpec


class ReflectorSpec(OwnerSpec, frozen=True, kw_only=True):
    """``directory`` is "": it has none. ``extractor``: the name of the store's. ``window_turns``
    and ``window_tokens`` bound a window, before which ``overlap_turns`` are read for context.
    ``deadline_s``: for one extraction; ``tries`` of it, before its range is set aside, and
    ``deaths_max`` of the process meanwhile.
    ``automatic`` False: only what somebody asks for is reflected, not what is due.
    """

    partitions: int
    extractor: str = "rules"
    timezone: str = "UTC"
    threads: int = 2
    window_turns: int = 60
    window_tokens: int = 3000
    overlap_turns: int = 4
    deadline_s: float = 300.0
    tries: int = 3
    deaths_max: int = 5
    automatic: bool = True
