"""Owners as Ray sees them: finding, calling, stopping. For callers on other nodes, and for the
host."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ray
from ray._private import state as ray_state
from ray.exceptions import (
    ActorDiedError,
    ActorUnschedulableError,
    GetTimeoutError,
    RayActorError,
    RayError,
)

from neverforget.actors import ray_link
from neverforget.actors.actor_options import NAMESPACE
from neverforget.actors.chunker_spec import Chunked, Document
from neverforget.storage.errors import Unavailable

HEAD_S = 5.0  # a head that is only slow has answered by then
GONE = "Can't find actor"
LOOK_S = 2.0  # a call without an answer for so long asks whether the owner is still the one
# Ray passes arguments of less than 100 KiB on with the call, 10 MiB in all, and keeps others in its
# object store, whose contents it writes to a disk when there are many. Pieces are faster, too, as
# long as they are few.
PIECE_BYTES = 90 * 1024
IN_PIECES_MAX = 4 * 1024 * 1024


class OwnerHandle:
    """One owner. Pickles; works in any process that is connected to the same Ray."""

    def __init__(self, name: str, actor: Any = None) -> None:
        self.name = name
        self._actor = actor

    def __reduce__(self) -> tuple[Any, ...]:
        return OwnerHandle, (self.name,)

    def call(
        self,
        frame: bytes,
        timeout_s: float,
        moved: Callable[[], bool] | None = None,
        ended: Callable[[], object] = lambda: None,
    ) -> bytes:
        """Ask and wait. Unavailable (outcome unknown) when no answer came. ``moved`` is asked now
        and then while there is none: True ends the waiting. ``ended`` is called once, on any
        thread, when Ray has let the call go: later, where its answer is not waited for."""
        with self._asked(frame, ended) as call:
            return self._wait(call, timeout_s, moved)

    @contextlib.contextmanager
    def _asked(self, frame: bytes, ended: Callable[[], object]) -> Iterator[Any]:
        call, answered = None, False
        try:
            call = self._sent("call", *pieces_of(frame))
            yield call
            answered = True
        except GetTimeoutError as error:
            raise self._unanswered(error) from error
        except (RayActorError, ActorUnschedulableError) as error:
            answered = True
            self._forget_dead(error)
            raise self._unanswered(error) from error
        finally:
            if call is None or answered:
                ended()
            else:
                call.future().add_done_callback(lambda _: ended())

    def _unanswered(self, error: Exception) -> Unavailable:
        return Unavailable(f"owner {self.name} did not answer: {error}", outcome="unknown")

    def _wait(self, call: Any, timeout_s: float, moved: Callable[[], bool] | None) -> bytes:
        until = time.monotonic() + timeout_s
        while moved is not None and until - time.monotonic() > LOOK_S:
            with contextlib.suppress(GetTimeoutError):
                found: bytes = ray.get(call, timeout=LOOK_S)
                return found
            if moved():
                raise GetTimeoutError("it was moved meanwhile")
        last: bytes = ray.get(call, timeout=max(0.0, until - time.monotonic()))
        return last

    async def call_async(self, frame: bytes, ended: Callable[[], object] = lambda: None) -> bytes:
        """The same, awaited; the caller sets the time limit."""
        try:
            if self._actor is None:
                await asyncio.to_thread(lambda: self.actor)
        except BaseException:
            ended()
            raise
        with self._asked(frame, ended) as call:
            reply: bytes = await call
            return reply

    def _sent(self, method: str, *arguments: Any) -> Any:
        if not ray.is_initialized():  # Ray would start a cluster now, or join a stranger's
            raise Unavailable(ray_link.explained("not connected"), outcome="not_applied")
        try:
            return getattr(self.actor, method).remote(*arguments)
        except Exception as error:
            if GONE not in str(error):
                raise
            # Ray has no type for that: everybody who knew of the actor has let it go.
            self._actor = None
            raise Unavailable(
                f"owner {self.name} has ended for good", outcome="not_applied"
            ) from error

    def _forget_dead(self, error: Exception) -> None:
        """Ray has given that actor up. The next one of its name is another."""
        if isinstance(error, ActorDiedError | ActorUnschedulableError):
            self._actor = None

    def ring(self, bell: str, timeout_s: float) -> None:
        """Have it ring a bell on its node, see ``doorbell.py``; whatever comes of it."""
        with contextlib.suppress(Unavailable, RayError):
            ray.get(self._sent("ring", bell), timeout=timeout_s)

    def describe(self, timeout_s: float) -> dict[str, Any]:
        """Its pid, state and reason. Unavailable when it does not answer."""
        try:
            told: dict[str, Any] = ray.get(self._sent("describe"), timeout=timeout_s)
        except RayError as error:
            raise Unavailable(
                f"owner {self.name} did not start: {error}", outcome="not_applied"
            ) from error
        return told

    def pid(self) -> int | None:
        """Of its process, as Ray has started it: known before it answers anybody."""
        if ray_link.trouble() is not None:
            return None
        try:
            told: dict[str, Any] = ray_state.actors(self.actor._actor_id.hex())
        except (Unavailable, RayError):
            return None
        return told.get("Pid") or None

    def is_dead(self, timeout_s: float) -> bool:
        """Ray has given this owner up and will not start it again. False while it may come back."""
        try:
            ray.get(self._sent("describe"), timeout=timeout_s)
        except (ActorDiedError, Unavailable):
            return True
        except RayError:
            return False
        return False

    def stop(self) -> Any:
        """Have it drain, seal and end: what to wait for. Unavailable."""
        return self._sent("stop")

    def restart(self) -> None:
        """End its process, whatever state that is in, and have Ray start the next."""
        with contextlib.suppress(Unavailable, RayError, ValueError):
            ray.kill(self.actor, no_restart=False)

    @property
    def actor(self) -> Any:
        actor = self._actor  # another thread may forget it meanwhile
        if actor is None:
            ray_link.check()
            try:
                actor = self._actor = ray.get_actor(self.name, namespace=NAMESPACE)
            except ValueError as error:
                raise Unavailable(
                    f"no owner {self.name} on this Ray cluster", outcome="not_applied"
                ) from error
        return actor


def pieces_of(frame: bytes) -> list[bytes]:
    """As the arguments of a call; see ``IN_PIECES_MAX``."""
    if len(frame) > IN_PIECES_MAX:
        return [frame]
    return [frame[at : at + PIECE_BYTES] for at in range(0, len(frame), PIECE_BYTES)]


class RemoteChunker:
    """A ``Member`` of the chunker pool in a process of its own (see chunker_pool.py)."""

    def __init__(self, actor: Any) -> None:
        self._actor = actor

    def ready(self) -> None:
        self._wait(self._actor.ready.remote())

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        found: list[Chunked] = self._wait(self._actor.chunk.remote(documents))
        return found

    def end(self) -> None:
        with contextlib.suppress(RayError, ValueError):
            ray.kill(self._actor, no_restart=True)

    def _wait(self, call: Any) -> Any:
        try:
            return ray.get(call)
        except RayError as error:
            why = str(error).strip().partition("\n")[0]
            raise Unavailable(f"a chunker has ended: {why}", outcome="not_applied") from error


def end_all(handles: Sequence[OwnerHandle]) -> None:
    """End owners for good, as they are: what they acknowledged is recovered by the next ones. Only
    the head can do that, and Ray would wait for it; without it they end with their host."""
    if ray_link.trouble(HEAD_S) is not None:
        return
    for handle in handles:
        with contextlib.suppress(Unavailable, RayError, ValueError):
            ray.kill(handle.actor, no_restart=True)


def stop_all(handles: Sequence[OwnerHandle], timeout_s: float) -> list[str]:
    """Have owners drain, seal and end, all at once and for good. The names of those that did not
    end in order: what they acknowledged is recovered by the next one. Needs no thread: it may be
    called while the interpreter ends."""
    stopping: dict[str, Any] = {}
    for handle in handles:
        with contextlib.suppress(Unavailable, RayError):
            stopping[handle.name] = handle.stop()
    calls = list(stopping.values())
    if calls:
        ray.wait(calls, num_returns=len(calls), timeout=timeout_s)
    disorderly = {handle.name for handle in handles}
    for name, call in stopping.items():
        with contextlib.suppress(RayError):
            ray.get(call, timeout=0)
            disorderly.discard(name)
    end_all(handles)
    return sorted(disorderly)
