"""Who may see an audit entry, when what it is about is gone.

A view sees what was done to memories of its own namespace. Where these were is not in the entry as
words, which would outlast an erasure: it holds a salted digest of the namespace for each of its
levels. Whoever knows a name can check it, nobody can read it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from neverforget.storage.longterm_fields import namespace_scope
from neverforget.storage.longterm_results import Namespace

DIGEST_BYTES = 16
SALT_BYTES = 16


def shared(namespaces: Iterable[Namespace]) -> Namespace:
    """The deepest one that holds all of them."""
    found = list(namespaces)
    if not found:
        return ()
    first, last = min(found), max(found)
    depth = 0
    while depth < min(len(first), len(last)) and first[depth] == last[depth]:
        depth += 1
    return first[:depth]


def places_of(namespace: Namespace, salt: bytes) -> bytes:
    """Of the namespace and each above it, the root left out."""
    levels = range(1, len(namespace) + 1)
    return b"".join(_digest(namespace[:level], salt) for level in levels)


def lies_within(places: object, salt: object, scope: Namespace) -> bool:
    """Whether what ``places`` stands for is ``scope`` or below it."""
    if not scope:
        return True
    if not isinstance(places, bytes) or not isinstance(salt, bytes):
        return False
    at = (len(scope) - 1) * DIGEST_BYTES
    return places[at : at + DIGEST_BYTES] == _digest(scope, salt)


def _digest(namespace: Namespace, salt: bytes) -> bytes:
    said = namespace_scope(namespace, "")
    return hashlib.blake2b(said, digest_size=DIGEST_BYTES, salt=salt).digest()
