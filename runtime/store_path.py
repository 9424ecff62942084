"""The path of a store: what one may be, and what it means when the system refuses it.

``open``, the command line and the host all take paths through here, so that each understands the
same ones and says the same about the others.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from neverforget.storage.errors import (
    InvalidArgument,
    NeverforgetError,
    OutOfSpace,
    Unavailable,
)
from neverforget.storage.type_names import a_type

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # a pathlib.Path has only one slash left
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_FULL = {errno.ENOSPC, errno.EDQUOT}
_NO_PATH = {errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL, errno.EILSEQ}


def named_directory(path: str | os.PathLike[str], what: str = "path") -> Path:
    """The directory meant by ``path``, "~" expanded. InvalidArgument where none can be meant;
    ``what`` is the name of the argument.
    """
    text: object = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(text, str):
        raise InvalidArgument(f"{what} is {a_type(text)}; pass text or a pathlib.Path")
    if not text:
        raise InvalidArgument(f"{what} is empty; name a directory")
    if "\0" in text:
        raise InvalidArgument(f"{text!r} holds a NUL character, which no path can; leave it out")
    if text.startswith("ray:"):
        raise InvalidArgument(
            f"{text!r} names a store on a Ray cluster, and {what} must be a directory; for one of "
            f"that name write ./{text}"
        )
    if _URL.match(text):
        raise InvalidArgument(
            f"{text!r} is a URL, and a store is a directory on this machine: pass its path; for a "
            f"directory of that name write ./{text}"
        )
    expanded = os.path.expanduser(text)
    if expanded.startswith("~"):
        raise InvalidArgument(
            f"{text!r} names the home of a user whom this machine does not know; for a directory "
            f"of that name write ./{text}"
        )
    return Path(expanded)


def real_path(path: str | os.PathLike[str], what: str = "path") -> Path:
    """As ``named_directory``, links resolved."""
    named = named_directory(path, what)
    try:
        return Path(os.path.realpath(named))
    except UnicodeEncodeError as error:  # half a surrogate pair
        raise InvalidArgument(f"{what} is {str(named)!r}, which no path can be: {error}") from None


@contextmanager
def typed_errors(path: Path) -> Iterator[None]:
    """What the system says about the store at ``path`` comes out as one of our errors."""
    try:
        yield
    except OSError as error:
        if isinstance(error, NeverforgetError):
            raise
        raise refusal(path, error) from error


def refusal(path: Path, error: OSError) -> NeverforgetError:
    """What the system's ``error`` means for a store at ``path``."""
    where = path if error.filename is None else error.filename
    why = f"{where}: {error.strerror or error}"
    if error.errno in _FULL:
        return OutOfSpace(f"{why}; free disk space and open the store again")
    if error.errno in _NO_PATH:
        return InvalidArgument(f"{why}; give the store another path")
    if error.errno == errno.EROFS:
        remedy = "mount it writable, or copy the store to where you can write"
    elif error.errno in _REFUSED:
        remedy = _whose(path)
    else:
        remedy = "put that right, then open the store again"
    return Unavailable(f"{path} cannot be used ({why}); {remedy}", outcome="not_applied")


def is_refusal(error: NeverforgetError) -> bool:
    """It comes of rights or of a read-only disk: trying again in a moment cannot help."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in _REFUSED


def _whose(path: Path) -> str:
    """The remedy where rights are missing. The owner is that of what is closed to us, or of the
    folder in which nothing can be made."""
    for place in (path, *path.parents):
        try:
            owner = place.stat().st_uid
        except OSError:
            continue
        if owner != os.geteuid():
            return (
                f"{place} belongs to user {owner}, and this process runs as user {os.geteuid()}: "
                "open the store as that user, or have its files given to you"
            )
        break
    return "give yourself the rights to read and write there"
