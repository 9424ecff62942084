"""The records of working memories as the file holds them; ``FORMAT.md`` describes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cbor2
import pytest

from neverforget.storage.errors import Corrupt
from neverforget.storage.format import Kind
from neverforget.storage.longterm_fields import Body, id_in, packed_id
from neverforget.storage.working_bodies import change_in, place_in, state_in
from neverforget.storage.working_results import WorkingPlace
from tests.storage.small_longterm import LongTermBench, longterm
from tests.storage.small_working import records_from, told, work

AGENT, GROUP = WorkingPlace(("n",), "ann", False), WorkingPlace(("n",), "crew", True)
GOLDEN_DIGESTS = ("3be0e6aeacb0313980108f096d0be1ae", "756826346357c6638880bab59a51a4ab")
GOLDEN_WORKED = (
    "a80981616e0763616e6e0366746573746572182966726563616c6c1550018f000000017000800000"
    "0000000001182a50018f0000000270008000000000000002182b811902bc1448634c4028fbab63fb"
)
GOLDEN_STATE = (
    "a60981616e0763616e6e182e1903e8182a5834018f0000000170008000000000000001b802000000"
    "00000003401e18240a06000a401e18240a0600900100000800000000000000182f818263616e6e1b"
    "00060a24181e400214488ad450ba53c00a71"
)


@pytest.fixture
def b(tmp_path: Path) -> Iterator[LongTermBench]:
    with longterm(tmp_path / "lt") as opened:
        yield opened


def packed(memory_id: str) -> bytes:
    return bytes.fromhex(memory_id.replace("-", ""))


def test_the_records_of_a_working_memory_are_these(b: LongTermBench) -> None:
    one, two = told(b, 400).id, told(b, 700).id
    start = b.region.log_end
    work(b, "add", one, place=AGENT, pinned=False)
    work(b, "recall", two, place=AGENT)
    work(b, "pin", two, place=AGENT)
    work(b, "join", place=GROUP, agent="bob", max_tokens=9)
    b.revise(two, text="shorter")
    b.forget(two)
    found = [(h.kind, h.role, cbor2.loads(body)) for h, body in records_from(b, start)]
    request = [body.pop(20) for _, _, body in found if 20 in body]
    assert len(request) == 6
    mine, crew = {3: "tester", 9: ["n"], 7: "ann"}, {3: "tester", 9: ["n"], 40: "crew"}
    worked = [(role, body) for kind, role, body in found if kind == Kind.WORKED]
    assert worked == [
        (0, mine | {41: "add", 42: packed(one), 43: [400], 46: 1000}),
        (1, mine | {41: "recall", 42: packed(two), 43: [700], 21: packed(one)}),
        (0, mine | {41: "pin", 42: packed(two)}),
        (0, crew | {41: "join", 46: 9, 47: "bob"}),
        (0, mine | {41: "revise", 42: packed(two), 43: [7]}),
        (0, mine | {41: "gone", 45: packed(two)}),
    ]
    kinds = [kind for kind, _, _ in found]
    assert kinds[4:6] == [Kind.REVISED, Kind.WORKED]
    assert kinds[6:8] == [Kind.FORGOTTEN, Kind.WORKED]
    about = {packed_id(id_in(h)).hex() for h, _ in records_from(b, start) if h.kind == Kind.WORKED}
    assert sorted(about) == sorted(GOLDEN_DIGESTS)
    header, body = records_from(b, start)[1]
    assert (int(header.kind), body.hex()) == (27, GOLDEN_WORKED)


def test_the_state_of_a_working_memory_is_this(b: LongTermBench) -> None:
    one = told(b, 400).id
    start = b.region.log_end
    work(b, "join", place=AGENT, agent="ann", max_tokens=9)
    for _ in range(20):
        work(b, "recall", one, place=AGENT)
    states = [(h, body) for h, body in records_from(b, start) if h.kind == Kind.WORKING_STATE]
    assert len(states) == 2
    header, body = states[0]
    said = cbor2.loads(body)
    del said[20]
    assert said.keys() == {9, 7, 46, 42, 47}
    assert (len(said[42]), said[42][:16]) == (52, packed(one))
    assert (int(header.kind), header.role, body.hex()) == (28, 0, GOLDEN_STATE)


def test_bodies_that_say_nothing_are_corrupt() -> None:
    place = {9: ["n"], 7: "ann"}
    wrong: Body
    for wrong in ({}, {9: "n", 7: "ann"}, {9: [1], 7: "ann"}, {9: [], 40: 1}):
        with pytest.raises(Corrupt):
            place_in(wrong)
    for wrong in (
        {},
        {41: 1},
        {41: "add", 42: bytes(16)},
        {41: "add", 42: bytes(15), 43: [1]},
        {41: "add", 42: bytes(16), 43: [-1]},
        {41: "pin", 42: bytes(16), 43: [1]},
        {41: "join", 46: "9"},
        {41: "join", 47: 1},
    ):
        with pytest.raises(Corrupt):
            change_in(place | wrong)
    for wrong in ({}, {46: 1, 42: bytes(51), 47: []}, {46: 1, 42: b"", 47: [1]}, {46: 1, 42: b""}):
        with pytest.raises(Corrupt):
            state_in(place | wrong)
