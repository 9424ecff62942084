"""How many descriptors a process of ours may hold: as many as the system lets it.

Every segment of a log holds one (its map does), and the side file of a sealed one another. The
usual soft limit of 1,024, which is there for programs that call ``select``, would be met at 30 GiB
of log.
"""

from __future__ import annotations

import contextlib
import resource


def raise_descriptor_limit() -> None:
    """Raise the soft limit of this process to the hard one. For processes of our own only."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS: the hard limit may be more than it lets
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
