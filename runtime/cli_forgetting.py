"""Commands that take memories away, and bring them back: forget, archive, purge, erase, and what
undoes them.

Whatever deletes wants the word ``confirmed``, typed at a terminal or given with ``--confirm``.
Without it nothing is done, the refusal is on record, and the exit code is 5.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from neverforget.runtime.cli_arguments import time_argument
from neverforget.runtime.cli_memory_options import IdArgument
from neverforget.runtime.cli_memory_render import audit_view, memory_view
from neverforget.runtime.cli_render import console, errors, pairs, print_json, size, write_stdout
from neverforget.runtime.cli_store import (
    FORGETTING,
    AgentOption,
    JsonOption,
    NamespaceOption,
    StoreArgument,
    command,
    opened,
)
from neverforget.runtime.memory_json import memory_line
from neverforget.runtime.values import CONFIRMED, Confirmation
from neverforget.storage.errors import ConfirmationRequired, InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

    from neverforget.runtime.memory_values import Memory
    from neverforget.runtime.store import Store
    from neverforget.runtime.values import AuditEntry

WORD = CONFIRMED.value
UNITS = {"d": "days", "h": "hours", "w": "weeks"}

ConfirmOption = Annotated[
    str | None, typer.Option(metavar=WORD, help="Say that it is meant, without being asked.")
]
ReasonOption = Annotated[str | None, typer.Option(help="Why; stands in the audit.")]
ByOption = Annotated[str | None, typer.Option(help="Who goes on record; else --agent, else you.")]


def register(app: typer.Typer) -> None:
    command(app, "forget", forget, FORGET_EXAMPLES, FORGETTING)
    command(app, "undo-forget", undo_forget, UNDO_EXAMPLES, FORGETTING)
    command(app, "archive", archive, ARCHIVE_EXAMPLES, FORGETTING)
    command(app, "unarchive", unarchive, UNARCHIVE_EXAMPLES, FORGETTING)
    command(app, "purge", purge, PURGE_EXAMPLES, FORGETTING)
    command(app, "erase", erase, ERASE_EXAMPLES, FORGETTING)


FORGET_EXAMPLES = """
neverforget forget ./memory 0199a8f3-… --reason "no longer true"
neverforget forget ./memory 0199a8f3-… --confirm confirmed --by ada
"""


def forget(
    store: StoreArgument,
    memory_id: IdArgument,
    confirm: ConfirmOption = None,
    reason: ReasonOption = None,
    by: ByOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Forget a memory: no search and no listing finds it any more.

    The record of it is on the disk before it takes effect. undo-forget brings it back, until it is
    purged.
    """
    with opened(store, agent=agent) as opened_store:
        word = _asked(opened_store, memory_id, confirm, "forgotten; undo-forget brings it back")
        entry = _meant(opened_store.forget, memory_id, confirm=word, reason=reason, by=by)
    _print_entry(entry, as_json=as_json)


UNDO_EXAMPLES = """
neverforget undo-forget ./memory 0199a8f3-2c51-7a0e-9d43-5f0e6a7b8c9d
"""


