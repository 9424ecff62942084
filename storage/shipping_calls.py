"""What shipping asks of the object store, carried out. Blocks as long as the store's own bounds let
it; never raises what the store or its content may cause: that is an answer too.
"""

from __future__ import annotations

from typing import NamedTuple

from neverforget.storage.errors import Corrupt, Unavailable, UnsupportedFormat
from neverforget.storage.object_store import ObjectStore
from neverforget.storage.shipping_events import (
    Bad,
    Failed,
    Fetch,
    HeaderRead,
    Look,
    Looked,
    Put,
    PutAnswered,
    ReadHeader,
    StoreQuestion,
)
from neverforget.storage.shipping_object import (
    OBJECT_HEADER_BYTES,
    ObjectHeader,
    decode_header,
    decode_object,
    object_key,
)


class Got(NamedTuple):
    """What a Fetch read; the local log is still to be compared with it, then Fetched is told."""

    call: int
    header: ObjectHeader
    payload: bytes


StoreAnswer = Looked | HeaderRead | PutAnswered | Got | Failed | Bad


def carry_out(store: ObjectStore, prefix: str, question: StoreQuestion) -> StoreAnswer:
    """``prefix``: of the log's objects, see ``log_prefix``."""
    call, key = question.call, object_key(prefix, question.number)
    try:
        match question:
            case Look():
                return Looked(call, store.head(key) is not None)
            case Put(_, number, data):
                behind = object_key(prefix, number - 1) if number > 1 else None
                return PutAnswered(call, store.put_new(key, data, behind=behind))
            case ReadHeader():
                start = store.get_start(key, OBJECT_HEADER_BYTES)
                return _gone(call, key) if start is None else HeaderRead(call, decode_header(start))
            case Fetch():
                found = store.get(key)
                return _gone(call, key) if found is None else Got(call, *decode_object(found.data))
    except Unavailable as error:
        return Failed(call, error.message)
    except (Corrupt, UnsupportedFormat) as error:
        newer = isinstance(error, UnsupportedFormat)
        return Bad(call, f"{key} in {store.name}: {error.message}", newer)


def _gone(call: int, key: str) -> Bad:
    return Bad(call, f"{key} was there and is gone: objects are never removed")
