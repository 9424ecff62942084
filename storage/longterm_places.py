"""Where memories are: their namespaces."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np

from neverforget.storage.errors import InvalidArgument
from neverforget.storage.longterm_fields import any_id
from neverforget.storage.longterm_filters import within
from neverforget.storage.longterm_results import Namespace, Status
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.region_options import RegionOptions
from neverforget.storage.window_parts import check_limit


class LongTermPlaces:
    """A part of ``LongTermRegion``."""

    _state: LongTermState
    _options: RegionOptions

    def namespace_of(self, memory_id: str) -> Namespace | None:
        """Of any memory that ever was, whatever became of it; None for one that is unknown."""
        wanted = any_id(memory_id)
        row = None if wanted is None else self._state.table.find(wanted)
        if row is None:
            return None
        table = self._state.table
        found: Namespace = table.namespaces.values[table.get(row, "namespace")]
        return found

    def namespaces(
        self, prefix: Namespace, max_depth: int | None, after: Namespace | None, limit: int
    ) -> tuple[list[Namespace], bool]:
        """Distinct namespaces of active and archived memories at or below ``prefix``, cut to
        ``max_depth`` elements in all, sorted, after ``after``; and whether there are more.
        """
        check_limit(limit)
        if max_depth is not None and max_depth < len(prefix):
            raise InvalidArgument(f"max_depth {max_depth} is above the prefix, {len(prefix)} deep")
        limit = min(limit, self._options.scan_records_max)
        found = list(islice(self._after(tuple(prefix), max_depth, after), limit + 1))
        return found[:limit], len(found) > limit

    def _after(
        self, prefix: Namespace, max_depth: int | None, after: Namespace | None
    ) -> Iterator[Namespace]:
        table = self._state.table
        living = table.column("status") <= Status.ARCHIVED
        used = np.bincount(table.column("namespace")[living], minlength=1)
        held = (table.namespaces.values[code] for code in np.flatnonzero(used).tolist())
        cut = {each[:max_depth] for each in held if within(each, prefix)}
        return (each for each in sorted(cut) if after is None or each > tuple(after))
