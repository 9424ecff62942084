"""Cursors: where a listing was left, as opaque text that says which listing it is of.

A cursor holds the kind of listing, a digest of what was listed, and a place. Handed to another
session or listing it is refused instead of being read as a place there.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

import msgspec

from neverforget.storage.errors import InvalidArgument

TURNS, SESSIONS, NAMESPACES, AUDIT, MEMORIES = range(5)
_NAMES = ("turns of a session", "sessions", "namespaces", "audit entries", "memories")

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(tuple[int, bytes, Any])


def binding(what: bytes) -> bytes:
    """The digest that ties a cursor to what it lists."""
    return hashlib.blake2b(what, digest_size=6, person=b"nf-cursor").digest()


def make(kind: int, bound_to: bytes, place: Any) -> str:
    """``place`` is whatever the listing needs to go on; msgpack must be able to hold it."""
    raw = _encoder.encode((kind, bound_to, place))
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def read(cursor: str, kind: int, bound_to: bytes, place_type: Any) -> Any:
    """The place in ``cursor``, of ``place_type``; InvalidArgument when it is no cursor of this very
    listing.
    """
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), b"-_", validate=True)
        found_kind, found_binding, place = _decoder.decode(raw)
        if found_kind == kind and found_binding == bound_to:
            return msgspec.convert(place, place_type)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise InvalidArgument(
            f"{cursor[:60]!r} is no cursor; pass a page's .next or .previous as it is"
        ) from None
    listed = _NAMES[found_kind] if 0 <= found_kind < len(_NAMES) else "something"
    raise InvalidArgument(
        f"this cursor is of another listing of {listed}; use the one that its own page gave, with "
        "the same arguments"
    )
