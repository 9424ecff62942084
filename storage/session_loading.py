"""Filling a session index from headers: a few numpy passes over a chunk of the log, then one step
per session, none per turn.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neverforget.storage.format import Kind, RecordFlag
from neverforget.storage.session_index import Session, SessionIndex

Heads = NDArray[Any]
Positions = NDArray[np.uint64]
Flags = NDArray[np.bool_]
Groups = NDArray[np.signedinteger[Any]]


def load_turns(index: SessionIndex, heads: Heads, positions: Positions) -> list[tuple[int, str]]:
    """Enter every turn among ``heads``, which follow what the index holds in log order.

    Answers (position, what is wrong) for turns that cannot be where they are: a seq that its
    session has already. Such a record stays out of the index; the first one counts.
    """
    turns = heads["kind"] == Kind.TURN
    if not turns.all():
        heads, positions = heads[turns], positions[turns]
    if not len(heads):
        return []
    # Stable: within a session the log's order stays.
    order = np.argsort(heads["session_id"], kind="stable")
    ids = heads["session_id"][order]
    seqs = heads["sequence_id"][order].astype(np.int64)
    places = np.asarray(positions, np.uint64)[order]
    calls = (heads["flags"][order] & int(RecordFlag.CALLS)) != 0
    starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
    stops = np.append(starts[1:], len(ids))

    sessions = [
        index.get_or_make(session_id, place)
        for session_id, place in zip(ids[starts].tolist(), places[starts].tolist())
    ]
    rows = np.empty((len(ids), 2), np.uint64)
    rows[:, 0] = places
    rows[:, 1] = _running_sums(heads["token_count"][order], sessions, starts, stops)
    contiguous = _contiguous(seqs, sessions, starts, stops)
    first_calls = _first_true(calls, starts, stops)

    problems: list[tuple[int, str]] = []
    view = memoryview(rows.data).cast("B")
    groups = zip(
        sessions,
        starts.tolist(),
        stops.tolist(),
        contiguous.tolist(),
        first_calls.tolist(),
    )
    for session, start, stop, plain, call in groups:
        if not plain:
            group = slice(start, stop)
            problems += _load_with_gaps(session, seqs[group], rows[group])
        else:
            grown = array("Q")
            grown.frombytes(view[start * 16 : stop * 16])
            session.rows = session.rows + grown  # exactly as large as needed; extending is not
        if call >= 0 and session.first_call is None:
            session.first_call = int(seqs[call])
    index.turns += len(ids) - len(problems)
    return problems


def _running_sums(
    tokens: Heads, sessions: Sequence[Session], starts: Groups, stops: Groups
) -> NDArray[np.uint64]:
    """Token sums including each turn, going on from what each session holds already."""
    running = np.cumsum(tokens, dtype=np.uint64)
    before = np.concatenate((np.zeros(1, np.uint64), running))[starts]
    held = np.array([session.rows[-1] for session in sessions], np.uint64)
    # Modulo 2**64 the difference may wrap; the sum of the two does not.
    return running + np.repeat(held - before, stops - starts)


def _contiguous(
    seqs: NDArray[np.int64], sessions: Sequence[Session], starts: Groups, stops: Groups
) -> Flags:
    """For each group: does it go on where its session ends, without a gap?"""
    ends = np.array([session.end for session in sessions], np.int64)
    steps = np.ones(len(seqs), np.bool_)
    steps[1:] = seqs[1:] == seqs[:-1] + 1
    steps[starts] = seqs[starts] == ends
    return np.logical_and.reduceat(steps, starts)


def _first_true(values: Flags, starts: Groups, stops: Groups) -> NDArray[np.int64]:
    """The place of the first true value of each group, -1 where there is none."""
    places = np.flatnonzero(values)
    if not len(places):
        return np.full(len(starts), -1, np.int64)
    at = np.searchsorted(places, starts)
    found = places[np.minimum(at, len(places) - 1)]
    return np.where((at < len(places)) & (found < stops), found, -1)


def _load_with_gaps(
    session: Session, seqs: NDArray[np.int64], rows: NDArray[np.uint64]
) -> list[tuple[int, str]]:
    problems = []
    for seq, (position, running) in zip(seqs.tolist(), rows.tolist()):
        end = session.end
        if seq < end:
            problems.append((position, f"seq {seq} of session {session.session_id:016x} again"))
            continue
        if seq > end:
            session.skip_to(seq)
        session.rows.extend((position, running))
    return problems
