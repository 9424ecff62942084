"""Records: what may be in one, that it comes back equal, what is refused, and the bytes
themselves."""

from __future__ import annotations

import enum
import math
from typing import Any

import cbor2
import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from neverforget.storage.content import NESTING_MAX, decode_body, encode_body
from neverforget.storage.errors import Corrupt, InvalidArgument
from neverforget.storage.format import (
    BODY_BYTES_MAX,
    HEADER,
    ROLE_CODES,
    SURROGATE_TAG,
    Kind,
    RecordFlag,
    RoleCode,
    stride,
)
from neverforget.storage.head_array import HEAD_DTYPE
from neverforget.storage.record import (
    Header,
    body_of,
    check_incoming,
    decode_records,
    encode_control,
    encode_turn,
    header_seed,
    key_digest,
    log_seed,
    read_header,
    session_digest,
    session_scope,
    stamp,
)

SCOPE = session_scope(("team", "a"), "chat")


def turn(content: Any = "hello", **fields: Any) -> bytes:
    everything: dict[str, Any] = {
        "role": "user",
        "timestamp_us": 1_700_000_000_000_000,
        "token_count": 2,
        "producer": 0x1122334455667788,
        "producer_seq": 9,
        "key_scope": SCOPE,
        **fields,
    }
    return encode_turn(content=content, **everything)


def back(record: bytes) -> dict[int, Any]:
    ((_, body),) = decode_records(record)
    assert body is not None
    return body


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


# ---- golden bytes: a change here is a new format version, see FORMAT.md --------------------------


def test_golden_bytes_of_a_plain_turn() -> None:
    assert turn("hello").hex() == (
        "4e464731" "01" "01" "00" "01" "0000000000000000" "00000000" "08000000"
        "00401e18240a0600" "02000000" "00000000" "8877665544332211" "09000000"
        "21e023f5" "ffffffff" "00000000"
        "a1006568656c6c6f"
    )  # fmt: skip


def test_golden_bytes_of_a_keyed_turn_with_every_field() -> None:
    record = turn(
        [1, "two", {"three": None}],
        role="critic",
        name="Ann",
        agent="a1",
        call_id="c9",
        key="k",
        metadata={"m": 1.5},
    )
    assert record.hex() == (
        "4e46473101ff01010000000000000000000000003500000000401e18240a0600"
        "0200000000000000057236c79bf772a9553eb9550218172dffffffff00000000"
        "a70083016374776fa1657468726565f60163416e6e026261310362633904616b"
        "05a1616dfb3ff80000000000000666637269746963000000"
    )


def test_golden_bytes_of_a_stamped_turn() -> None:
    record = bytearray(turn("hello"))
    seed = header_seed(log_seed(0x0123456789ABCDEF), 4160)
    stamp(
        record,
        0,
        session_id=0xA1B2C3D4E5F60718,
        seq=41,
        epoch=3,
        flags_or=6,
        durable_back=2,
        seed=seed,
    )
    assert record.hex() == (
        "4e464731010106011807f6e5d4c3b2a1290000000800000000401e18240a0600"
        "020000000300000088776655443322110900000021e023f502000000c93289f8"
        "a1006568656c6c6f"
    )


def test_golden_bytes_of_a_control_record() -> None:
    record = encode_control(Kind.NOOP, 0, 0, {}, timestamp_us=1)
    assert bytes(record).hex() == (
        "4e4647310a000001000000000000000000000000000000000100000000000000"
        "000000000000000000000000000000000000000000000000ffffffff00000000"
    )


def test_golden_digests() -> None:
    assert SCOPE.hex() == ("02000000040000007465616d01000000610400000063686174")
    assert f"{session_digest(('team', 'a'), 'chat'):016x}" == "621d000bd2855050"
    assert key_digest(SCOPE, "k").hex() == "057236c79bf772a9553eb955"


