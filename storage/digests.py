"""The digests that stand in headers: of a session's (namespace, name) and of a key within its
session.

A digest only says where to look: whoever finds one compares the full name or key, which stands in a
body."""

from __future__ import annotations

import hashlib


def session_scope(namespace: tuple[str, ...], session: str) -> bytes:
    """The bytes that stand for (namespace, name): every element with its length, so no two scopes
    look alike."""
    pieces = [len(namespace).to_bytes(4, "little")]
    for element in (*namespace, session):
        encoded = element.encode("utf-8", "surrogatepass")
        pieces.append(len(encoded).to_bytes(4, "little"))
        pieces.append(encoded)
    return b"".join(pieces)


def session_digest(namespace: tuple[str, ...], session: str) -> int:
    """64-bit digest of (namespace, name): a session's id unless another session holds it
    already."""
    scope = session_scope(namespace, session)
    return int.from_bytes(hashlib.blake2b(scope, digest_size=8).digest(), "little")


def key_digest(key_scope: bytes, key: str) -> bytes:
    """96-bit digest of a key within its scope: what a KEYED header holds as producer_id and
    producer_seq."""
    encoded = key.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(key_scope + encoded, digest_size=12, person=b"nf-key").digest()
