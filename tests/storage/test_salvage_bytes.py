"""The bytes of a SALVAGED record's body, as ``FORMAT.md`` has them, and what is no such body."""

from __future__ import annotations

import cbor2
import pytest

from neverforget.storage.content import encode_body
from neverforget.storage.control import read_body
from neverforget.storage.errors import Corrupt
from neverforget.storage.salvage_bodies import (
    Sourced,
    brought_back_body,
    on_record_body,
    salvage_details,
    salvaged_runs,
    sources_in,
)
from neverforget.storage.salvage_reading import decode_piece, encode_piece
from neverforget.storage.salvage_results import Piece

SOURCED = [Sourced(0, (64, 0xAABBCCDD)), Sourced(80, (0x1_0000_0000, 1))]
RUNS = [(5, 6, 3, 2), (9, 9, 4, 0)]


def test_the_body_of_records_that_are_brought_back() -> None:
    raw = encode_body(brought_back_body(SOURCED, RUNS))
    assert raw.hex() == (
        "a3"  # a map of three
        "1821" "5820"  # 33: 32 bytes
        "01000000" "4000000000000000" "ddccbbaa"  # begins where this record ends; position, CRC
        "51000000" "0000000001000000" "01000000"
        "05" "82" "820506" "820909"  # 5: seqs 5..6 and 9
        "13" "82" "820302" "820400"  # 19: were 2.. in epoch 3, and 0 in epoch 4
    )  # fmt: skip
    body = read_body(raw)
    assert list(sources_in(body)) == SOURCED
    assert list(salvaged_runs(body)) == RUNS
    assert list(salvaged_runs({})) == []


def test_the_body_of_what_is_said_about_a_record() -> None:
    body = on_record_body("hidden", {"conflict": "why"}, by="ann", reason="r", source=(64, 7))
    raw = encode_body(body)
    assert cbor2.loads(raw) == {
        9: "hidden", 30: {"conflict": "why"}, 3: "ann", 4: "r",
        33: bytes.fromhex("00000000" "4000000000000000" "07000000"),
    }  # fmt: skip
    assert list(sources_in(body)) == [Sourced(-1, (64, 7))]
    assert salvage_details(body) == {"conflict": "why", "operation": "hidden"}


@pytest.mark.parametrize("body", [{33: b"short"}, {33: 7}])
def test_sources_that_are_not_whole_are_corrupt(body: dict[int, object]) -> None:
    with pytest.raises(Corrupt):
        list(sources_in(body))


@pytest.mark.parametrize("body", [{5: [[1, 2]]}, {5: [[1]], 19: [[1, 2]]}, {5: 1, 19: 2}])
def test_runs_without_their_origins_are_corrupt(body: dict[int, object]) -> None:
    with pytest.raises(Corrupt):
        list(salvaged_runs(body))


def test_a_piece_travels_and_anything_else_is_refused() -> None:
    piece = Piece(7, 8, 0, 64, [[(64, b"bytes")]], [(80, b"header")], 1, True)
    assert decode_piece(encode_piece(piece)) == piece
    for other in (b"", b"\xc1", encode_piece(piece)[:-1]):
        with pytest.raises(Corrupt):
            decode_piece(other)
