"""Recall at the command line: what a query finds, how, and whether that is all."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from neverforget.runtime.cli_arguments import json_object, time_argument, timeframe_argument
from neverforget.runtime.cli_memory_options import FullOption, TagOption, WhereOption
from neverforget.runtime.cli_memory_render import arithmetic_view, hit_view, waiting_remark
from neverforget.runtime.cli_render import console, errors, local, print_json
from neverforget.runtime.cli_store import (
    MEMORIES,
    JsonOption,
    NamespaceOption,
    StoreArgument,
    command,
    opened,
)
from neverforget.runtime.cli_timeline import Found, timeline, turn_lines, turns_object
from neverforget.runtime.cli_words import words_of
from neverforget.runtime.memory_json import memory_object, target_object
from neverforget.runtime.turn_json import format_timestamp

if TYPE_CHECKING:
    from neverforget.runtime.memory_values import Hits
    from neverforget.runtime.store import Store

POLL_S = 0.05


def register(app: typer.Typer) -> None:
    command(app, "recall", recall, RECALL_EXAMPLES, MEMORIES)


RECALL_EXAMPLES = """
neverforget recall ./memory "how large may a pull request be"
neverforget recall ./memory "power cut" --timeframe "last month" --tag operations
neverforget recall ./memory "what did we decide last week" --timeframe auto
neverforget recall ./memory swell --strategy text --explain
neverforget recall ./memory "the pilot" --timeline -n 20
"""


def recall(
    store: StoreArgument,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for, in any words.")],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 5,
    offset: Annotated[int, typer.Option(min=0, help="Leave out the best ones.")] = 0,
    namespace: NamespaceOption = None,
    tag: TagOption = None,
    type_: Annotated[
        list[str] | None, typer.Option("--type", help="Only these; may be given several times.")
    ] = None,
    by_agent: Annotated[str | None, typer.Option("--agent", help="Only this agent's.")] = None,
    timeframe: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN",
            help='"last week", "since monday", 2026-03-11, START..STOP; "auto" takes it out of the '
            "query.",
        ),
    ] = None,
    where: WhereOption = None,
    as_of: Annotated[
        str | None, typer.Option(metavar="TIME", help="What was valid then; ISO 8601.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option("--tz", metavar="ZONE", help="Whose days: Europe/Oslo, …")
    ] = None,
    strategy: Annotated[str, typer.Option(help="hybrid, vector (meaning) or text.")] = "hybrid",
    fusion: Annotated[str, typer.Option(help="weighted, or rrf (by rank alone).")] = "weighted",
    archived: Annotated[bool, typer.Option("--archived", help="Search archived ones too.")] = False,
    wait: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="For memories that wait to be embedded."),
    ] = 10.0,
    explain: Annotated[bool, typer.Option("--explain", help="Show how scores came about.")] = False,
    in_time: Annotated[
        bool,
        typer.Option("--timeline", help="Oldest first, with the turns that each one is from."),
    ] = False,
    full: FullOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find memories by what they mean and by their words.

    Each is shown with its score (1 is best), when it happened, whose words it holds and by which
    agent, the turns it is from, and which search found it at which rank. Says so if the answer is
    not complete.
    """
    arguments: dict[str, Any] = {
        "limit": limit,
        "offset": offset,
        "strategy": strategy,
        "fusion": fusion,
        "namespace": tuple(namespace) if namespace else None,
        "tags": tuple(tag) if tag else None,
        "types": tuple(type_) if type_ else None,
        "agent": by_agent,
        "where": json_object("--where", where),
        "timeframe": timeframe_argument(timeframe),
        "as_of": None if as_of is None else time_argument(as_of),
        "tz": timezone,
        "include_archived": archived,
        "explain": explain,
        "wait": wait,
    }
    with opened(store) as opened_store:
        hits = _patient(opened_store, query, arguments, quiet=as_json)
        if in_time:
            found = timeline(opened_store, hits)
        else:
            found = [Found(hit, opened_store.provenance(hit.memory.id), []) for hit in hits]
    if as_json:
        print_json(hits_object(query, hits, found, in_time=in_time))
    else:
        print_hits(query, hits, found, full=full)


def _patient(store: Store, query: str, arguments: dict[str, Any], *, quiet: bool) -> Hits:
    """The hits, after waiting for what other commands remembered and nobody embedded yet."""
    hits = store.recall(query, **arguments)
    if not hits.pending or arguments["strategy"] == "text" or not arguments["wait"]:
        return hits
    deadline = time.monotonic() + arguments["wait"]
    waiting = hits.pending
    if quiet:
        left = _embedded(store, deadline)
    else:
        with errors().status(f"embedding {waiting:,} memories"):
            left = _embedded(store, deadline)
    return hits if left == waiting else store.recall(query, **arguments)


def _embedded(store: Store, deadline: float) -> int:
    """How many memories still wait when ``deadline`` has come, or the embedder fails."""
    while True:
        state = store.status().longterm
        working = state.embedder_state in ("ok", "opening")
        done = state.embedder_state == "ok" and not state.waiting
        if done or not working or time.monotonic() >= deadline:
            return state.waiting
        time.sleep(POLL_S)


def print_hits(query: str, hits: Hits, found: list[Found], *, full: bool = False) -> None:
    out = console()
    words = words_of(query)
    if hits.timeframe is not None:
        start, stop = hits.timeframe.start, hits.timeframe.stop
        phrase = f'"{hits.timeframe.phrase}": ' if hits.timeframe.phrase else ""
        span = f"{phrase}from {local(start)} to {local(stop)} UTC"
        errors().print(span, style="bright_black", markup=False)
    for number, (hit, refs, said) in enumerate(found, 1):
        how: dict[str, Any] = {"full": full, "wrap": out.is_terminal}
        how["said"] = turn_lines(said, full=full)
        out.print(hit_view(hit, number, words=words, provenance=refs, **how))
        if hit.arithmetic is not None:
            out.print(arithmetic_view(hit, width=out.width))
    if not hits:
        errors().print("nothing found", style="bright_black")
    for remark in remarks(hits):
        errors().print(remark, style="yellow", markup=False)


def remarks(hits: Hits) -> list[str]:
    """What a person should know about the answer as a whole."""
    said = []
    if not hits.complete:
        said.append(f"not complete: {hits.reason or 'some of what was remembered is not in yet'}")
    if hits.pending:
        said.append(waiting_remark(hits.pending))
    return said


def hits_object(
    query: str, hits: Hits, found: list[Found], *, in_time: bool = False
) -> dict[str, Any]:
    """The answer for a program."""
    when = hits.timeframe
    return {
        "query": query,
        "items": [
            {
                "score": hit.score,
                "sources": hit.sources,
                "memory": memory_object(hit.memory),
                "provenance": [target_object(ref) for ref in refs],
                "chunk": None
                if hit.chunk is None
                else {"id": hit.chunk.id, "start": hit.chunk.start, "stop": hit.chunk.stop},
                **({"turns": turns_object(said)} if in_time else {}),
                **({} if hit.arithmetic is None else {"arithmetic": hit.arithmetic}),
            }
            for hit, refs, said in found
        ],
        "timeframe": None
        if when is None
        else {"start": _stamp(when.start), "stop": _stamp(when.stop), "phrase": when.phrase},
        "complete": hits.complete,
        "reason": hits.reason,
        "pending": hits.pending,
    }


def _stamp(at: Any) -> str | None:
    return None if at is None else format_timestamp(at)