def test_the_checksum_is_crc32c() -> None:
    """The check value of the standard (RFC 3720), so that a change of library cannot go
    unnoticed."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283


def test_the_header_is_the_same_as_a_struct_a_named_tuple_and_a_numpy_type() -> None:
    record = turn("hello", key="k")
    as_struct = HEADER.unpack_from(record)
    as_numpy = np.frombuffer(record, dtype=HEAD_DTYPE, count=1)[0]
    assert tuple(read_header(record)) == as_struct == tuple(as_numpy.tolist())
    assert Header._fields == HEAD_DTYPE.names


# ---- content that comes back equal ---------------------------------------------------------------


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Named(dict[str, int]):
    pass


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\0",
        "x",
        "emoji \U0001f600 and שלום",
        "lone \ud83d surrogate",
        "\udc00\ud800",
        b"",
        b"\0\xff",
        0,
        -1,
        2**63,
        -(2**64),
        2**300,
        1.5,
        -0.0,
        math.inf,
        True,
        False,
        [],
        {},
        [None, [], {}],
        {"": {"": [""]}},
        {"a\ud83d": ["\ude00", {"b": b"bytes \xed\xa0\xbd"}]},
        [1, 1.0, True],
        Colour.RED,
        {"level": Level.HIGH, "named": Named(a=1), "np": np.float64(2.5)},
        nested(NESTING_MAX),
    ],
    ids=lambda c: ascii(c)[:24],
)
def test_content_comes_back_equal_and_of_plain_types(content: Any) -> None:
    found = back(turn(content)).get(0)
    assert found == content
    assert type(found) in (str, bytes, int, float, bool, list, dict)
    assert repr(found) == repr(eval_plain(content))


def eval_plain(content: Any) -> Any:
    """Equality takes 1, 1.0 and True for the same: the types must be the same too."""
    if isinstance(content, dict):
        return {k: eval_plain(v) for k, v in content.items()}
    if isinstance(content, list):
        return [eval_plain(v) for v in content]
    if isinstance(content, bool):
        return content
    if isinstance(content, int):
        return int(content)
    if isinstance(content, float):
        return float(content)
    if isinstance(content, str):
        return str.__str__(content)
    return content


def test_nan_comes_back_as_nan() -> None:
    found = back(turn({"x": [math.nan, 1]}))[0]
    assert math.isnan(found["x"][0]) and found["x"][1] == 1


def test_none_is_absent_and_takes_no_bytes() -> None:
    assert back(turn(None)) == {}


def test_all_fields_come_back() -> None:
    body = back(
        turn(
            "x",
            role="tool",
            name="n\ud83d",
            agent="",
            call_id="c",
            key="k\udc00",
            metadata={"a": [1]},
        )
    )
    assert body == {0: "x", 1: "n\ud83d", 2: "", 3: "c", 4: "k\udc00", 5: {"a": [1]}}


def test_a_role_of_ones_own_is_kept_as_it_is() -> None:
    for role in ("critic", "User", "", "\ud83d", "other"):
        record = turn("x", role=role)
        assert read_header(record).role == RoleCode.OTHER
        assert back(record)[6] == role
    for role, code in ROLE_CODES.items():
        record = turn("x", role=role)
        assert read_header(record).role == code
        assert 6 not in back(record)


def test_what_the_caller_changes_afterwards_does_not_change_the_record() -> None:
    inner = [1]
    record = turn({"a": inner})
    inner.append(2)
    assert back(record)[0] == {"a": [1]}


any_text = st.text(alphabet=st.characters(codec=None))  # lone surrogates too
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | any_text | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(any_text, inner),
    max_leaves=20,
)


@given(content=plain, metadata=st.dictionaries(st.text(), plain), key=st.none() | st.text())
def test_anything_json_like_comes_back_equal(content: Any, metadata: Any, key: str | None) -> None:
    record = turn(content, metadata=metadata, key=key)
    assert len(record) % 8 == 0 and len(record) == stride(read_header(record).body_length)
    body = back(record)
    assert body.get(0) == content and body.get(5, {}) == metadata and body.get(4) == key
    assert [size for _, size, _ in check_incoming(record * 3)] == [len(record)] * 3


# ---- content that is refused ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "path"),
    [
        ((1, 2), "content is a tuple"),
        ({1, 2}, "content is a set"),
        (bytearray(b"x"), "content is a bytearray"),
        (object(), "content is an object"),
        (1 + 2j, "content is a complex"),
        ([0, 0, 0, {"x": (1,)}], r"content\[3\]\.x is a tuple"),
        ({"a": {"b": frozenset()}}, r"content\.a\.b is a frozenset"),
        ({1: "x"}, "content has the key 1, an int"),
        ({"a": {None: 1}}, r"content\.a has the key None"),
        ([{b"k": 1}], r"content\[0\] has the key b'k'"),
        ([cbor2.CBORTag(SURROGATE_TAG, b"x")], r"content\[0\] is a CBORTag"),
        ([cbor2.CBORTag(35, "(a+)+$")], r"content\[0\] is a CBORTag"),
        ([cbor2.undefined], r"content\[0\] is a "),
        (np.arange(3), "content is a ndarray"),
        (np.int64(3), "content is an int64"),
    ],
    ids=lambda v: ascii(v)[:20],
)
def test_what_would_not_come_back_equal_is_refused_by_its_path(content: Any, path: str) -> None:
    with pytest.raises(InvalidArgument, match=path):
        turn(content)


@pytest.mark.parametrize("depth", [NESTING_MAX + 1, NESTING_MAX + 2, 5_000, 200_000])
def test_nesting_that_could_not_be_read_again_is_refused(depth: int) -> None:
    """cbor2 writes any depth and reads 400: a turn was acknowledged that nobody could read."""
    with pytest.raises(InvalidArgument, match="nested"):
        turn(nested(depth))
    with pytest.raises(InvalidArgument, match="nested"):
        turn("x", metadata={"deep": nested(depth)})


def test_surrogates_at_the_deepest_level_that_is_allowed_can_be_read_again() -> None:
    value: Any = "\ud83d"
    for _ in range(NESTING_MAX):
        value = [value]
    try:
        record = turn(value)
    except InvalidArgument:
        return
    assert back(record)[0] == value


def test_a_cycle_is_refused() -> None:
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(InvalidArgument, match="nested"):
        turn(cycle)


def test_a_body_above_the_limit_is_refused_and_one_at_the_limit_is_not() -> None:
    head = len(encode_body({0: b"x" * 70_000})) - 70_000
    assert read_header(turn(b"x" * (BODY_BYTES_MAX - head))).body_length == BODY_BYTES_MAX
    for content in (b"x" * (BODY_BYTES_MAX - head + 1), "x" * (65 * 1024 * 1024)):
        with pytest.raises(InvalidArgument, match="limit"):
            turn(content)


@pytest.mark.parametrize(
    "fields",
    [
        {"role": 1},
        {"role": None},
        {"name": 5},
        {"agent": b"a"},
        {"call_id": ["c"]},
        {"key": 7},
        {"metadata": [1]},
        {"metadata": {"a": {2}}},
        {"metadata": {1: 2}},
        {"timestamp_us": 2**63},
        {"timestamp_us": -(2**63) - 1},
        {"token_count": -1},
        {"token_count": 2**32},
    ],
    ids=str,
)
def test_wrong_types_and_ranges_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument):
        turn("x", **fields)


# ---- flags and ids -------------------------------------------------------------------------------


def test_a_keyed_turn_carries_the_digest_of_its_key_in_its_session() -> None:
    header = read_header(turn("x", key="k"))
    assert header.flags == RecordFlag.KEYED
    digest = key_digest(SCOPE, "k")
    assert (
        header.producer_id.to_bytes(8, "little") + header.producer_seq.to_bytes(4, "little")
        == digest
    )
    assert digest != key_digest(session_scope(("team",), "a/chat"), "k")


def test_calls_are_flagged() -> None:
    calls = {"tool_calls": [{"id": "1"}]}
    flagged = RecordFlag.CALLS
    assert read_header(turn("x", role="tool_call")).flags == flagged
    assert read_header(turn(calls, role="assistant")).flags == flagged
    assert read_header(turn({"tool_calls": None}, role="assistant")).flags == 0
    assert read_header(turn(calls, role="user")).flags == 0


def test_scopes_of_different_sessions_differ() -> None:
    scopes = {
        session_scope(namespace, session)
        for namespace, session in [
            ((), "a"),
            (("a",), ""),
            (("",), "a"),
            ((), "\0a"),
            (("a", "b"), "c"),
            (("a",), "bc"),
            (("ab",), "c"),
            ((), "\u00e9"),
            ((), "e\u0301"),
            ((), "\ud83d"),
        ]
    }
    assert len(scopes) == 10


# ---- the owner's check, and reading --------------------------------------------------------------


def broken(record: bytes, at: int, value: int) -> bytes:
    made = bytearray(record)
    made[at] = value
    return bytes(made)


@pytest.mark.parametrize(
    "records",
    [
        turn()[:-1],
        turn()[:40],
        turn() + b"\0" * 8,
        turn() + b"\0" * 64,
        broken(turn(), 0, 0),
        broken(turn(), 4, Kind.SESSION_OPENED),
        broken(turn(), 4, Kind.ERASING),
        broken(turn(), 5, 0),
        broken(turn(), 5, 99),
        broken(turn(), 6, RecordFlag.BATCH_MORE),
        broken(turn(), 7, 2),
        broken(turn(), 20, 0),
        broken(turn(), 23, 0xFF),
        broken(turn(), 52, 0),
        broken(turn("hello"), 70, 0),
        broken(turn("hello!"), 73, 1),
        bytes(encode_control(Kind.NOOP, 0, 0, {}, timestamp_us=1)),
    ],
)
def test_the_owner_refuses_records_that_no_client_makes(records: bytes) -> None:
    with pytest.raises(InvalidArgument):
        check_incoming(turn() + records)


def test_an_erased_turn_is_a_header_without_a_body() -> None:
    hollow = bytearray(turn("gone")[:64])
    hollow[20:24] = bytes(4)
    found = list(decode_records(turn("a") + bytes(hollow) + turn("b")))
    assert [body and body[0] for _, body in found] == ["a", None, "b"]


def test_a_body_that_changed_on_its_way_is_not_returned() -> None:
    with pytest.raises(Corrupt):
        list(decode_records(broken(turn("hello"), 68, 0x41)))
    with pytest.raises(Corrupt):
        list(decode_records(turn("hello")[:-8]))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x01",
        b"\xff",
        b"\x9f",
        b"\xa1\x00",
        b"\xd8\x23\x68(a+)+$bb",
        b"\xa1\x00\xd9\x6e\x66\x01",
    ],
    ids=lambda b: b.hex(),
)
def test_a_body_that_is_no_map_of_ours_is_corrupt(body: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_body(body)


def test_the_seed_ties_a_header_to_its_log_and_place() -> None:
    crcs = set()
    for log_id, position in [(1, 64), (1, 72), (2, 64)]:
        record = bytearray(turn())
        seed = header_seed(log_seed(log_id), position)
        stamp(record, 0, session_id=1, seq=1, epoch=1, flags_or=0, durable_back=1, seed=seed)
        crcs.add(read_header(record).header_crc)
    assert len(crcs) == 3


def test_stamping_changes_nothing_but_what_the_owner_knows() -> None:
    record = bytearray(turn("hello", key="k"))
    before = read_header(record)
    stamp(record, 0, session_id=1, seq=2, epoch=3, flags_or=2, durable_back=4, seed=5)
    after = read_header(record)
    changed = {n for n in Header._fields if getattr(before, n) != getattr(after, n)}
    assert changed == {"session_id", "sequence_id", "epoch", "flags", "durable_back", "header_crc"}
    assert after.flags == before.flags | 2
    assert body_of(record) == encode_body({0: "hello", 4: "k"})