def undo_forget(
    store: StoreArgument,
    memory_id: IdArgument,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring a forgotten memory back, with its tags, relations and history."""
    with opened(store, agent=agent) as opened_store:
        opened_store.undo_forget(memory_id)
        found = opened_store.get(memory_id)
    _print_memory(found, as_json=as_json)


ARCHIVE_EXAMPLES = """
neverforget archive ./memory 0199a8f3-… --reason "the pilot is over"
neverforget recall ./memory pilot --archived
"""


def archive(
    store: StoreArgument,
    memory_id: IdArgument,
    confirm: ConfirmOption = None,
    reason: ReasonOption = None,
    by: ByOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Hide a memory from recall and keep it."""
    with opened(store, agent=agent) as opened_store:
        word = _asked(opened_store, memory_id, confirm, "archived; unarchive brings it back")
        _meant(opened_store.archive, memory_id, confirm=word, reason=reason, by=by)
        found = opened_store.get(memory_id)
    _print_memory(found, as_json=as_json)


UNARCHIVE_EXAMPLES = """
neverforget unarchive ./memory 0199a8f3-2c51-7a0e-9d43-5f0e6a7b8c9d
"""


def unarchive(
    store: StoreArgument,
    memory_id: IdArgument,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Let recall find an archived memory again."""
    with opened(store, agent=agent) as opened_store:
        opened_store.unarchive(memory_id)
        found = opened_store.get(memory_id)
    _print_memory(found, as_json=as_json)


PURGE_EXAMPLES = """
neverforget purge ./memory --older-than 90d --dry-run
neverforget purge ./memory --older-than 2026-01-01 --confirm confirmed
"""


def purge(
    store: StoreArgument,
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="Forgotten before: 90d, 12w, 48h, or a date.")
    ],
    namespace: NamespaceOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count only.")] = False,
    confirm: ConfirmOption = None,
    reason: ReasonOption = None,
    by: ByOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give up for good what was forgotten long ago, and overwrite it on the disk.

    Counts from when a memory was forgotten, not from when it was remembered. It cannot be undone.
    """
    age = _age(older_than)
    with opened(store, agent=agent) as opened_store:
        view = opened_store.scoped(namespace=tuple(namespace)) if namespace else opened_store
        count = view.purge(older_than=age, dry_run=True)
        if not dry_run:
            said = f"{count:,} forgotten memories will be given up; this cannot be undone"
            word = confirmation(confirm, said)
            count = _meant(view.purge, older_than=age, confirm=word, reason=reason, by=by)
    if as_json:
        print_json({"purged": count, "dry_run": dry_run})
    else:
        console().print(f"{count:,} {'would be ' if dry_run else ''}purged")


ERASE_EXAMPLES = """
neverforget erase ./memory 0199a8f3-… --reason "asked for by the customer"
neverforget erase ./memory -N customers -N 4711 --dry-run
neverforget erase ./memory -N customers -N 4711 --confirm confirmed
"""


def erase(
    store: StoreArgument,
    memory_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="Id of the memory.", show_default=False)
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            "-N",
            metavar="NAME",
            help="All sessions and memories at and below this namespace instead.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count only, with --namespace.")
    ] = False,
    confirm: ConfirmOption = None,
    reason: ReasonOption = None,
    by: ByOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Overwrite the words of a memory on the disk, everywhere in the store. It cannot be undone.

    The report names the copies that are beyond reach: backups, exports.
    """
    if (memory_id is None) == (not namespace):
        raise InvalidArgument("give either the ID of a memory or --namespace")
    with opened(store, agent=agent) as opened_store:
        if memory_id is not None:
            word = _asked(opened_store, memory_id, confirm, "erased for good")
            report = _meant(opened_store.erase, memory_id, confirm=word, reason=reason, by=by)
        else:
            place = tuple(namespace or ())
            report = opened_store.erase_where(namespace=place, dry_run=True)
            if not dry_run:
                said = f"{_counts(report)} will be erased for good"
                word = confirmation(confirm, said)
                report = _meant(
                    opened_store.erase_where, namespace=place, confirm=word, reason=reason, by=by
                )
    if as_json:
        print_json({**msgspec.to_builtins(report), "dry_run": dry_run})
        return
    rows = {
        "would be erased" if dry_run else "erased": _counts(report),
        "bytes": size(report.bytes),
    }
    console().print(pairs("", rows))
    for beyond in report.unreachable:
        errors().print(f"beyond reach: {beyond}", style="yellow", markup=False)


# ---- confirmation --------------------------------------------------------------------------------


def _asked(store: Store, memory_id: str, confirm: str | None, fate: str) -> Confirmation | None:
    """The confirmation for one memory, which is shown before anybody is asked."""
    found = store.get(memory_id, include_forgotten=True)
    if confirm is None and _can_ask():
        errors().print(memory_view(found), soft_wrap=False)
    return confirmation(confirm, f"this memory will be {fate}")


def confirmation(confirm: str | None, said: str) -> Confirmation | None:
    """CONFIRMED if the word was given, or is typed now; None refuses, at the owner, on record."""
    if confirm is None and _can_ask():
        out = errors()
        out.print(said, style="yellow", markup=False)
        out.print(f"type {WORD} to go on: ", end="", markup=False)
        confirm = sys.stdin.readline().strip()
    return CONFIRMED if confirm == WORD else None


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _meant(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    try:
        return call(*arguments, **named)
    except ConfirmationRequired as error:
        raise ConfirmationRequired(
            f"nothing was deleted, and the attempt is on record; give --confirm {WORD} if it is "
            "meant"
        ) from error


def _print_entry(entry: AuditEntry, *, as_json: bool) -> None:
    if as_json:
        print_json(msgspec.to_builtins(entry))
    else:
        out = console()
        out.print(audit_view(entry, wrap=out.is_terminal))


def _print_memory(memory: Memory, *, as_json: bool) -> None:
    if as_json:
        write_stdout(memory_line(memory))
    else:
        out = console()
        out.print(memory_view(memory, wrap=out.is_terminal))


def _counts(report: Any) -> str:
    counts = {"turn": report.turns, "memory": getattr(report, "memories", 0)}
    plural = {"turn": "turns", "memory": "memories"}
    said = [f"{n:,} {noun if n == 1 else plural[noun]}" for noun, n in counts.items() if n]
    return " and ".join(said) or "nothing"


def _age(text: str) -> timedelta | datetime:
    """``90d`` as a span, anything else as a date."""
    if text[:-1].isdecimal() and text[-1] in UNITS:
        return timedelta(**{UNITS[text[-1]]: int(text[:-1])})
    at = time_argument(text)
    if at > datetime.now(UTC):
        raise InvalidArgument(f"{text} lies ahead; give a date of the past, or an age such as 90d")
    return at
