"""Commands about conversations: sessions, append, tail, page."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, cast

import msgspec
import typer

from neverforget.runtime.cli_arguments import json_argument, time_argument
from neverforget.runtime.cli_follow import follow_session, host_watched
from neverforget.runtime.cli_render import (
    columns,
    console,
    errors,
    local,
    place,
    print_json,
    printable,
    turn_view,
    write_stdout,
)
from neverforget.runtime.cli_store import (
    CONVERSATIONS,
    JsonOption,
    NamespaceOption,
    StoreArgument,
    command,
    opened,
    store_path,
)
from neverforget.runtime.turn_json import turn_line, turn_object
from neverforget.storage.errors import NotFound

if TYPE_CHECKING:
    from neverforget.runtime.config import SyncLevel
    from neverforget.runtime.session import Session
    from neverforget.runtime.values import Turn

SessionArgument = Annotated[str, typer.Argument(metavar="SESSION", help="Name of the session.")]
FullOption = Annotated[bool, typer.Option("--full", help="Show long content to its end.")]
HiddenOption = Annotated[bool, typer.Option("--hidden", help="Show hidden turns too.")]


def register(app: typer.Typer) -> None:
    command(app, "sessions", list_sessions, SESSIONS_EXAMPLES, CONVERSATIONS)
    command(app, "append", append, APPEND_EXAMPLES, CONVERSATIONS)
    command(app, "tail", tail, TAIL_EXAMPLES, CONVERSATIONS)
    command(app, "page", page, PAGE_EXAMPLES, CONVERSATIONS)


SESSIONS_EXAMPLES = """
neverforget sessions ./memory
neverforget sessions ./memory -N acme --prefix dm/ --json
"""


def list_sessions(
    store: StoreArgument,
    namespace: NamespaceOption = None,
    prefix: Annotated[str | None, typer.Option(help="Only names that begin with this.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 100,
    after: Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on from here.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List sessions with their turns, tokens and agents."""
    with opened(store) as opened_store:
        found = opened_store.sessions(
            namespace=tuple(namespace) if namespace else None,
            prefix=prefix,
            after=after,
            limit=limit,
        )
    if as_json:
        print_json(
            {
                "items": msgspec.to_builtins(list(found)),
                "next": found.next,
                "has_more": found.has_more,
            }
        )
        return
    table = columns(
        "session", "turns", "tokens", "last turn (UTC)", "agents", right=("turns", "tokens")
    )
    for info in found:
        table.add_row(
            place(info.namespace, info.session),
            f"{info.turns:,}",
            f"{info.tokens:,}",
            local(info.last_at),
            printable(", ".join(info.agents)),
        )
    console().print(table)
    if found.has_more:
        errors().print(f"more: --after {found.next}", style="bright_black", markup=False)


APPEND_EXAMPLES = """
neverforget append ./memory support user "My order has not arrived"
echo '{"ok": true}' | neverforget append ./memory support tool_result - --content-json --call-id
c1
neverforget append ./memory support user "hello" --key mail-42   (a second time, it is the same
turn)
"""


