"""``status --watch`` and ``status --check``: a store as its host shows it, again and again, or once
for a probe. Neither opens a store by itself: that would keep its host from starting.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from neverforget.runtime.cli_owners import last_errors, owners_table, short_size
from neverforget.runtime.cli_render import console, errors, local, print_json, printable
from neverforget.runtime.cli_store import FAILED, RAY_PREFIX, is_hosted, store_exists, store_path
from neverforget.storage.errors import (
    NeverforgetError,
    NotFound,
    Overloaded,
    StoreClosed,
    StoreLocked,
    Unavailable,
)

if TYPE_CHECKING:
    from neverforget.runtime.status_values import Status
    from neverforget.runtime.store import Store

LOOK_S = 3.0  # for one look; who does not answer meanwhile is shown as away
_PASSING = (Unavailable, StoreLocked, StoreClosed, Overloaded)


# ---- once, for a probe ---------------------------------------------------------------------------


def check(store: str, timeout_s: float, as_json: bool) -> None:
    """Print who does not serve; exit code 0: all do. Raises Unavailable where nobody answers."""
    with hosted(store, timeout_s) as handle:
        found = handle.status()
    if as_json:
        print_json({"healthy": found.healthy, "problems": list(found.problems)})
    elif found.healthy:
        partitions = len(found.owners)
        said = f"{partitions} partition" + "s" * (partitions != 1)
        console().print(f"serving: {said} and the memories", markup=False)
    else:
        for problem in found.problems:
            errors().print(printable(problem), markup=False)
    if not found.healthy:
        raise typer.Exit(FAILED)


@contextmanager
def hosted(store: str, timeout_s: float) -> Iterator[Store]:
    """Attached to it, never inline. NotFound: there is no such store; Unavailable: nobody hosts
    it."""
    import neverforget as nf

    if store.startswith(RAY_PREFIX):
        from neverforget.runtime.deployment import split_address

        name, address = split_address(store)
        with nf.connect(name, address=address, deadline=timeout_s) as connected:
            yield connected
        return
    path = store_path(store)
    if not store_exists(path):
        raise NotFound(f"there is no store at {path}")
    if not is_hosted(path):
        raise Unavailable(
            f"nobody hosts the store at {path}; run: neverforget serve {path}",
            outcome="not_applied",
        )
    with nf.open(path, host="never", wait=timeout_s, deadline_s=timeout_s) as attached:
        yield attached


# ---- again and again -----------------------------------------------------------------------------


def watch(store: str, every_s: float, looks: int | None, as_json: bool) -> None:
    """Until Ctrl-C, or after so many looks. A host that goes away is waited for."""
    out = console()
    screen = out.is_terminal and not as_json
    if not screen:
        out.width = 1000  # lines are as long as they are
    live = Live(console=out, screen=looks is None, auto_refresh=False) if screen else None
    watching = Watching(store)
    with live or nullcontext():
        try:
            for _ in _times(looks, every_s):
                watching.look()
                if live is not None:
                    live.update(watching.view(out.width), refresh=True)
                    continue
                if as_json:
                    print_json(watching.as_json())
                else:
                    out.print(watching.view(out.width), Text())
                sys.stdout.flush()  # for whoever reads along
        finally:
            watching.close()


def _times(looks: int | None, every_s: float) -> Iterator[int]:
    """Each when it is due; late ones are left out."""
    due, number = time.monotonic(), 0
    while looks is None or number < looks:
        if number:
            due = max(due + every_s, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
        yield number
        number += 1


class Watching:
    """What is known of a store now. ``found``: the last status; ``gone``: why there is no newer."""

    def __init__(self, store: str) -> None:
        self._store = store
        self._handle: Any = None  # a context, entered, and the store
        self._before: tuple[float, Status] | None = None
        self._now: tuple[float, Status] | None = None
        self.gone: str | None = None

    @property
    def found(self) -> Status | None:
        return None if self._now is None else self._now[1]

    def look(self) -> None:
        """Raises what will not pass by itself."""
        try:
            if self._handle is None:
                context = hosted(self._store, LOOK_S)
                self._handle = context, context.__enter__()
            found = self._handle[1].status()
        except _PASSING as error:
            self.gone = str(error)
            self.close()
            return
        self.gone = None
        self._before, self._now = self._now, (time.monotonic(), found)

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            try:
                handle[0].__exit__(None, None, None)
            except NeverforgetError as error:  # it is gone anyway
                self.gone = self.gone or str(error)

    def rate(self, count: Callable[[Status], int]) -> float | None:
        """Of what grows, a second; None: not known yet."""
        if self._before is None or self._now is None or self.gone is not None:
            return None
        (then, before), (at, now) = self._before, self._now
        if not before.healthy or not now.healthy or at <= then:
            return None  # it lacks what somebody has who does not answer
        return (count(now) - count(before)) / (at - then)

    def as_json(self) -> dict[str, Any]:
        import msgspec

        found = self.found if self.gone is None else None
        told: dict[str, Any] = {"at": datetime.now(UTC).isoformat(), "unavailable": self.gone}
        if found is not None:
            told |= msgspec.to_builtins(found)
            told |= {"healthy": found.healthy, "problems": list(found.problems)}
        return told

    # ---- as a person sees it ---------------------------------------------------------------------

    def view(self, width: int) -> RenderableType:
        found = self.found
        parts: list[RenderableType] = [self._head(found)]
        if self.gone is not None:
            parts.append(Text(printable(self.gone), "red"))
        if found is not None:
            parts += [self._totals(found), Text(), owners_table(found, width)]
            waiting = _waiting(found)
            if waiting:
                parts += [Text(), Text(waiting)]
            parts += [Text(printable(problem), "red") for problem in found.problems]
            parts += [Text(printable(warning), "yellow") for warning in _warnings(found)]
            failed = last_errors(found)
            if failed is not None:
                parts += [Text(), failed]
        return Group(*parts)

    def _head(self, found: Status | None) -> Text:
        name = self._store if found is None else found.path
        at = f"  {local(datetime.now(UTC), seconds=True)} UTC"
        if self.gone is not None:
            state = ("  does not answer", "bold red")
        elif found is not None and found.healthy:
            state = ("  serving", "bold green")
        else:
            state = ("  not all serve", "bold red")
        return Text.assemble((printable(name), "bold"), state, (at, "bright_black"))

    def _totals(self, found: Status) -> Text:
        said = [
            f"sessions {found.sessions:,}",
            f"turns {found.turns:,}{_each_second(self.rate(lambda each: each.turns))}",
            f"memories {found.memories:,}{_each_second(self.rate(lambda each: each.memories))}",
            f"log {short_size(found.log_bytes)}",
        ]
        if found.host is not None:
            said.append(f"clients {sum(owner.clients for owner in found.owners)}")
        return Text("   ".join(said))


def _each_second(rate: float | None) -> str:
    if rate is None or abs(rate) < 0.05:
        return ""
    return f" ({rate:+,.0f}/s)" if abs(rate) >= 10 else f" ({rate:+.1f}/s)"


def _warnings(found: Status) -> list[str]:
    """What is wrong with something that others can do without for a while."""
    logs = {f"partition {owner.partition}": owner.replica for owner in found.owners}
    logs["the memories"] = found.longterm.replica
    said = [
        f"{name}: the replica: {replica.error}"
        for name, replica in logs.items()
        if replica is not None and replica.error is not None
    ]
    if found.longterm.embedder_error is not None:
        said.append(f"the embedder: {found.longterm.embedder_error}")
    if found.reflection.error is not None:
        said.append(f"reflection: {found.reflection.error}")
    return said


def _waiting(found: Status) -> str:
    """What is left to do behind the owners; "": nothing."""
    longterm, reflection = found.longterm, found.reflection
    each = (
        (longterm.waiting, "memories to be embedded"),
        (longterm.chunks_waiting + longterm.chunks_running, "memories to be chunked"),
        (reflection.turns, "turns to be reflected"),
    )
    said = [f"{what} {count:,}" for count, what in each if count]
    return ("waiting: " + ", ".join(said)) if said else ""
