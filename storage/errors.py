"""Every error neverforget raises on purpose, in one tree.

    NeverforgetError
    ├── InvalidArgument       (ValueError)       the caller passed something that cannot be meant
    ├── ConfirmationRequired  (ValueError)       a destructive call without ``confirm``
    ├── NotFound              (KeyError)         nothing of that name or number is there
    ├── Conflict                                 a key, request id or seq is taken otherwise
    ├── StoreClosed                              the handle was closed
    ├── StoreLocked                              another process owns the directory
    ├── OutOfSpace            (OSError)          the disk is full; nothing was written
    ├── Poisoned              (OSError)          an earlier write or sync failed
    ├── Corrupt                                  bytes on disk fail their checksum
    ├── UnsupportedFormat                        written by a newer version, or by something else
    ├── OwnerFenced                              a newer owner took over
    ├── Overloaded                               a bounded queue is full; try again later
    ├── Unavailable           (ConnectionError)  no owner answered within the deadline
    └── EmbedderMismatch                         vectors of another model are stored here

Each message says whose fault it is and what to do. All of them pickle both ways, and cross the
socket as ``(code, message, fields)``: see ``to_wire`` and ``from_wire``.
"""

from __future__ import annotations

import errno
from typing import Any, ClassVar


class NeverforgetError(Exception):
    """Root of the tree. ``fields`` names the attributes that a subclass carries besides its
    message.
    """

    code: ClassVar[str] = "error"
    fields: ClassVar[tuple[str, ...]] = ()

    def __init__(self, message: str, **values: Any) -> None:
        unknown = set(values) - set(self.fields)
        assert not unknown, f"{type(self).__name__} has no field {sorted(unknown)}"
        super().__init__(message)
        self.message = message
        for name in self.fields:
            setattr(self, name, values.get(name))

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, {n: getattr(self, n) for n in self.fields})


def _rebuild(cls: type[NeverforgetError], message: str, values: dict[str, Any]) -> NeverforgetError:
    return cls(message, **values)


class InvalidArgument(NeverforgetError, ValueError):
    code = "invalid_argument"


class ConfirmationRequired(NeverforgetError, ValueError):
    code = "confirmation_required"


class NotFound(NeverforgetError, KeyError):
    code = "not_found"


class Conflict(NeverforgetError):
    """``seq`` is where the session stands, or the seq of the turn that holds the key."""

    code = "conflict"
    fields = ("seq",)
    seq: int | None


class StoreClosed(NeverforgetError):
    code = "store_closed"


class StoreLocked(NeverforgetError):
    """``pid`` and ``role`` (serve, worker, application) name the holder."""

    code = "store_locked"
    fields = ("pid", "role")
    pid: int | None
    role: str | None


class _WithErrno(NeverforgetError, OSError):
    number: ClassVar[int] = errno.EIO

    def __init__(self, message: str, **values: Any) -> None:
        super().__init__(message, **values)
        self.errno = self.number
        self.strerror = message


class OutOfSpace(_WithErrno):
    code = "out_of_space"
    number = errno.ENOSPC


class Poisoned(_WithErrno):
    code = "poisoned"


class Corrupt(NeverforgetError):
    """``file``, ``offset`` and ``bytes`` say which bytes cannot be trusted."""

    code = "corrupt"
    fields = ("file", "offset", "bytes")
    file: str | None
    offset: int | None
    bytes: int | None


class UnsupportedFormat(NeverforgetError):
    code = "unsupported_format"


class OwnerFenced(NeverforgetError):
    code = "owner_fenced"


class Overloaded(NeverforgetError):
    code = "overloaded"


class Unavailable(NeverforgetError, ConnectionError):
    """``outcome`` is "not_applied" or "unknown"; after "unknown" repeat the call with the same
    ``key``.
    """

    code = "unavailable"
    fields = ("outcome", "request_id")
    outcome: str | None
    request_id: str | None


class EmbedderMismatch(NeverforgetError):
    code = "embedder_mismatch"


def _tree(cls: type[NeverforgetError]) -> dict[str, type[NeverforgetError]]:
    found = {cls.code: cls}
    for child in cls.__subclasses__():
        if not child.__name__.startswith("_"):
            found |= _tree(child)
        else:
            found |= {c.code: c for c in child.__subclasses__()}
    return found


BY_CODE: dict[str, type[NeverforgetError]] = _tree(NeverforgetError)


def to_wire(error: NeverforgetError) -> tuple[str, str, dict[str, Any]]:
    return error.code, error.message, {n: getattr(error, n) for n in error.fields}


def from_wire(code: str, message: str, values: dict[str, Any]) -> NeverforgetError:
    cls = BY_CODE.get(code, NeverforgetError)
    return cls(message, **{k: v for k, v in values.items() if k in cls.fields})
