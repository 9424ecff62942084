"""How a process gets at a store: attached to its host, or hosting it itself.

``attach`` finds the host through ENDPOINT, and never imports Ray. Where there is none it brings one
up: in this process if it is a Ray driver already, else as ``neverforget serve PATH --linger 60``.
For owners as plain objects in this process see ``inline.py``.

Invariants
* One host per process and real path (``hosting.py``); the last handle's ``close`` ends it.
* A forked child owns nothing: it attaches anew, and closing its handles does not touch the parent.
* Nothing is created unless ``create``; an existing store is checked against the expected id.
"""

from __future__ import annotations

import math
import os
import socket
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any, Literal

from neverforget.actors.greeting import greet
from neverforget.runtime.config import Config
from neverforget.runtime.endpoint import Endpoint, read_endpoint
from neverforget.runtime.hosting import Hosting, hosting_of, share_hosting
from neverforget.runtime.start_host import is_held, pause, start_host
from neverforget.runtime.store_path import refusal
from neverforget.storage.directory_lock import process_state, this_process
from neverforget.storage.errors import (
    InvalidArgument,
    NeverforgetError,
    StoreClosed,
    StoreLocked,
    Unavailable,
    UnsupportedFormat,
)

HostChoice = Literal["auto", "never"]
_GREETING_S = 5.0


def attach(
    path: str | os.PathLike[str],
    *,
    host: HostChoice = "auto",
    wait: float = 30.0,
    create: bool = True,
    store_id: str | None = None,
    config: Config | None = None,
) -> Attachment:
    """Get hold of the process that hosts the store at ``path``, at most ``wait`` seconds long.

    ``host`` "auto": bring one up where there is none; "never": only wait out a change of host.
    Raises Unavailable (no host, or it did not start), StoreLocked (open inline in a process),
    NotFound (no store there, and not ``create``), UnsupportedFormat, InvalidArgument.
    """
    if host not in ("auto", "never"):
        raise InvalidArgument(f'host must be "auto" or "never", not {host!r}')
    real = Path(os.path.realpath(path))
    attachment = Attachment(real, host, wait, create, store_id, config or Config())
    try:
        attachment.refresh()
    except BaseException:
        attachment.close()
        raise
    return attachment


