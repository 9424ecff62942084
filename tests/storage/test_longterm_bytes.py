"""The bytes of long-term records, pinned: FORMAT.md describes them."""

from __future__ import annotations

from pathlib import Path

import cbor2
import numpy as np

from neverforget.storage.format import Kind
from neverforget.storage.longterm_fields import id_in, id_text, parse_id
from neverforget.storage.longterm_results import NewRelation, TurnPoint
from neverforget.storage.record import body_of, read_header
from neverforget.storage.row_index import RowIndex
from tests.storage.small_longterm import longterm, memory_id

ID = "018f1234-5678-7abc-8def-0123456789ab"


def test_an_id_stands_in_three_fields_of_the_header() -> None:
    wanted = parse_id(ID)
    assert wanted == (0x018F123456787ABC, 0x8DEF0123, 0x456789AB)
    assert id_text(wanted) == ID


def test_bodies_are_maps_with_these_keys(tmp_path: Path) -> None:
    with longterm(tmp_path / "lt") as b:
        turns = TurnPoint(("n",), "chat", 1, 2)
        new = b.new("tea", key="k", tags=("a:b",), namespace=("n",), occurred_at=5)
        told = b.remember_many(
            *(b.new("x"), new), b.new("y", related_to=(NewRelation(turns, "from", 0.5),))
        )
        revised = b.revise(new.id, text="cocoa", confidence=0.5)
        b.tag(new.id, "c")
        forgotten = b.forget(new.id, reason="why")
        read = [b.region._log.read(m.position) for m in (*told.memories[:2], revised)]
        headers = [read_header(record) for record in read]
        bodies = [cbor2.loads(body_of(record)) for record in read]
        assert [h.kind for h in headers] == [Kind.REMEMBERED, Kind.REMEMBERED, Kind.REVISED]
        assert [id_text(id_in(h)) for h in headers[1:]] == [new.id, new.id]
        assert len(bodies[0].pop(20)) == 8, "the first of a batch holds what was asked"
        assert bodies[0] == {0: "x", 2: "fact", 4: 1.0, 5: 1.0, 18: "tester"}
        said = {0: "tea", 1: "k", 2: "fact", 3: ["a:b"], 4: 1.0, 5: 1.0, 9: ["n"], 11: 5}
        assert bodies[1] == said | {18: "tester"}
        del bodies[2][20]
        assert bodies[2] == said | {
            0: "cocoa", 5: 0.5, 15: 2, 16: told.memories[1].position,
            17: told.memories[1].created_at, 18: "tester",
        }  # fmt: skip
        assert forgotten.entry is not None
        record = b.region._log.read(forgotten.entry.position)
        assert read_header(record).kind == Kind.FORGOTTEN
        body = cbor2.loads(body_of(record))
        assert (body[3], body[22], body[12]) == ("tester", b"", bytes(16))
        assert body[21] == bytes.fromhex(new.id.replace("-", ""))
        assert body[32].hex() == "4779ac0c4653a972f8fdaf2b0b7c7c23"
        behind = forgotten.entry.position + len(record)
        record = b.region._log.read(behind + -behind % 8)
        assert read_header(record).kind == Kind.ASKED
        assert cbor2.loads(body_of(record)) == {4: "why"}


def test_a_row_index_answers_as_a_dict_of_lists() -> None:
    index, model = RowIndex(), dict[int, list[int]]()
    numbers = [(n * 7919) % 50 + (2**63 if n % 3 else 0) for n in range(400)]
    for row, number in enumerate(numbers):
        index.add(number, row)
        model.setdefault(number, []).append(row)
        if row % 97 == 0:
            index._merge()
    more = np.array([3, 2**63, 3], np.uint64)
    index.extend(more, np.array([900, 901, 902], np.uint32))
    for number, row in zip(more.tolist(), (900, 901, 902), strict=True):
        model.setdefault(number, []).append(row)
    assert {n: index.find(n) for n in model} == model
    assert index.find(10**9) == []
    wanted = [3, 2**63, 77]
    assert sorted(index.find_each(np.array(wanted, np.uint64))[1].tolist()) == sorted(
        row for n in wanted for row in model.get(n, [])
    )
    assert len(index) == 403


def test_ids_count_in_time_order() -> None:
    assert parse_id(memory_id(1)) < parse_id(memory_id(2)) < parse_id(memory_id(70_000))
