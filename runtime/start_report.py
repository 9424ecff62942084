"""How a host that was started by an attaching client tells it that it is up, or why not.

The client passes the writing end of a pipe in the environment. One JSON line comes back; the end of
the pipe without one means that the host died.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from typing import Any

import msgspec

from neverforget.storage.errors import (
    NeverforgetError,
    Unavailable,
    from_wire,
    to_wire,
)

_VARIABLE = "NEVERFORGET_START_REPORT"
_REPORT_BYTES_MAX = 64 * 1024


class _Report(msgspec.Struct):
    code: str | None = None  # None: it is up
    message: str = ""
    fields: dict[str, Any] = {}


class StartReport:
    """The host's side. Without a client that waits, all of it does nothing."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    @classmethod
    def from_environment(cls) -> StartReport:
        value = os.environ.pop(_VARIABLE, "")
        if not value.isdecimal():
            return cls(None)
        descriptor = int(value)
        try:
            os.set_inheritable(descriptor, False)  # Ray's processes live as long as we do
        except OSError:
            return cls(None)
        return cls(descriptor)

    def ready(self) -> None:
        self._write(_Report())

    def failed(self, error: Exception) -> None:
        if not isinstance(error, NeverforgetError):
            error = Unavailable(f"the host did not start: {error}", outcome="not_applied")
        self._write(_Report(*to_wire(error)))

    def _write(self, report: _Report) -> None:
        if self._descriptor is None:
            return
        with contextlib.suppress(OSError):  # nobody waits any more
            os.write(self._descriptor, msgspec.json.encode(report)[:_REPORT_BYTES_MAX] + b"\n")
            os.close(self._descriptor)
        self._descriptor = None


class ReportPipe:
    """The client's side: ``environment`` and ``descriptor`` go to the host, ``wait`` hears it."""

    def __init__(self) -> None:
        self._out, self.descriptor = os.pipe()
        self._received = b""

    @property
    def environment(self) -> dict[str, str]:
        return {_VARIABLE: str(self.descriptor)}

    def started(self) -> None:
        """The host has its copy: let go of ours, so that its death ends the pipe."""
        os.close(self.descriptor)

    def wait(self, deadline: float) -> bool:
        """True: it is up. False: it died without a word. Raises what it says went wrong;
        TimeoutError at ``deadline`` (monotonic)."""
        poll = select.poll()
        poll.register(self._out, select.POLLIN)
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise TimeoutError("the host is still starting")
            piece = os.read(self._out, _REPORT_BYTES_MAX)
            if not piece:
                return False
            self._received += piece
        report = msgspec.json.decode(self._received, type=_Report)
        if report.code is not None:
            raise from_wire(report.code, report.message, report.fields)
        return True

    def close(self) -> None:
        os.close(self._out)
