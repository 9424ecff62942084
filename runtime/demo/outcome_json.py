"""What a run of the demo comes to, for a program."""

from __future__ import annotations

from typing import Any

from neverforget.runtime.demo.outcome import Outcome


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    """The outcome for a program."""
    kill = outcome.kill
    return {
        "ok": outcome.ok,
        "agents": outcome.agents,
        "conversations": outcome.conversations,
        "acknowledged": outcome.verdict.acknowledged,
        "talked_s": outcome.talked_s,
        "sessions": outcome.verdict.sessions,
        "unacknowledged": outcome.verdict.unacknowledged,
        "faults": outcome.verdict.faults,
        "failures": [failure for each in outcome.notes for failure in each.failures],
        "killed": None
        if kill is None
        else {"partition": kill.partition, "pid": kill.pid, "back_in_s": kill.back_in_s},
        "memories": _memories_json(outcome),
        "latencies": latencies(outcome),
    }


def _memories_json(outcome: Outcome) -> dict[str, Any]:
    reflected, learned, context = outcome.reflected, outcome.learned, outcome.mind.context
    kill, change = reflected.kill, learned.change
    return {
        "by_itself": reflected.by_itself,
        "learned": reflected.made,
        "kept": learned.kept,
        "killed": None if kill is None else {"pid": kill.pid, "turns_reflected": kill.done},
        "recalled": {
            answer.question.how: [hit.memory.text for hit in answer.hits]
            for answer in learned.answers
        },
        "changed": None if change is None else {"then": change.then.text, "now": change.now.text},
        "context": None
        if context is None
        else {
            "agent": outcome.mind.agent,
            "tokens": context.tokens,
            "max_tokens": context.max_tokens,
            "memories": len(context.items),
            "turns": len(context.turns),
            "text": str(context),
        },
        "agents": [info.agent for info in outcome.who],
        "audit": [entry.operation for entry in learned.audit],
        "faults": outcome.faults,
    }


def latencies(outcome: Outcome) -> dict[str, dict[str, Any]]:
    """Percentiles over all agents, by what they did."""
    measured = {
        "append, on disk": [d for each in outcome.notes for d in each.appends],
        "tail of 10": [d for each in outcome.notes for d in each.tails],
        "page of 20": [d for each in outcome.notes for d in each.pages],
    }
    found: dict[str, dict[str, Any]] = {}
    for name, durations in measured.items():
        ordered = sorted(durations)
        found[name] = {
            "calls": len(ordered),
            "p50_s": _percentile(ordered, 0.50),
            "p99_s": _percentile(ordered, 0.99),
            "max_s": ordered[-1] if ordered else 0.0,
        }
    return found


def _percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
