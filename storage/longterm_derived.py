"""What goes with memories that are erased: what was made from them, and from nothing else."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from neverforget.storage.longterm_relation_reads import DERIVED_FROM
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.memory_table import NO_ROW, Array


class Going(NamedTuple):
    """``rows``: who goes, ascending. ``flagged``: rows of what was derived from them and from
    others.
    """

    rows: Array
    flagged: Array


def derived_from(state: LongTermState, rows: Array) -> Going:
    """These, their chunks and summaries, and what was derived only from what goes."""
    table, alive = state.table, state.table.alive()
    sources, targets, derives = _derivations(state)
    doomed, flagged = np.zeros(table.count, np.bool_), np.zeros(table.count, np.bool_)
    waiting = np.zeros(table.count, np.bool_)
    waiting[rows] = True
    while waiting.any():
        # An older store may hold what was derived from a chunk.
        waiting |= alive & _made_from(table.column("original"), waiting)
        doomed |= waiting
        near = np.zeros(table.count, np.bool_)
        near[sources[derives & _at(waiting, targets)]] = True
        near &= ~doomed
        flagged |= near
        # Only whom the last step has robbed of a source may be left without any.
        has_other = np.zeros(table.count, np.bool_)
        has_other[sources[~_at(doomed, targets)]] = True
        waiting = near & alive & ~has_other
    return Going(np.flatnonzero(doomed), np.flatnonzero(flagged & ~doomed & alive))


def _derivations(state: LongTermState) -> tuple[Array, Array, Array]:
    """(source, target, whether it is a derivation) of what memories were derived from: others, or
    turns, whatever the kind of that relation.
    """
    relations = state.relations
    code = relations.kinds.known(DERIVED_FROM)
    derives = relations.column("kind") == (-1 if code is None else code)
    counts = relations.column("alive") & (derives | (relations.column("target") < 0))
    sources = relations.column("source")[counts].astype(np.int64)
    targets = relations.column("target")[counts]
    return sources, targets, derives[counts] & (targets >= 0)


def _at(mask: Array, targets: Array) -> Array:
    """Whether it holds for each of ``targets``; for turns it does not."""
    found: Array = (targets >= 0) & mask[np.maximum(targets, 0)]
    return found


def _made_from(originals: Array, mask: Array) -> Array:
    made = np.zeros(len(originals), np.bool_)
    rows = np.flatnonzero(originals != NO_ROW)
    made[rows] = mask[originals[rows]]
    return made