class Attachment:
    """A hold on the host of a store. Threads may share it."""

    def __init__(
        self,
        path: Path,
        host: HostChoice,
        wait_s: float,
        create: bool,
        store_id: str | None,
        config: Config,
    ) -> None:
        self.path = path
        self.closed = False
        self._host_choice: HostChoice = host
        self._wait_s = wait_s
        self._create = create
        self._store_id = store_id
        self._config = config
        self._endpoint: Endpoint | None = None
        self._control: socket.socket | None = None
        self._hosting: Hosting | None = None
        self._lock = threading.Lock()
        _attachments.add(self)

    @property
    def store_id(self) -> str:
        return self.endpoint.store_id

    @property
    def endpoint(self) -> Endpoint:
        """As last found."""
        assert self._endpoint is not None, "attach() gives out only what it has found"
        return self._endpoint

    def refresh(self, deadline: float | None = None) -> Endpoint:
        """Where the owners are now. Costs one system call while the host is the same; otherwise
        finds the next host, or brings it up, until ``deadline`` (monotonic; None or infinite:
        ``wait`` seconds from now). Raises what ``attach`` raises, and StoreClosed."""
        if deadline is None or deadline == math.inf:
            # What is asked may take for ever; that there is nobody to ask must be said.
            deadline = time.monotonic() + self._wait_s
        left_s = min(deadline - time.monotonic(), threading.TIMEOUT_MAX)
        if not self._lock.acquire(timeout=max(0.0, left_s)):
            raise _no_answer(self.path, self._endpoint)  # another thread still looks for the host
        try:
            self._check_open()
            if self._endpoint is None or not _is_open(self._control):
                self._let_go()
                self._endpoint = self._find(deadline)
                # From here on it is this store and no other, and it is not made a second time.
                self._store_id = self._endpoint.store_id
                self._create = False
            return self._endpoint
        finally:
            self._lock.release()

    def lend_embedder(self, embedder: Any) -> str:
        """Where this process hosts the store: let it embed with this object, too."""
        name = None if self._hosting is None else self._hosting.lend_embedder(embedder)
        if name is None:
            raise _object_elsewhere(self.path, "embedder")
        return name

    def close(self) -> None:
        """Let the host go. Where it runs in this process and this was the last handle, it ends:
        drained, sealed, its actors stopped. Idempotent."""
        self.closed = True  # a thread that looks for the host stops looking
        with self._lock:
            self._let_go()
            hosting, self._hosting = self._hosting, None
        if hosting is not None:
            hosting.release()

    # ---- finding a host --------------------------------------------------------------------------

    def _find(self, deadline: float) -> Endpoint:
        attempt = 0
        while True:
            self._check_open()
            endpoint = read_endpoint(self.path)
            silent = False
            if endpoint is not None and endpoint.alive:
                if endpoint.kind == "inline" and is_held(self.path):
                    raise _open_inline_elsewhere(self.path, endpoint)
                self._check_id(endpoint.store_id)
                try:
                    if process_state(endpoint.process) == "T":
                        raise TimeoutError
                    self._control, _ = greet(
                        endpoint.control, endpoint.store_id, _within(_GREETING_S, deadline)
                    )
                    if endpoint.process == this_process() and self._hosting is None:
                        self._hosting = share_hosting(self.path)
                    return endpoint
                except TimeoutError:
                    silent = True  # stopped or hung: the next host knows what to do with it
                except (OSError, Unavailable):
                    pass  # it is just coming, or going
            if self._host_choice == "never":
                # Who was attached waits for the next host; who was not is told that there is none.
                if self._endpoint is None and endpoint is None and not is_held(self.path):
                    raise _nobody(self.path)
            elif silent or endpoint is None or not endpoint.alive or not is_held(self.path):
                self._bring_up(deadline)
            if time.monotonic() >= deadline:
                raise _no_answer(self.path, endpoint)
            pause(attempt, deadline)
            attempt += 1

    def _bring_up(self, deadline: float) -> None:
        if _hosts_here():
            if self._hosting is None:
                self._hosting = hosting_of(self.path)
            self._hosting.ensure(self._config, create=self._create, store_id=self._store_id)
        else:
            named = self._config.named
            for setting, name in self._config.object_names.items():
                if setting in named:
                    if self._endpoint is None:
                        raise _object_elsewhere(self.path, setting)
                    named[setting] = name  # conversations go on without it
            try:
                start_host(self.path, named, deadline, create=self._create)
            except OSError as error:
                if isinstance(error, NeverforgetError):
                    raise
                raise refusal(self.path, error) from error

    def _check_open(self) -> None:
        if self.closed:
            raise StoreClosed("this handle was closed; open the store again")

    def _check_id(self, found: str) -> None:
        if self._store_id is not None and found != self._store_id:
            raise UnsupportedFormat(
                f"{self.path} is store {found} now, not {self._store_id}; open it again"
            )

    def _let_go(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None

    def _forget_in_child(self) -> None:
        self._lock = threading.Lock()
        self._hosting = None
        self._let_go()


def _is_open(control: socket.socket | None) -> bool:
    """The host never says anything unasked: bytes or an end mean that it is going."""
    if control is None:
        return False
    try:
        control.setblocking(False)
        control.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _within(seconds: float, deadline: float) -> float:
    return max(0.05, min(seconds, deadline - time.monotonic()))


def _hosts_here() -> bool:
    """This process is a Ray driver already. Ray is not imported to find that out."""
    ray = sys.modules.get("ray")
    if ray is None or not hasattr(ray, "is_initialized") or not ray.is_initialized():
        return False
    from neverforget.runtime.cluster import is_ours_to_use

    return is_ours_to_use()


def _forget_in_child() -> None:
    for attachment in list(_attachments):
        attachment._forget_in_child()


_attachments: weakref.WeakSet[Attachment] = weakref.WeakSet()
os.register_at_fork(after_in_child=_forget_in_child)


# ---- errors --------------------------------------------------------------------------------------


def _nobody(path: Path) -> Unavailable:
    return Unavailable(f"no host for {path}; run: neverforget serve {path}", outcome="not_applied")


def _no_answer(path: Path, endpoint: Endpoint | None) -> Unavailable:
    if endpoint is None or not endpoint.alive:
        return _nobody(path)
    return Unavailable(
        f"the host of {path} (process {endpoint.process.pid}) does not answer",
        outcome="not_applied",
    )


def _object_elsewhere(path: Path, setting: str) -> InvalidArgument:
    return InvalidArgument(
        f"the object given as {setting} lives in the process that hosts the store, and {path} is "
        "hosted by one of its own; call ray.init() first, so that this process hosts it, or pass "
        "inline=True, or give a name"
    )


def _open_inline_elsewhere(path: Path, endpoint: Endpoint) -> StoreLocked:
    pid = endpoint.process.pid
    who = "this process" if pid == os.getpid() else f"process {pid}"
    return StoreLocked(
        f"{path} is open inline in {who}; close it there, or open it there with inline=True",
        pid=pid,
        role="application",
    )
