"""The answer to an append of turns that are stored already: those turns, as they stand by now."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from neverforget.runtime.arguments import runs_of
from neverforget.runtime.operation import Operation, SessionPlace
from neverforget.runtime.session_reading import own_window
from neverforget.runtime.turn_codec import turn_of_record, turns_of
from neverforget.runtime.values import Turn
from neverforget.storage.errors import NeverforgetError
from neverforget.storage.record import Header, decode_records, read_header


def as_they_stand(
    place: SessionPlace, records: Sequence[tuple[int, bytes]]
) -> Operation[dict[int, Turn]]:
    """The turns that an append found there already, by their index in the request. The owner
    answers with what was written; whether they are hidden by now has to be asked. Another owner may
    answer that: after a failover these seqs can be of other turns.
    """
    turns = {
        index: turn_of_record(record, place.namespace, place.name) for index, record in records
    }
    written = {turns[index].seq: _identity(read_header(record)) for index, record in records}
    session_id = read_header(records[0][1]).session_id
    standing: dict[int, Turn] = {}
    # The turns are stored, which is what the call was for: it must not fail, or be taken for not
    # done, because of a question that comes after.
    with suppress(NeverforgetError):
        for first, last in runs_of(turn.seq for turn in turns.values()):
            while first <= last:
                window = yield from own_window(place, first, last + 1)
                if window.session_id != session_id or window.stop_seq <= first:
                    break  # erased as a whole, its name perhaps in use again
                found = turns_of(window, place.namespace, place.name)
                for turn, (header, _) in zip(found, decode_records(window.records), strict=True):
                    if _identity(header) == written.get(turn.seq):
                        standing[turn.seq] = turn
                first = window.stop_seq
    return {index: standing.get(turn.seq, turn) for index, turn in turns.items()}


def _identity(header: Header) -> tuple[int, int, int]:
    """What a turn keeps when its body is erased, and no other turn at its seq has."""
    return header.producer_id, header.producer_seq, header.body_crc
