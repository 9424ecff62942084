"""The fault shim from Python: compile it, hand it to a child, arm and disarm rules as it runs."""

from __future__ import annotations

import errno
import mmap
import os
import shutil
import struct
import subprocess
import sys
from enum import IntEnum
from pathlib import Path

SOURCE = Path(__file__).with_name("fault_shim.c")

_RULE = struct.Struct("<16s256sIiIIIIII")
_SEEN_AT = 16 + 256 + 16
_HITS_AT = _SEEN_AT + 4
_ARMED_AT = _SEEN_AT + 8
_RULES = 16
_EVER = 0xFFFFFFFF


class Action(IntEnum):
    """As `enum action` in the source. The argument is an errno, a number of bytes, or of ms."""

    COUNT = 0
    FAIL = 1
    SHORT = 2
    KILL_BEFORE = 3
    KILL_AFTER = 4
    DELAY_MS = 5
    LIE = 6
    BLOCK = 7  # until disarmed
    STOP = 8


def reason_not_to_run() -> str | None:
    """Why no shim can be used here, or None."""
    if not sys.platform.startswith("linux"):
        return "not run: a preloaded shim needs Linux"
    if shutil.which("gcc") is None:
        return "not run: gcc is missing"
    return None


def compile_shim(directory: Path, source: Path = SOURCE) -> Path:
    """``source``: of this shim, or of another one."""
    target = directory / source.with_suffix(".so").name
    subprocess.run(
        ["gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", target, source, "-ldl"],
        check=True,
        capture_output=True,
    )
    return target


class Rule:
    """One armed rule. ``seen``: calls that its text matched; ``hits``: those it acted on."""

    def __init__(self, table: mmap.mmap, offset: int) -> None:
        self._table, self._offset = table, offset

    @property
    def seen(self) -> int:
        return self._word(_SEEN_AT)

    @property
    def hits(self) -> int:
        return self._word(_HITS_AT)

    def disarm(self) -> None:
        struct.pack_into("<I", self._table, self._offset + _ARMED_AT, 0)

    def _word(self, at: int) -> int:
        return int(struct.unpack_from("<I", self._table, self._offset + at)[0])


class Shim:
    """A rule table and the environment that makes a child process obey it."""

    def __init__(self, library: Path, table: Path) -> None:
        table.write_bytes(bytes(_RULE.size * _RULES))
        self._library, self._path = library, table
        descriptor = os.open(table, os.O_RDWR | os.O_CLOEXEC)
        self._table = mmap.mmap(descriptor, _RULE.size * _RULES)
        os.close(descriptor)
        self._used = 0

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {"LD_PRELOAD": str(self._library), "NF_FAULT_TABLE": str(self._path)}

    def arm(
        self,
        call: str,
        action: Action,
        *,
        path: str = "",
        argument: int = errno.EIO,
        first: int = 1,
        last: int | None = None,
        ever_after: bool = False,
    ) -> Rule:
        """``call``: pwrite, write, pread, fdatasync, fsync, allocate, rename, unlink or send.
        Counted from 1, from now on; ``last`` is ``first`` unless given.
        """
        stop = _EVER if ever_after else first if last is None else last
        offset = self._used * _RULE.size
        self._used += 1
        assert self._used <= _RULES
        fields = (call.encode(), os.fsencode(path), action, argument, first, stop)
        _RULE.pack_into(self._table, offset, *fields, 0, 0, 0, 0)
        struct.pack_into("<I", self._table, offset + _ARMED_AT, 1)
        return Rule(self._table, offset)

    def disarm_all(self) -> None:
        for index in range(self._used):
            Rule(self._table, index * _RULE.size).disarm()
        self._used = 0

    def close(self) -> None:
        self.disarm_all()
        self._table.close()