def append(
    store: StoreArgument,
    session: SessionArgument,
    role: Annotated[str, typer.Argument(metavar="ROLE", help="user, assistant, system, …")],
    content: Annotated[str, typer.Argument(metavar="CONTENT", help='The text; "-" reads it.')],
    namespace: NamespaceOption = None,
    name: Annotated[str | None, typer.Option(help="Who speaks.")] = None,
    agent: Annotated[str | None, typer.Option(help="Who appends.")] = None,
    call_id: Annotated[str | None, typer.Option(help="Pairs a result with its call.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Makes it safe to repeat: one turn a key and session.")
    ] = None,
    metadata: Annotated[str | None, typer.Option(metavar="JSON", help="An object.")] = None,
    timestamp: Annotated[
        str | None, typer.Option(metavar="TIME", help="ISO 8601; without a zone it is UTC.")
    ] = None,
    expect_seq: Annotated[
        int | None, typer.Option(help="Append only if the turn gets this seq.")
    ] = None,
    sync: Annotated[
        str | None,
        typer.Option(
            help="disk (survives a power loss), process (any process's death) or replica (the "
            "machine's)."
        ),
    ] = None,
    content_json: Annotated[
        bool, typer.Option("--content-json", help="CONTENT is JSON, not text.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Append one turn.

    When this returns, the turn survives a power loss.
    """
    text = sys.stdin.read() if content == "-" else content
    body = json_argument("CONTENT", text) if content_json else text
    details = {} if metadata is None else json_argument("--metadata", metadata)
    with opened(store, create=True, agent=agent) as opened_store:
        turn = opened_store.session(session, namespace=tuple(namespace or ())).append(
            role,
            body,
            name=name,
            call_id=call_id,
            key=key,
            metadata=details,
            timestamp=None if timestamp is None else time_argument(timestamp),
            expect_seq=expect_seq,
            sync=cast("SyncLevel | None", sync),  # append refuses other words
        )
    if as_json:
        write_stdout(turn_line(turn))
    else:
        console().print(f"{place(turn.namespace, turn.session)} #{turn.seq}", markup=False)


TAIL_EXAMPLES = """
neverforget tail ./memory support
neverforget tail ./memory support -n 200 --json | jq .content
neverforget tail -f ./memory support
"""


def tail(
    store: StoreArgument,
    session: SessionArgument,
    namespace: NamespaceOption = None,
    turns: Annotated[int, typer.Option("--turns", "-n", min=0, help="How many.")] = 20,
    max_tokens: Annotated[int | None, typer.Option(min=0, help="No more tokens than this.")] = None,
    role: Annotated[
        list[str] | None, typer.Option(help="Only this role; may be given several times.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as turns come.")] = False,
    hidden: HiddenOption = False,
    full: FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the newest turns of a session, oldest first.

    With -f on a store that nobody hosts, it waits for somebody who does.
    """
    where = tuple(namespace or ())
    with opened(store) as opened_store:
        chat = opened_store.session(session, namespace=where)
        end = _length(chat, where, or_fail=not follow)
        if turns:
            recent = chat.tail(turns, max_tokens=max_tokens, roles=role, include_hidden=hidden)
            _print_turns(recent, full=full, as_json=as_json)
    if follow:
        path = store_path(store)
        with host_watched(path, follow_session(path, where, session, after=end - 1)) as news:
            wanted = (turn for turn in news if not role or turn.role in role)
            _print_turns(wanted, full=full, as_json=as_json)


PAGE_EXAMPLES = """
neverforget page ./memory support                     (from the beginning)
neverforget page ./memory support --after 99 -n 20
neverforget page ./memory support --newest --json
"""


def page(
    store: StoreArgument,
    session: SessionArgument,
    namespace: NamespaceOption = None,
    after: Annotated[
        str | None, typer.Option(metavar="SEQ", help="The turns after this one; a cursor does too.")
    ] = None,
    before: Annotated[
        str | None, typer.Option(metavar="SEQ", help="The turns just before this one.")
    ] = None,
    newest: Annotated[bool, typer.Option("--newest", help="Begin at the end.")] = False,
    turns: Annotated[int, typer.Option("--turns", "-n", min=1, help="At most so many.")] = 50,
    hidden: HiddenOption = False,
    full: FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show one page of a session."""
    where = tuple(namespace or ())
    with opened(store) as opened_store:
        chat = opened_store.session(session, namespace=where)
        _length(chat, where)
        found = chat.page(
            after=_cursor(after),
            before=_cursor(before),
            newest=newest,
            limit=turns,
            include_hidden=hidden,
        )
    if as_json:
        print_json(
            {
                "items": [turn_object(turn) for turn in found],
                "next": found.next,
                "previous": found.previous,
                "has_more": found.has_more,
            }
        )
        return
    _print_turns(found, full=full, as_json=False)
    if found.has_more and len(found):
        backwards = newest or before is not None
        go_on = f"--before {found[0].seq}" if backwards else f"--after {found[-1].seq}"
        errors().print(f"more: {go_on}", style="bright_black", markup=False)


def _print_turns(turns: Iterable[Turn] | Iterator[Turn], *, full: bool, as_json: bool) -> None:
    if as_json:
        for turn in turns:
            write_stdout(turn_line(turn))
            sys.stdout.buffer.flush()
        return
    out = console()
    for turn in turns:
        out.print(turn_view(turn, full=full, wrap=out.is_terminal))


def _length(chat: Session, where: tuple[str, ...], *, or_fail: bool = True) -> int:
    """Turns of the session; NotFound where nobody has ever appended to it."""
    turns = chat.info().turns
    if not turns and or_fail:
        namespace = f"in namespace {place(where)}" if where else "outside all namespaces"
        raise NotFound(
            f"there is no session {chat.name!r} {namespace}; `neverforget sessions` lists all that "
            "there are"
        )
    return turns


def _cursor(given: str | None) -> Any:
    return int(given) if given is not None and given.isdecimal() else given
