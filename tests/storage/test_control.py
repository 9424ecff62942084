"""Bodies of control records: golden bytes, and values that no program of ours wrote."""

from __future__ import annotations

from typing import Any

import pytest

from neverforget.storage import control
from neverforget.storage.control import ControlField, F
from neverforget.storage.errors import Corrupt
from neverforget.storage.format import Kind
from neverforget.storage.record import encode_body
from neverforget.storage.results import ForkPoint

GOLDEN: list[tuple[dict[int, Any], str]] = [
    (control.opened_body(("a", "b"), "chat", "ann"), "a30082616161620164636861740263616e6e"),
    (control.opened_body((), "chat", None), "a20080016463686174"),
    (control.joined_body("bob"), "a10263626f62"),
    (control.hidden_body([(1, 3)], "me", "why"), "a3058182010303626d650463776879"),
    (
        control.fork_body(ForkPoint(("a",), "chat", 4, 7), 90, "me"),
        "a6008161610164636861740604110707185a03626d65",
    ),
    (control.mark_body(0, 9, "v1"), "a2058182000908627631"),
    (control.planned_body(0, 9, "v1"), "a2058182000908627631"),
    (control.planned_body(0, 9, "v1", 2), "a30581820009086276311202"),
    (control.not_reflected_body(0, 9, "v1", 3), "a30581820009086276311203"),
    (control.reflection_error_body(0, 9, "why"), "a205818200090463776879"),
    (
        control.refused_body("erase", {"session": "chat"}, "me", None),
        "a3096565726173650aa16773657373696f6e646368617403626d65",
    ),
]


@pytest.mark.parametrize(("body", "golden"), GOLDEN, ids=range(len(GOLDEN)))
def test_bodies_are_as_the_format_says(body: dict[int, Any], golden: str) -> None:
    assert encode_body(body).hex() == golden
    assert control.read_body(bytes.fromhex(golden)) == body


def test_the_kinds_of_reflection_are_as_the_format_says() -> None:
    assert (Kind.MARK, Kind.PLANNED, Kind.NOT_REFLECTED) == (4, 25, 26)


def test_ranges_are_packed_and_cut_where_a_length_does_not_fit() -> None:
    packed = control.pack_ranges([(64, 5), (2**40, 2**32 + 1)])
    assert packed.hex() == (
        "4000000000000000" "05000000" "0000000000010000" "ffffffff" "ffffffff00010000" "02000000"
    )  # fmt: skip
    assert control.unpack_ranges(packed) == [(64, 5), (2**40, 2**32 - 1), (2**40 + 2**32 - 1, 2)]


def test_a_salted_digest_depends_on_salt_and_name() -> None:
    salt = bytes(16)
    digest = control.salted_digest(salt, ("a",), "chat")
    assert digest == control.salted_digest(salt, ("a",), "chat")
    assert len({digest, control.salted_digest(b"x" * 16, ("a",), "chat")}) == 2
    assert digest != control.salted_digest(salt, (), "achat")


def test_values_that_cannot_be_meant_are_corrupt() -> None:
    runs, namespace, session = (
        F[f] for f in (ControlField.RUNS, ControlField.NAMESPACE, ControlField.SESSION)
    )
    for bad in (None, 3, [], [[1]], [[2, 1]], [[-1, 1]], [[True, 2]], ["ab"]):
        if bad == []:
            assert list(control.runs({runs: bad})) == []
            continue
        with pytest.raises(Corrupt):
            list(control.runs({runs: bad}))
    for body in ({}, {namespace: "a", session: "b"}, {namespace: [1], session: "b"}):
        with pytest.raises(Corrupt):
            control.named(body)
    with pytest.raises(Corrupt):
        control.named({namespace: [], session: b"b"})
    for value in (None, -1, 1.0, True):
        with pytest.raises(Corrupt):
            control.number({F[ControlField.AT]: value}, ControlField.AT)
    for packed in (b"x" * 11, "text", None):
        with pytest.raises(Corrupt):
            control.unpack_ranges(packed)  # type: ignore[arg-type]
    with pytest.raises(Corrupt):
        control.read_body(b"\x01")
