"""The dashboard and the page of metrics name what is published, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from neverforget.actors.metric_names import COUNTERS, GAUGES, HISTOGRAMS, PREFIX, TAGS

ROOT = Path(__file__).resolve().parent.parent
DASHBOARD: dict[str, Any] = json.loads((ROOT / "docs" / "grafana.json").read_text())
PAGE = (ROOT / "docs" / "metrics.md").read_text()
EXPORTED = {
    *GAUGES,
    *(f"{name}_total" for name in COUNTERS),
    *(f"{name}_{part}" for name in HISTOGRAMS for part in ("bucket", "sum", "count")),
}
# What Grafana and Prometheus have besides.
LABELS = {*TAGS, "le", "__name__"}


def expressions() -> list[str]:
    panels = DASHBOARD["panels"]
    found = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    return found + [
        each["definition"] for each in DASHBOARD["templating"]["list"] if "definition" in each
    ]


def named(text: str) -> set[str]:
    """Without what stands before each; alternatives of an expression count by themselves."""
    spread = re.sub(
        r"ray_neverforget_\(([\w|]+)\)",
        lambda found: " ".join(f"ray_{PREFIX}{name}" for name in found[1].split("|")),
        text,
    )
    return set(re.findall(rf"ray_{PREFIX}(\w+)", spread))


def test_every_metric_of_the_dashboard_is_published() -> None:
    assert named("\n".join(expressions())) - EXPORTED == set()


def test_every_metric_that_is_published_is_on_the_dashboard() -> None:
    shown = named("\n".join(expressions()))
    bases = {re.sub(r"_(total|bucket|sum|count)$", "", name) for name in shown} | shown
    assert {*GAUGES, *COUNTERS, *HISTOGRAMS} - bases == set()


def test_the_dashboard_asks_for_tags_that_there_are() -> None:
    used = set()
    for expression in expressions():
        for group in re.findall(r"\{([^}]*)\}", expression):
            used |= set(re.findall(r"(\w+)=", group))
        for group in re.findall(r"by \(([^)]*)\)", expression):
            used |= {name.strip() for name in group.split(",")}
    assert used - LABELS == set()


def test_every_panel_has_a_place_and_a_number_of_its_own() -> None:
    taken: set[tuple[int, int]] = set()
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


def test_the_page_lists_every_metric_once() -> None:
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(listed) == sorted([*GAUGES, *COUNTERS, *HISTOGRAMS])


def test_the_alerts_ask_for_metrics_that_there_are() -> None:
    alerts = PAGE[PAGE.index("## Alerts") :]
    assert len(named(alerts)) > 5
    assert named(alerts) - EXPORTED == set()
