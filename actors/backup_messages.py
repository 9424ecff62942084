"""What a backup of a deployed store asks its owners, from another node: see ``gathering.py``."""

from __future__ import annotations

from neverforget.actors.message_bases import Reply, Request
from neverforget.storage.copy_list import CopyList


class ListCopy(Request, tag=48):
    """Answered with the files of a copy, as durable now."""


class ReadCopy(Request, tag=49):
    """At most ``length`` bytes of the file ``name`` of it, from ``offset`` on."""

    name: str
    offset: int
    length: int


class ListCopyReply(Reply, tag=141):
    copy: CopyList


class ReadCopyReply(Reply, tag=142):
    """``crc``: CRC32C of ``data``, as it was read."""

    data: bytes
    crc: int


BackupRequest = ListCopy | ReadCopy
BackupAnswer = ListCopyReply | ReadCopyReply
