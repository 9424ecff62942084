"""Frames on a stream socket: a 4-byte little-endian length, then that many bytes of msgpack
(``messages.py``).

Both sides of a connection use this module. The first frame of a client is a Hello, answered by a
Welcome (or a Failure, after which the owner closes). Both sides check the user at the other end
before they trust a byte.
"""

from __future__ import annotations

import os
import socket
import struct
import sys

from neverforget.actors.messages import PROTOCOL_VERSION, AnyReply, AnyRequest, Hello, encoder
from neverforget.storage.errors import NeverforgetError, UnsupportedFormat

LENGTH = struct.Struct("<I")
LENGTH_BYTES = LENGTH.size


def frame(message: AnyRequest | AnyReply) -> bytes:
    """One whole frame, ready to be sent."""
    payload = encoder.encode(message)
    return LENGTH.pack(len(payload)) + payload


def peer_uid(connection: socket.socket) -> int | None:
    """The user that the process at the other end of a Unix socket ran as when it connected; None:
    cannot be told."""
    if sys.platform == "linux":
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _, uid, _ = struct.unpack("iII", credentials)
        return int(uid)
    if sys.platform == "darwin":
        # struct xucred: version, uid, number of groups, groups. SOL_LOCAL 0, LOCAL_PEERCRED 1.
        credentials = connection.getsockopt(0, 1, 76)
        _, uid = struct.unpack_from("II", credentials)
        return int(uid)
    return None


def peer_is_trusted(connection: socket.socket) -> bool:
    """The same user, or root. Where the system cannot tell, the 0700 folder of the socket has to
    do."""
    uid = peer_uid(connection)
    return uid is None or uid in (os.geteuid(), 0)


def greeting_error(hello: Hello, store_id: str) -> NeverforgetError | None:
    """Why an owner of this store cannot talk with a client that greets so."""
    if hello.store_id != store_id:
        return UnsupportedFormat(
            f"this socket serves store {store_id}, not {hello.store_id}; open the store again"
        )
    if hello.version != PROTOCOL_VERSION:
        return UnsupportedFormat(
            f"the owner speaks protocol {PROTOCOL_VERSION}, the client {hello.version}; "
            "use the same version of neverforget on both sides"
        )
    return None
