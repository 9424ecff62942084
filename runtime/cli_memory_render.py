"""How memories look to a person: in lists, alone, as what a recall found, and in the audit."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from neverforget.runtime.cli_render import columns, local, place, printable
from neverforget.runtime.cli_words import (
    AROUND_CHARACTERS,
    TEXT_CHARACTERS_MAX,
    excerpt,
    marked,
    where_most,
)
from neverforget.runtime.turn_json import json_value
from neverforget.runtime.values import TurnRef

if TYPE_CHECKING:
    from neverforget.runtime.memory_values import Hit, Memory, Relation
    from neverforget.runtime.status_values import LongTermInfo
    from neverforget.runtime.values import AuditEntry

INDENT = 4
TABLE_WIDTH_MIN = 74  # what the arithmetic of a score takes as a table
QUIET = "bright_black"
STATUS_COLOURS = {"active": "green", "archived": "yellow", "forgotten": "red"}


def memory_view(
    memory: Memory,
    *,
    number: int | None = None,
    score: float | None = None,
    found: str = "",
    provenance: Iterable[TurnRef] = (),
    said: Sequence[Text] = (),
    words: frozenset[str] = frozenset(),
    around: tuple[int, int] | None = None,
    full: bool = False,
    wrap: bool = True,
) -> RenderableType:
    """One memory of a list: a line about it, its text, and where to find it again. ``around``:
    which characters of a long text were found; ``found``: how; ``said``: lines of the turns that it
    is from.
    """
    head = Text()
    if number is not None:
        head.append(f"{number:>2}  ", QUIET)
    if score is not None:
        head.append(f"{score:.2f}  ", "bold cyan")
    head.append(local(memory.occurred_at or memory.created_at))
    for word, style in _about(memory):
        head.append(f"  {printable(word)}", style)
    if around is None and not full and len(memory.text) > TEXT_CHARACTERS_MAX:
        around = where_most(memory.text, words)
    text = marked(excerpt(memory.text, around, full=full), words)
    name = Text(memory.id, QUIET)
    if memory.key is not None:
        name.append(f"  key {printable(memory.key)}")
    origin = [f"from {turns_of(ref)}" for ref in provenance]
    told = "  ".join([*origin, *([found] if found else [])])
    body = [text, *([Text(told, QUIET)] if told else []), *said, name]
    return indented(head, body, wrap=wrap)


def _about(memory: Memory) -> list[tuple[str, str]]:
    said = []
    who = memory.speaker or memory.agent
    if who:
        said.append((who, "bold"))
    if memory.agent and memory.agent != who:
        said.append((f"by {memory.agent}", QUIET))
    if memory.type != "fact":
        said.append((memory.type, "magenta"))
    if memory.tags:
        said.append((", ".join(memory.tags), "green"))
    if memory.namespace:
        said.append((f"in {place(memory.namespace)}", QUIET))
    if memory.status != "active":
        said.append((memory.status, STATUS_COLOURS.get(memory.status, "red")))
    return said


def indented(head: Text, body: Sequence[Text], *, wrap: bool) -> RenderableType:
    """``head``, and under it ``body``; without ``wrap`` lines stay as long as they are."""
    if wrap:
        return Group(head, *(Padding(each, (0, 0, 0, INDENT), expand=False) for each in body))
    lines = [Text(" " * INDENT) + line for each in body for line in each.split(allow_blank=True)]
    return Text("\n").join([head, *lines])


# ---- hits ----------------------------------------------------------------------------------------


def hit_view(
    hit: Hit, number: int, *, words: frozenset[str], provenance: Iterable[TurnRef], **how: Any
) -> RenderableType:
    """``how``: ``full``, ``wrap``, ``said``."""
    legs = ", ".join(f"{leg} {rank}" for leg, rank in hit.sources.items())
    return memory_view(
        hit.memory,
        number=number,
        score=hit.score,
        found=legs,
        provenance=provenance,
        words=words,
        around=_found_at(hit, words),
        **how,
    )


def _found_at(hit: Hit, words: frozenset[str]) -> tuple[int, int] | None:
    """Within the chunk, where there is one: what was asked for may stand at its end."""
    chunk = hit.chunk
    if chunk is None or chunk.start is None or chunk.stop is None:
        return None
    span = (chunk.start, chunk.stop)
    if chunk.stop - chunk.start <= AROUND_CHARACTERS:
        return span
    most = where_most(hit.memory.text[slice(*span)], words)
    return span if most is None else (chunk.start + most[0], min(chunk.start + most[1], chunk.stop))


def arithmetic_view(hit: Hit, *, width: int) -> RenderableType:
    """How the score came about: what each search gave, what that is worth, and the sum."""
    told = hit.arithmetic or {}
    if width < TABLE_WIDTH_MIN:
        return Padding(Text(str(told.get("text", ""))), (0, 0, 0, INDENT), expand=False)
    numbers = ("rank", "score", "of", "worth", "weight", "points")
    table = columns("leg", *numbers, right=numbers)
    for leg, share in told.get("legs", {}).items():
        low, high = share.get("low"), share.get("high")
        table.add_row(
            leg,
            "-" if share.get("rank") is None else f"{share['rank']}",
            _figure(share.get("score")),
            "-" if low is None or high is None else f"{low:.4f}..{high:.4f}",
            _figure(share.get("value")),
            f"{share.get('weight', 0):g}",
            _figure(share.get("points")),
        )
    if told.get("boost"):
        table.add_row("speaker", *[""] * 5, _figure(told["boost"]))
    if told.get("past"):
        why = "not valid now" if told["past"] < 0 else "valid now"
        table.add_row(why, *[""] * 5, _figure(told["past"]))
    if told.get("lift"):
        table.add_row("raised", *[""] * 5, _figure(told["lift"]))
    table.add_row("sum", *[""] * 5, Text(_figure(told.get("score")), "bold"))
    return Padding(table, (0, 0, 0, INDENT), expand=False)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.6f}"


def waiting_remark(waiting: int) -> str:
    """What it means that so many memories wait for their vectors."""
    noun = "memory waits" if waiting == 1 else "memories wait"
    return (
        f"{waiting:,} {noun} to be embedded (a host does it, or the next recall); until then found "
        "by words only"
    )


def unchunked_remark(count: int) -> str:
    """What it means that so many long memories wait for their chunks."""
    noun = "long memory waits" if count == 1 else "long memories wait"
    return (
        f"{count:,} {noun} to be chunked (a host does it, or whoever opens the store next); until "
        "then found as a whole"
    )


def remarks_of(longterm: LongTermInfo) -> list[str]:
    """What is still to be done for what was remembered."""
    unchunked = longterm.chunks_waiting + longterm.chunks_running
    said = [waiting_remark(longterm.waiting)] if longterm.waiting else []
    return said + ([unchunked_remark(unchunked)] if unchunked else [])


# ---- one memory ----------------------------------------------------------------------------------


def memory_pairs(
    memory: Memory, relations: Sequence[Relation], provenance: Sequence[TurnRef]
) -> dict[str, str]:
    """Everything about one memory but its text, as names and values for a table."""
    rows: dict[str, str] = {"id": memory.id}
    optional: dict[str, Any] = {
        "key": memory.key,
        "namespace": place(memory.namespace) or None,
        "type": memory.type,
        "tags": ", ".join(memory.tags) or None,
        "speaker": memory.speaker,
        "agent": memory.agent,
        "source": memory.source,
        "context": memory.context,
    }
    rows |= {name: str(value) for name, value in optional.items() if value is not None}
    rows["importance"] = f"{memory.importance:g} of 10, confidence {memory.confidence:g}"
    rows["happened"] = _when(memory.occurred_at)
    rows["remembered"] = _when(memory.created_at)
    if memory.valid_from is not None or memory.valid_to is not None:
        rows["valid"] = f"from {_when(memory.valid_from)} to {_when(memory.valid_to)}"
    rows["version"] = f"{memory.version}"
    if memory.version > 1:
        rows["version"] += f", of {_when(memory.revised_at)}"
        rows["version"] += f" by {memory.by}" if memory.by else ""
    rows["status"] = memory.status
    if memory.metadata:
        rows["metadata"] = json.dumps(json_value(memory.metadata), ensure_ascii=False)
    for number, ref in enumerate(provenance):
        rows["from" if not number else f"from {number + 1}"] = turns_of(ref)
    shown = [each for each in relations if not isinstance(each.target, TurnRef)]
    for number, relation in enumerate(shown):
        outward = relation.source == memory.id
        other = relation.target if outward else relation.source
        arrow = "→" if outward else "←"
        name = "relations" if not number else " " * number
        rows[name] = f"{arrow} {relation.kind} {other} ({relation.weight:g})"
    return rows


def _when(at: datetime | None) -> str:
    return "-" if at is None else f"{local(at, seconds=True)} UTC"


def turns_of(ref: TurnRef) -> str:
    """Turns of a session, as a person reads them."""
    span = f"#{ref.first}" if ref.first == ref.last else f"#{ref.first}-{ref.last}"
    return f"{place(ref.namespace, ref.session)} {span}"


# ---- audit ---------------------------------------------------------------------------------------

DESTRUCTIVE = ("forget", "erase", "purge", "hide")
PLACES = ("position",)  # in the log: for programs


def audit_view(entry: AuditEntry, *, wrap: bool) -> RenderableType:
    """One entry: when, what and by whom; under it what it was done to, and why."""
    head = Text(local(entry.at, seconds=True), QUIET)
    refused = entry.operation.endswith("-refused")
    colour = "yellow" if refused else "red" if entry.operation in DESTRUCTIVE else "green"
    head.append(f"  {printable(entry.operation)}", f"bold {colour}")
    tried = entry.details.get("operation")
    if refused and isinstance(tried, str):
        head.append(f" ({printable(tried)})", colour)
    head.append(f"  by {printable(entry.by)}")
    body = [Text(printable(_target(entry)))]
    if entry.reason:
        body.append(Text(f"because: {printable(entry.reason)}", "italic"))
    told = {
        name: value
        for name, value in entry.details.items()
        if value not in (None, [], {}) and name not in PLACES
        if not (name == "count" and value in (0, 1)) and not (refused and name == "operation")
    }
    if told:
        body.append(Text(printable("  ".join(f"{n}: {_value(v)}" for n, v in told.items())), QUIET))
    return indented(head, body, wrap=wrap)


def _target(entry: AuditEntry) -> str:
    target: Mapping[str, Any] = entry.target
    if "session" in target:
        where = place(tuple(target.get("namespace") or ()), str(target["session"]))
        runs = target.get("seqs") or ()
        spans = ", ".join(f"{a}-{b}" if a != b else f"{a}" for a, b in runs)
        return f"session {where}" + (f" #{spans}" if spans else "")
    if "id" in target:
        key = entry.key or target.get("key")
        return f"memory {target['id']}" + (f"  key {key}" if key else "")
    if "filter" in target:
        return f"memories where {_value(target['filter'])}"
    return _value(target) if target else "-"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(json_value(value), ensure_ascii=False)
