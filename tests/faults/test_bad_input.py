"""What a client with a fault of its own may send: refused before the log, or of no harm to others.

The owner checks every length and checksum and does not decode. So bodies that are not what they
should be can get into the log; whoever reads them sees one unreadable turn, and its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import cbor2
import pytest
from crc32c import crc32c

import neverforget as nf
from neverforget.actors.messages import SYNC_DISK, AnyReply, Append, AppendedReply, Failure
from neverforget.runtime.inline import InlineHost, open_inline
from neverforget.runtime.routing import partition_of
from neverforget.storage.digests import session_scope
from neverforget.storage.format import HEADER, SURROGATE_TAG, Kind
from neverforget.storage.record import encode_turn
from tests.faults.appender import Asked

SESSION = "chat"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(path: Path) -> Iterator[nf.Store]:
    with nf.open(path, inline=True) as opened:
        yield opened


@pytest.fixture
def host(store: nf.Store, path: Path) -> Iterator[InlineHost]:
    """The very owners of ``store``, to be spoken to without its client."""
    found = open_inline(path)
    yield found
    found.close()


def record_with(body: bytes, **fields: int) -> bytes:
    """A turn's record with this body, and header fields as named, its checksum right."""
    good = encode_turn(
        role="user", content="x", timestamp_us=1, token_count=1, producer=9, producer_seq=1,
        key_scope=session_scope((), SESSION),
    )  # fmt: skip
    names = (
        "magic", "kind", "role", "flags", "version", "session_id", "sequence_id", "body_length",
        "timestamp", "token_count", "epoch", "producer_id", "producer_seq", "body_crc",
        "durable_back", "header_crc",
    )  # fmt: skip
    header = dict(zip(names, HEADER.unpack_from(good), strict=True))
    header |= {"body_length": len(body), "body_crc": crc32c(body), **fields}
    return HEADER.pack(*header.values()) + body + bytes(-len(body) % 8)


def send(host: InlineHost, records: bytes, number: int = 1) -> AnyReply:
    partition = host.partitions[partition_of(session_scope((), SESSION), len(host.partitions))]
    asked = Asked(Append(1, (), SESSION, None, 9, number, SYNC_DISK, None, records))
    with host.lock:
        partition.run([asked])
    assert asked.answer is not None
    return asked.answer


GOOD = cbor2.dumps({0: "fine"})
REFUSED = {
    "nothing": b"",
    "half a header": record_with(GOOD)[:40],
    "half a body": record_with(GOOD)[:-8],
    "no body": record_with(b""),
    "another magic": record_with(GOOD, magic=7),
    "a newer version": record_with(GOOD, version=9),
    "a control record": record_with(GOOD, kind=Kind.ERASED),
    "an unknown kind": record_with(GOOD, kind=200),
    "a length beyond the end": record_with(GOOD, body_length=1 << 20),
    "a length beyond all bounds": record_with(GOOD, body_length=0xFFFFFFFF),
    "a wrong checksum": record_with(GOOD, body_crc=1),
    "padding that is not zero": record_with(GOOD)[:-1] + b"!",
    "a good one and then rubbish": record_with(GOOD) + b"rubbish!" * 20,
}
UNDECODABLE = {
    "not CBOR": b"\xff\xff",
    "a list": cbor2.dumps([1, 2]),
    "a text": cbor2.dumps("text"),
    "500 lists in each other": b"\xa1\x00" + b"\x81" * 500 + b"\x00",
    "a length bomb": b"\xa1\x00\x9b\x7f\xff\xff\xff\xff\xff\xff\xff",
    "a pattern": cbor2.dumps({0: cbor2.CBORTag(35, "(a+)+$")}),
    "a number with 10^11 digits": cbor2.dumps({0: cbor2.CBORTag(4, [111111111111, 1])}),
    "a date inside": cbor2.dumps({0: [cbor2.CBORTag(1, 0)]}),
    "an unknown tag": cbor2.dumps({0: cbor2.CBORTag(9999, 1)}),
    "surrogates that are none": cbor2.dumps({0: cbor2.CBORTag(SURROGATE_TAG, b"\xff\xff")}),
    "a key that is no text": cbor2.dumps({0: {1: 2}}),
    "a name that is a number": cbor2.dumps({0: "x", 1: 5}),
    "metadata that is a list": cbor2.dumps({0: "x", 5: [1]}),
}


@pytest.mark.parametrize("records", REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_record_is_refused_and_leaves_no_trace(
    store: nf.Store, host: InlineHost, records: bytes
) -> None:
    chat = store.session(SESSION)
    chat.append("user", "before")
    with host.lock:  # or an idle owner writes a NOOP meanwhile
        written = [o.durable_bytes for o in store.status().owners]
        reply = send(host, records)
        assert isinstance(reply, Failure) and reply.code == "invalid_argument", reply
        assert [o.durable_bytes for o in store.status().owners] == written
    assert chat.append("user", "after").seq == 1
    assert store.verify().ok


@pytest.mark.parametrize("body", UNDECODABLE.values(), ids=UNDECODABLE.keys())
def test_a_body_that_is_no_turn_is_one_unreadable_turn(
    store: nf.Store, host: InlineHost, body: bytes, path: Path
) -> None:
    """One such body made pages, tails and walks of its whole session fail for everybody."""
    chat = store.session(SESSION)
    chat.append("user", "before")
    reply = send(host, record_with(body))
    assert isinstance(reply, AppendedReply), reply
    chat.append("user", "after")
    expected = [("before", "ok"), (None, "unreadable"), ("after", "ok")]
    assert [(turn.content, turn.state) for turn in chat] == expected
    assert [(turn.content, turn.state) for turn in chat.tail(5)] == expected
    assert [(turn.content, turn.state) for turn in chat.page(limit=5)] == expected
    with pytest.raises(nf.Corrupt):
        chat.get(1)
    assert chat.info().turns == 3
    assert len(chat) == 3


def test_a_request_above_the_bound_is_refused(store: nf.Store, host: InlineHost) -> None:
    chat = store.session(SESSION)
    chat.append("user", "before")
    with pytest.raises(nf.InvalidArgument):
        chat.append("user", "x" * (65 * 1024 * 1024))
    assert chat.append("user", "after").seq == 1
