"""How the chapters about memories look: questions with their answers, what has changed, a context
for a prompt, who uses the store, and a deletion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.text import Text

from neverforget.runtime.cli_memory_render import audit_view, hit_view, indented
from neverforget.runtime.cli_render import columns, local, place, printable
from neverforget.runtime.cli_words import words_of
from neverforget.runtime.demo.learning import Answer, Change, Learned
from neverforget.runtime.demo.thinking import Mind
from neverforget.runtime.turn_text import said_by, speaker_of
from neverforget.runtime.working_values import counted

if TYPE_CHECKING:
    from neverforget.runtime.agent_values import AgentInfo
    from neverforget.runtime.memory_values import Memory
    from neverforget.runtime.values import Turn
    from neverforget.runtime.working_values import Context

QUIET = "bright_black"
VICTIM_CHARACTERS = 56
QUERY_CHARACTERS = 90
TURN_CHARACTERS = 160


def _chapter(out: Console, title: str) -> None:
    out.print(Rule(Text(printable(title), "bold"), align="left", style=QUIET))


def show_learned(out: Console, learned: Learned) -> None:
    when = "" if learned.now is None else f", on {learned.now:%A %-d %B %Y}"
    _chapter(out, f"weeks later{when}: questions about what was said")
    for answer in learned.answers:
        _show_answer(out, answer)
    if learned.change is not None:
        _chapter(out, "what has changed since it was said: superseded, not overwritten")
        _show_change(out, learned.change)


def _show_answer(out: Console, answer: Answer) -> None:
    question = answer.question
    head = Text(f"recalled {question.how}  ", "cyan")
    head.append(printable(question.query), "bold")
    head.append(f"  {answer.took_s * 1000:,.0f} ms", QUIET)
    out.print(head)
    when = answer.hits.timeframe
    if when is not None:
        phrase = f'"{when.phrase}" is ' if when.phrase else ""
        out.print(Text(f"{phrase}from {local(when.start)} to {local(when.stop)} UTC", QUIET))
    words = words_of(question.query)
    for number, (hit, refs) in enumerate(zip(answer.hits, answer.sources, strict=True), 1):
        said = [_turn_line(turn) for turn in answer.said] if number == 1 else []
        view = hit_view(hit, number, words=words, provenance=refs, said=said, wrap=out.is_terminal)
        out.print(view)
    if not answer.hits:
        out.print(Text("    nothing", "yellow"))
    out.print()


def _turn_line(turn: Turn) -> Text:
    line = Text(f"#{turn.seq}  ", QUIET)
    line.append(printable(speaker_of(turn)), "bold")
    line.append(f"  {local(turn.timestamp)}  ", QUIET)
    return line.append(printable(_shortened(said_by(turn), TURN_CHARACTERS)), "italic")


def _shortened(text: str, characters: int) -> str:
    """On one line."""
    text = " ".join(text.split())
    return text[:characters] + "…" * (len(text) > characters)


def _show_change(out: Console, change: Change) -> None:
    since = change.then.valid_from
    then = "then" if since is None else f"as of {since:%-d %B %Y}"
    for when, memory in ((then, change.then), ("now", change.now)):
        out.print(Text(f"recalled {when}  ", "cyan").append(printable(change.query), "bold"))
        head = Text("    ").append(_holds(memory), QUIET if memory.valid_to else "green")
        out.print(indented(head, [Text(printable(memory.text))], wrap=out.is_terminal))
    out.print()


def _holds(memory: Memory) -> str:
    since = "it holds" if memory.valid_from is None else f"since {memory.valid_from:%Y-%m-%d}"
    return since if memory.valid_to is None else f"{since}, superseded {memory.valid_to:%Y-%m-%d}"


def show_mind(out: Console, mind: Mind) -> None:
    context = mind.context
    if context is None:
        return
    _chapter(out, f"what agent {mind.agent} is given to answer in {place(*mind.place)}")
    asked = printable(_shortened(mind.question, QUERY_CHARACTERS))
    out.print(Text("recalled into its working memory  ", "cyan").append(asked, "bold"))
    text = Text(printable(str(context)))
    text.highlight_regex(r"(?m)^</?recalled-memories>$", QUIET)
    out.print(Padding(text, (0, 0, 0, 4), expand=False) if out.is_terminal else text)
    out.print(Text(_told(context), QUIET))
    out.print()


def _told(context: Context) -> str:
    pinned = sum(item.pinned for item in context.items)
    recalled = counted(len(context.items) - pinned, "recalled memory")
    said = [f"{context.tokens:,} of {context.max_tokens:,} tokens", f"{pinned} pinned", recalled]
    if context.summary is not None:
        said.append(f"a summary of {counted(context.left_out.turns, 'turn')}")
    return ", ".join([*said, f"the newest {counted(len(context.turns), 'turn')}"])


def show_who(out: Console, who: Sequence[AgentInfo]) -> None:
    _chapter(out, "who used the store")
    numbers = ("turns", "sessions", "memories", "recalls")
    table = columns("agent", "last active", *numbers, right=numbers)
    for info in who:
        counts = (f"{getattr(info, name):,}" for name in numbers)
        table.add_row(Text(printable(info.agent), "bold"), local(info.last_active), *counts)
    out.print(table)
    out.print()


def show_deletion(out: Console, learned: Learned) -> None:
    if learned.victim is None:
        return
    _chapter(out, "forgetting needs a confirmation, and can be undone")
    text = printable(_shortened(learned.victim.memory.text, VICTIM_CHARACTERS))
    out.print(Text("    ").append(text, "bold"))
    for call, good, what in (
        ("store.forget(id)", False, "ConfirmationRequired, on record"),
        ("store.forget(id, confirm=nf.CONFIRMED)", True, "no question finds it any more"),
        ("store.undo_forget(id)", True, "it is found again"),
    ):
        line = Text(f"    {call:<40}")
        line.append("✓ " if good else "✗ ", "green" if good else "red")
        line.append(what)
        out.print(line)
    out.print(Text("the audit has all three", "cyan"))
    for entry in learned.audit:
        out.print(audit_view(entry, wrap=out.is_terminal))
    out.print(Rule(style=QUIET))
    out.print()
