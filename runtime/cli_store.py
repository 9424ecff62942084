"""How commands find their store, and what their exit codes mean.

STORE stands first in every command and may be left out where ``$NEVERFORGET_STORE`` is set. A store
that somebody hosts is attached to; one that nobody hosts is opened in this process, without Ray.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from neverforget.runtime.cli_render import ReaderGone
from neverforget.runtime.store_path import is_refusal, named_directory, typed_errors
from neverforget.storage.errors import (
    ConfirmationRequired,
    InvalidArgument,
    NeverforgetError,
    NotFound,
    Overloaded,
    StoreLocked,
    Unavailable,
)

if TYPE_CHECKING:
    from neverforget.runtime.store import Store

RAY_PREFIX = "ray:"
STORE_VARIABLE = "NEVERFORGET_STORE"
WAIT_S = 5.0
RETRY_S = 0.05

DONE, FAILED, USAGE, NOT_FOUND, LOCKED, UNCONFIRMED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
READER_GONE = 141

# How the commands are grouped in the help, in this order.
THE_STORE, CONVERSATIONS, MEMORIES = "The store", "Conversations", "Memories"
FORGETTING, MOVING = "Forgetting", "In and out"

# What those meant who gave a command more words than it has arguments.
WORDS_LEFT = {
    "tag": "give each tag as --add TAG, or --remove TAG",
    "relate": "say how they are related as --kind KIND, behind the two ids",
}

StoreArgument = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        envvar=STORE_VARIABLE,
        help="Directory of the store, or ray:NAME. May be left out where the variable is set.",
    ),
]
NamespaceOption = Annotated[
    list[str] | None,
    typer.Option(
        "--namespace",
        "-N",
        metavar="NAME",
        help="Namespace, one element each time: -N acme -N alice.",
    ),
]
AgentOption = Annotated[str | None, typer.Option(help="Who does it; goes on record.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print data for a program to read.")]


def command(
    app: typer.Typer, name: str, function: Callable[..., None], examples: str, panel: str
) -> None:
    """Add ``function`` as a command. Its docstring is the help, its paragraphs flow; ``examples``
    are lines to type; ``panel``: with which others it is listed."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    flowing = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    lines = "\n\n".join(("Examples:", *examples.strip().splitlines()))
    add = app.command(name, cls=StoreFirst, help=flowing, epilog=lines, rich_help_panel=panel)
    add(function)


def exit_code(error: NeverforgetError) -> int:
    if isinstance(error, ConfirmationRequired):
        return UNCONFIRMED
    if isinstance(error, InvalidArgument):
        return USAGE
    if isinstance(error, NotFound):
        return NOT_FOUND
    if isinstance(error, StoreLocked | Unavailable | Overloaded):
        return LOCKED
    return FAILED


class StoreFirst(TyperCommand):
    """A command whose first argument may come from the environment although others follow it. It
    ends with ReaderGone when nobody reads what it prints.

    Arguments are filled from the left, so one too few would otherwise make the session's name the
    store.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        store = os.environ.get(STORE_VARIABLE)
        wanted = sum(p.param_type_name == "argument" for p in self.params)
        takes_store = any(p.name == "store" and p.required for p in self.params)
        given = self._positional(args)
        if store and takes_store and given == wanted - 1:
            args = [store, *args]
        if given > wanted and (remedy := WORDS_LEFT.get(self.name or "")):
            raise InvalidArgument(f"there are {given - wanted} words too many; {remedy}")
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError as error:
            raise ReaderGone from error
        return result

    def _positional(self, args: Sequence[str]) -> int:
        """How many of ``args`` are neither options nor their values."""
        takes_value = {
            name: not getattr(p, "is_flag", False)
            for p in self.params
            if p.param_type_name == "option"
            for name in p.opts
        }
        count, rest = 0, iter(args)
        for word in rest:
            if word == "--":
                return count + sum(1 for _ in rest)
            if word == "-" or not word.startswith("-"):
                count += 1
            elif takes_value.get(word, False):
                next(rest, None)
        return count


def store_path(store: str) -> Path:
    """The directory that STORE names."""
    if store.startswith("ray:"):
        raise InvalidArgument(
            f"{store} names a store on a Ray cluster, which this command cannot use; give the path "
            "of a store"
        )
    if not store:
        raise InvalidArgument("STORE is empty; give the path of a store")
    return named_directory(store)


def store_exists(path: Path) -> bool:
    from neverforget.runtime.store_directory import exists

    with typed_errors(path):
        return exists(path)


@contextmanager
def opened(store: str, *, create: bool = False, agent: str | None = None) -> Iterator[Store]:
    """The store that STORE names, attached or inline. Without ``create`` it must be there
    already."""
    if store.startswith(RAY_PREFIX):
        with _connected(store, agent) as connected:
            yield connected
        return
    path = store_path(store)
    if not create and not store_exists(path):
        raise NotFound(
            f"there is no store at {path}; `neverforget append`, `remember` and `import` make one"
        )
    handle = open_store(path, agent=agent)
    try:
        yield handle
    finally:
        handle.close()


@contextmanager
def _connected(store: str, agent: str | None) -> Iterator[Store]:
    import neverforget as nf
    from neverforget.runtime.deployment import split_address

    name, address = split_address(store)
    with nf.connect(name, address=address, agent=agent) as connected:
        yield connected


def is_hosted(path: Path) -> bool:
    """A process that others can attach to has the store."""
    from neverforget.runtime.endpoint import read_endpoint

    with typed_errors(path):
        endpoint = read_endpoint(path)
    return endpoint is not None and endpoint.alive and endpoint.kind != "inline"


def open_store(path: Path, *, agent: str | None = None) -> Store:
    """Attach where the store is hosted, else open it here. Another command that has it for a moment
    is waited for. Nothing is reflected here unless the command asks for it: it ends too soon.
    """
    import neverforget as nf
    from neverforget.runtime.store import open_quietly

    deadline = time.monotonic() + WAIT_S
    while True:
        hosted = is_hosted(path)
        left = deadline - time.monotonic()
        try:
            if hosted:
                return nf.open(path, host="never", wait=max(left, RETRY_S), agent=agent)
            return open_quietly(path, agent=agent)
        except (StoreLocked, Unavailable) as error:
            # Between two hosts, or while another command has it inline: the next look may tell
            # otherwise.
            if left <= 0 or is_refusal(error):
                raise
            time.sleep(min(RETRY_S, left))
