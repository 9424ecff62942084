"""How long a reflector leaves alone what went wrong."""

from __future__ import annotations

from typing import Final

PAUSE_S_MIN = 1.0
PAUSE_S_MAX: Final = 60.0
AWAY_S_MAX: Final = 600.0  # while what the extractor asks is away


def pause_after(times: int, most: float = PAUSE_S_MAX) -> float:
    """Seconds; ``times``: how often it has gone wrong, from 1 on."""
    return float(min(most, PAUSE_S_MIN * 2.0 ** min(times - 1, 30)))
