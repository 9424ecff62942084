"""How the chapter about memories looks: three questions with their answers, and a deletion."""

from __future__ import annotations

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from neverforget.runtime.cli_memory_render import audit_view, hit_view
from neverforget.runtime.cli_render import local, printable
from neverforget.runtime.cli_words import words_of
from neverforget.runtime.demo.learning import Answer, Learned

VICTIM_CHARACTERS = 56


def show_learned(out: Console, learned: Learned) -> None:
    told = "turns of one conversation" if learned.from_file else "facts"
    title = f"what the fleet learned: {learned.facts:,} {told}, remembered by {learned.agents}"
    agents = "agent" if learned.agents == 1 else "agents"
    out.print(Rule(Text(f"{title} {agents}", "bold"), align="left", style="bright_black"))
    for answer in learned.answers:
        _show_answer(out, answer)
    _show_deletion(out, learned)
    out.print(Rule(style="bright_black"))
    out.print()


def _show_answer(out: Console, answer: Answer) -> None:
    question = answer.question
    head = Text(f"recalled {question.how}  ", "cyan")
    head.append(printable(question.query), "bold")
    head.append(f"  {answer.took_s * 1000:,.0f} ms", "bright_black")
    out.print(head)
    when = answer.hits.timeframe
    if when is not None:
        span = f"from {local(when.start)} to {local(when.stop)} UTC"
        phrase = f'"{when.phrase}", ' if when.phrase else ""
        remark = f"{phrase}{question.remark}: {span}" if question.remark else span
        out.print(Text(printable(remark), "bright_black"))
    words = words_of(question.query)
    for number, (hit, refs) in enumerate(zip(answer.hits, answer.sources, strict=True), 1):
        out.print(hit_view(hit, number, words=words, provenance=refs, wrap=out.is_terminal))
    if not answer.hits:
        out.print(Text("    nothing", "yellow"))
    out.print()


def _show_deletion(out: Console, learned: Learned) -> None:
    if learned.victim is None:
        return
    text = " ".join(learned.victim.memory.text.split())
    head = Text("forgotten, and not  ", "cyan")
    head.append(printable(text[:VICTIM_CHARACTERS]) + "…" * (len(text) > VICTIM_CHARACTERS), "bold")
    out.print(head)
    for call, good, what in (
        ("store.forget(id)", False, "ConfirmationRequired, on record"),
        ("store.forget(id, confirm=nf.CONFIRMED)", True, "no question finds it any more"),
        ("store.undo_forget(id)", True, "it is found again"),
    ):
        line = Text(f"    {call:<40}")
        line.append("✓ " if good else "✗ ", "green" if good else "red")
        line.append(what)
        out.print(line)
    out.print()
    out.print(Text("the audit has all three", "cyan"))
    for entry in learned.audit:
        out.print(audit_view(entry, wrap=out.is_terminal))
