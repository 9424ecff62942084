"""The bytes of an object: golden ones, what is refused, and what an erasure leaves."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from crc32c import crc32c

from neverforget.storage.errors import Corrupt, UnsupportedFormat
from neverforget.storage.format import Kind, RecordFlag
from neverforget.storage.record import encode_control, header_seed, log_seed, stamp
from neverforget.storage.shipping_object import (
    OBJECT_HEADER_BYTES,
    TERM_MAX,
    Author,
    ObjectHeader,
    ObjectKind,
    Run,
    check_origin,
    decode_header,
    decode_object,
    encode_fence,
    encode_run,
    heads_crc_of,
    log_prefix,
    object_key,
    store_bytes,
    zeroed,
)

STORE_ID = "00112233-4455-6677-8899-aabbccddeeff"
AUTHOR = Author(store_bytes(STORE_ID), 0x1122334455667788, 0x0102030405060708, 0x0A0B0C0D)
FORMAT = Path(__file__).resolve().parents[2] / "storage" / "FORMAT.md"


def record(position: int, seq: int, flags: RecordFlag, text: str = "hello") -> bytes:
    made = encode_control(Kind.REFUSED, 7, seq, {0: text}, timestamp_us=1_000_000)
    seed = header_seed(log_seed(AUTHOR.log_id), position)
    stamp(made, 0, session_id=7, seq=seq, epoch=3, flags_or=flags, durable_back=0, seed=seed)
    return bytes(made)


FIRST, MORE = RecordFlag.BATCH_FIRST, RecordFlag.BATCH_MORE


def batches() -> bytes:
    """Two records in one batch, then one alone: 72 bytes each, from position 64 on."""
    return record(64, 0, FIRST | MORE) + record(136, 1, RecordFlag(0)) + record(208, 2, FIRST)


def run_of(payload: bytes) -> Run:
    return Run(0, 1 << 20, 2, 64, 64 + len(payload), heads_crc_of(payload), payload)


GOLDEN_FENCE = (
    "4e464f42 02000000 00112233445566778899aabbccddeeff 8877665544332211 0100000000000000 "
    "0807060504030201 05000000 02000000 0000000000000000 0000000000000000 0000000000000000 "
    "0000000000000000"
)
GOLDEN_RUN = (
    "4e464f42 02000000 00112233445566778899aabbccddeeff 8877665544332211 0200000000000000 "
    "0807060504030201 05000000 01000000 0000000000000000 0000100000000000 4000000000000000 "
    "1801000000000000"
)


def golden(text: str) -> bytes:
    return bytes.fromhex(text.replace(" ", ""))


def test_a_fence_has_these_bytes() -> None:
    made = encode_fence(AUTHOR, 1, 5, 0)
    assert len(made) == OBJECT_HEADER_BYTES
    assert made[:88] == golden(GOLDEN_FENCE)
    digest = hashlib.blake2b(
        golden("00" * 16 + "0100000000000000 05000000 02000000"), digest_size=16
    )
    assert made[88:104] == digest.digest()
    assert made[104:140] == bytes(12) + golden("0d0c0b0a") + bytes(20)
    assert made[140:] == crc32c(made[:140]).to_bytes(4, "little")
    assert made[88:].hex() == (
        "31568b5183f7b05af7f944ae4ecb4a030000000000000000000000000d0c0b0a"
        "000000000000000000000000000000000000000076ae41a2"
    )


def test_a_run_has_these_bytes() -> None:
    payload = batches()
    made = encode_run(AUTHOR, 2, 5, run_of(payload), 1_700_000_000_000_000)
    assert made[:88] == golden(GOLDEN_RUN)
    told = golden("4000000000000000 1801000000000000 0200000000000000 05000000 01000000")
    assert made[88:104] == hashlib.blake2b(told + payload, digest_size=16).digest()
    assert made[104:108] == (2).to_bytes(4, "little")
    heads = payload[60:64] + payload[132:136] + payload[204:208]
    assert made[108:112] == crc32c(heads).to_bytes(4, "little")
    assert made[112:120] == bytes(4) + golden("0d0c0b0a")
    assert made[120:128] == (1_700_000_000_000_000).to_bytes(8, "little")
    assert made[128:136] == bytes(8)  # no turn, and nothing that erases
    assert made[136:140] == crc32c(payload).to_bytes(4, "little")
    assert made[140:144] == crc32c(made[:140]).to_bytes(4, "little")
    assert made[144:] == payload
    assert made[88:144].hex() == (
        "16ba2250bbf77519f3aaff38acf2cb7d02000000094a5629000000000d0c0b0a"
        "00401e18240a060000000000000000007d8768f139611fec"
    )


def test_turns_and_erasings_of_a_run_are_counted() -> None:
    kinds = [Kind.TURN, Kind.NOOP, Kind.TURN, Kind.ERASING, Kind.TURN]
    records = [bytearray(record(64 + 72 * n, n, FIRST)) for n in range(len(kinds))]
    for made, kind in zip(records, kinds, strict=True):
        made[4] = kind
    header = decode_header(encode_run(AUTHOR, 2, 5, run_of(b"".join(records))))
    assert (header.turns, header.erasings, header.made_us) == (3, 1, 0)


def test_the_description_names_every_field_at_its_place() -> None:
    section = FORMAT.read_text().partition("## Objects, version 2")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (\d+) \| (u?\d+) \| (\w+) \|", section, re.MULTILINE)
    assert [name for _, _, name in rows] == list(ObjectHeader._fields)
    at = 0
    for offset, width, _ in rows:
        assert int(offset) == at
        at += int(width.removeprefix("u"))
    assert at == OBJECT_HEADER_BYTES


def test_what_was_encoded_is_decoded() -> None:
    header, payload = decode_object(encode_run(AUTHOR, 9, 5, run_of(batches())))
    assert payload == batches()
    assert (header.number, header.epoch, header.kind) == (9, 5, ObjectKind.RUN)
    assert (header.base, header.size, header.segment_epoch) == (0, 1 << 20, 2)
    assert (header.start, header.stop) == (64, 64 + 3 * 72)


def test_a_term_stands_beside_the_kind() -> None:
    author = AUTHOR._replace(term=TERM_MAX)
    for made in (encode_fence(author, 1, 5, 0), encode_run(author, 1, 5, run_of(batches()))):
        header = decode_header(made)
        assert header.term == TERM_MAX and header.kind in (ObjectKind.FENCE, ObjectKind.RUN)
        assert made[54:56] == b"\xff\xff"


def test_every_flipped_bit_is_noticed() -> None:
    made = encode_run(AUTHOR, 2, 5, run_of(batches()))
    for bit in range(8 * len(made)):
        damaged = bytearray(made)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(Corrupt):
            decode_object(bytes(damaged))


def test_a_cut_object_is_corrupt() -> None:
    made = encode_run(AUTHOR, 2, 5, run_of(batches()))
    for length in range(len(made)):
        with pytest.raises(Corrupt):
            decode_object(made[:length])
    with pytest.raises(Corrupt):
        decode_object(made + b"\0")


def test_a_newer_version_is_left_alone() -> None:
    made = bytearray(encode_fence(AUTHOR, 1, 5, 0))
    made[4] = 3
    made[140:] = crc32c(made[:140]).to_bytes(4, "little")
    with pytest.raises(UnsupportedFormat, match="version 3"):
        decode_header(bytes(made))


def test_an_object_of_another_store_log_or_number_is_told() -> None:
    header = decode_header(encode_fence(AUTHOR, 4, 5, 0))
    assert check_origin(header, AUTHOR, 4) is None
    for other, number, word in (
        (AUTHOR._replace(store=bytes(16)), 4, "store"),
        (AUTHOR._replace(log_id=9), 4, "log"),
        (AUTHOR, 5, "number|object 5"),
    ):
        assert re.search(word, check_origin(header, other, number) or "")


def test_an_owner_knows_its_own_put_from_every_other() -> None:
    payload = batches()
    made = [
        encode_fence(AUTHOR, 1, 5, 0),
        encode_fence(AUTHOR, 2, 5, 0),
        encode_fence(AUTHOR, 1, 6, 0),
        encode_fence(AUTHOR, 1, 5, 64),
        encode_fence(AUTHOR._replace(owner=1), 1, 5, 0),
        encode_run(AUTHOR, 1, 5, run_of(payload)),
        encode_run(AUTHOR, 1, 5, run_of(payload[:144])),
    ]
    assert len({decode_header(data).first_put for data in made}) == len(made)


# ---- runs ----------------------------------------------------------------------------------------


def test_what_is_no_run_has_no_crc_of_heads() -> None:
    for data in (batches()[:-1], batches() + bytes(8)):
        with pytest.raises(Corrupt):
            heads_crc_of(data)


def test_keys_sort_as_their_numbers() -> None:
    prefix = log_prefix(STORE_ID, "partition-0")
    assert object_key(prefix, 12) == f"{STORE_ID}/partition-0/0000000000000012"
    keys = [object_key(prefix, 10**n) for n in range(16)]
    assert keys == sorted(keys)


# ---- erasing -------------------------------------------------------------------------------------


def test_an_erasure_zeroes_bodies_and_leaves_who_put_it() -> None:
    before = encode_run(AUTHOR, 2, 5, run_of(batches()))
    after = zeroed(before, [(136 + 64, 8)])
    assert after is not None
    first, _ = decode_object(before)
    header, payload = decode_object(after)
    assert payload[136:144] == bytes(8) and payload[:136] == batches()[:136]
    assert payload[144:] == batches()[144:]
    assert header.first_put == first.first_put
    same = ("number", "epoch", "start", "stop", "heads_crc", "base", "size")
    assert [getattr(header, n) for n in same] == [getattr(first, n) for n in same]
    assert header.erasures == 1
    assert zeroed(after, [(136 + 64, 8)]) is None, "nothing is left to do"


def test_an_erasure_reaches_no_further_than_the_run() -> None:
    before = encode_run(AUTHOR, 2, 5, run_of(batches()))
    assert zeroed(before, [(0, 64), (64 + 216, 1_000)]) is None
    after = zeroed(before, [(0, 10_000)])
    assert after is not None and decode_object(after)[1] == bytes(216)
