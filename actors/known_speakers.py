"""Who is known to speak in a namespace, as of one view of the rows."""

from __future__ import annotations

import threading

from neverforget.actors.query_preparation import Speakers
from neverforget.storage.longterm_results import Namespace
from neverforget.storage.longterm_rows import RowsView

_NAMESPACES_MAX = 1_000


class KnownSpeakers:
    """Keeps what was looked up for as long as nothing changes. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: RowsView | None = None
        self._known: dict[Namespace, Speakers] = {}

    def of(self, rows: RowsView, namespace: Namespace) -> Speakers:
        with self._lock:
            if rows is not self._rows or len(self._known) >= _NAMESPACES_MAX:
                self._rows, self._known = rows, {}
            known, held = self._known, self._known.get(namespace)
        if held is None:
            held = known[namespace] = Speakers(rows.speakers_within(namespace))
        return held
