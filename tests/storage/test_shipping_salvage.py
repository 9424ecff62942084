"""Which of the records that were set aside are carried out again, and how."""

from __future__ import annotations

import numpy as np
import pytest

from neverforget.storage.format import Kind, RecordFlag
from neverforget.storage.head_array import HEAD_DTYPE
from neverforget.storage.shipping_salvage import FATES, Array, Fate, plan_salvage

FIRST, MORE = int(RecordFlag.BATCH_FIRST), int(RecordFlag.BATCH_MORE)


def heads(*rows: dict[str, int]) -> Array:
    made = np.zeros(len(rows), HEAD_DTYPE)
    for row, fields in enumerate(rows):
        for name, value in fields.items():
            made[name][row] = value
    return made


def turn(ident: int, **fields: int) -> dict[str, int]:
    """As its client made it: request and body; the rest is the owner's."""
    usual = {"kind": int(Kind.TURN), "producer_id": 77, "producer_seq": ident, "body_crc": ident}
    return usual | {"flags": FIRST, "session_id": 5, "timestamp": 1_000 + ident, **fields}


def again(aside: Array, *later: Array) -> list[tuple[int, Fate]]:
    return [(salvage.row, salvage.fate) for salvage in plan_salvage(aside, later).again]


def test_every_kind_of_record_has_a_fate() -> None:
    assert FATES.keys() == set(Kind)


def test_what_did_not_come_again_is_carried_out_in_order() -> None:
    aside = heads(turn(1), turn(2), turn(3))
    later = heads(turn(2, sequence_id=9, epoch=8, session_id=6, durable_back=4, header_crc=1))
    plan = plan_salvage(aside, [later])
    assert [(s.row, s.fate) for s in plan.again] == [(0, Fate.APPEND), (2, Fate.APPEND)]
    assert (plan.came_again, plan.dropped) == (1, 0)


@pytest.mark.parametrize("field", ["producer_id", "producer_seq", "body_crc", "timestamp", "role"])
def test_a_record_that_differs_in_what_its_client_gave_is_another(field: str) -> None:
    aside = heads(turn(1))
    assert again(aside, heads(turn(1, **{field: 123}))) == [(0, Fate.APPEND)]


def test_of_two_that_are_alike_one_is_taken_for_each() -> None:
    """One request may hold the same words twice."""
    aside = heads(turn(1), turn(1), turn(1))
    assert len(again(aside, heads(turn(1)), heads(turn(9), turn(1)))) == 1


def test_salvaging_twice_finds_nothing_to_do() -> None:
    aside = heads(turn(1), turn(2), {"kind": int(Kind.REFUSED), "body_crc": 3, "timestamp": 4})
    assert len(again(aside)) == 3
    assert again(aside, aside) == []


def test_a_hide_that_was_translated_is_known_by_its_request() -> None:
    hidden = turn(1, kind=int(Kind.HIDDEN))
    assert again(heads(hidden), heads(hidden | {"body_crc": 99, "body_length": 7})) == []
    assert len(again(heads(hidden), heads(hidden | {"producer_seq": 2}))) == 1


def test_marks_are_dropped_and_hides_translated() -> None:
    kinds = [Kind.MARK, Kind.HIDDEN, Kind.FORK, Kind.NOOP, Kind.ERASING, Kind.ERASED, Kind.PLANNED]
    aside = heads(*[{"kind": int(kind), "body_crc": n} for n, kind in enumerate(kinds)])
    plan = plan_salvage(aside, [])
    assert [(kinds[s.row], s.fate) for s in plan.again] == [
        (Kind.HIDDEN, Fate.TRANSLATE),
        (Kind.FORK, Fate.TRANSLATE),
        (Kind.ERASING, Fate.ERASE),
    ]
    assert plan.dropped == 4


def test_a_chunking_is_dropped_with_its_whole_batch() -> None:
    """It is derived from its original, and is made again with the same ids."""
    remembered = {"kind": int(Kind.REMEMBERED), "body_crc": 1}
    chunked = {"kind": int(Kind.CHUNKED), "body_crc": 2}
    aside = heads(
        remembered | {"flags": FIRST},
        remembered | {"flags": FIRST | MORE, "body_crc": 3},
        remembered | {"flags": MORE, "body_crc": 4},
        chunked,
        remembered | {"flags": FIRST, "body_crc": 5},
    )
    assert again(aside) == [(0, Fate.APPEND), (4, Fate.APPEND)]
    assert plan_salvage(aside, []).dropped == 3


def test_nothing_set_aside_is_nothing_to_do() -> None:
    assert plan_salvage(heads(), [heads(turn(1))]) == ([], 0, 0)


def test_a_kind_of_a_newer_version_is_not_dropped_in_silence() -> None:
    assert again(heads({"kind": 250, "body_crc": 1})) == [(0, Fate.APPEND)]
