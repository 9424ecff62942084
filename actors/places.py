"""Where a request goes, and who a Welcome is from: a partition by its number, 0 and up, or one of
these."""

from __future__ import annotations

from typing import Final

HOST: Final = -1  # the host itself
LONGTERM: Final = -2  # the owner of the long-term memories
EMBEDDER: Final = -3  # the first of the embedder pool, -4 the second, ...
REFLECTOR: Final = -1000  # the reflector
