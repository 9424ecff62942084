"""Tables of who owns what: of a status, and of one that is watched."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from neverforget.runtime.cli_render import columns, local, printable

if TYPE_CHECKING:
    from neverforget.runtime.status_values import LongTermInfo, OwnerInfo, ReplicaInfo, Status

STATE_COLOURS = {"serving": "green", "recovering": "yellow", "readonly": "yellow"}
WIDE, WIDER = 120, 132  # columns of a terminal that has room for more
NODE_CHARACTERS = {False: 10, True: 14}  # wide
MEMORIES = "memories"

_NARROW = ("owner", "state", "node", "epoch", "turns", "bytes", "sync", "queue", "lag")
_WIDE = (*_NARROW, "p99", "pid", "via", "restarts")
_WIDER = (*_WIDE, "opened")
_WORDS = ("owner", "state", "node", "via")


def owners_table(found: Status, width: int) -> Table:
    """One row for each partition, one for the memories; all of it in ``width`` columns."""
    wide = width >= WIDE
    names = _WIDER if width >= WIDER else _WIDE if wide else _NARROW
    table = columns(*names, right=tuple(name for name in names if name not in _WORDS))
    for column in table.columns:
        column.no_wrap = True
    for row in (*map(_partition_row, found.owners), _memories_row(found.longterm)):
        row["node"] = _short(str(row["node"]), NODE_CHARACTERS[wide])
        table.add_row(*(row.get(name, "") for name in names))
    return table


def _partition_row(owner: OwnerInfo) -> dict[str, str | Text]:
    return _common_row(owner) | {
        "owner": str(owner.partition),
        "turns": f"{owner.turns:,}",
        "restarts": str(owner.restarts),
    }


def _memories_row(longterm: LongTermInfo) -> dict[str, str | Text]:
    return _common_row(longterm) | {"owner": MEMORIES, "turns": f"{longterm.memories:,}"}


def _common_row(owner: OwnerInfo | LongTermInfo) -> dict[str, str | Text]:
    return {
        "state": state_text(owner.state),
        "node": printable(owner.node) or "-",
        "epoch": str(owner.epoch),
        "bytes": short_size(owner.log_bytes),
        "sync": duration(owner.sync_p50_s),
        "queue": f"{owner.queue:,}",
        "lag": _lag(owner.replica),
        "p99": duration(owner.sync_p99_s),
        "pid": str(owner.pid) if owner.pid else "-",
        "via": owner.through,
        "opened": duration(owner.recovery_s),
    }


def state_text(state: str) -> Text:
    return Text(state, STATE_COLOURS.get(state, "red"))


def _short(name: str, characters: int) -> str:
    """Without its domain, and a long one by its end: where the nodes of one cluster differ."""
    first = name.partition(".")[0]
    name = name if first.isdecimal() else first or name
    return name if len(name) <= characters else "…" + name[1 - characters :]


def _lag(replica: ReplicaInfo | None) -> Text | str:
    """How old the oldest is that is not shipped; "-": nothing is to be shipped."""
    if replica is None:
        return "-"
    return Text(
        duration(replica.lag_s) if replica.lag_bytes else "0 s", "red" * bool(replica.error)
    )


def duration(seconds: float) -> str:
    """In four or five characters: 0.08 ms, 12 ms, 3.4 s, 5 min."""
    if seconds <= 0:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.2f} ms" if seconds < 0.001 else f"{seconds * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:,.0f} min" if seconds < 5400 else f"{seconds / 3600:,.0f} h"


def short_size(count: float) -> str:
    """In few characters: 512, 64.0K, 1.2G."""
    if count < 1024:
        return f"{count:,.0f}"
    for unit in ("K", "M", "G"):
        count /= 1024
        if count < 1024:
            return f"{count:.3g}{unit}" if count < 1000 else f"{count:.0f}{unit}"
    return f"{count / 1024:,.1f}T"


def last_errors(found: Status) -> Table | None:
    """What went wrong and when, newest first; None: nothing that is known."""
    each = [(str(owner.partition), owner.last_error_at, owner.last_error) for owner in found.owners]
    each.append((MEMORIES, found.longterm.last_error_at, found.longterm.last_error))
    known = [(at, name, error) for name, at, error in each if at is not None and error is not None]
    if not known:
        return None
    table = columns("owner", "last error", "at")
    now = datetime.now(UTC)
    for at, name, error in sorted(known, reverse=True):
        ago = duration(max(1.0, (now - at).total_seconds()))
        table.add_row(name, printable(error), f"{local(at, seconds=True)} UTC, {ago} ago")
    return table
