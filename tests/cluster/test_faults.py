"""Whatever dies, stops, is cut off or comes back wrong: no acknowledged turn is lost, doubled,
moved or altered. The scenarios are those of ``bench/bench_cluster_faults.py``, which times them.

That the judge can fail is tested in ``tests/faults/test_acknowledged.py``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from bench import bench_cluster_faults as bench
from tests.cluster import fault_scenarios
from tests.cluster.cluster_nodes import RayNodes, reason_not_to_run
from tests.faults.acknowledged import Verdict
from tests.faults.writing import NotRun, Row

DEFAULT: dict[str, Callable[[RayNodes], Row]] = {
    "owner-killed": partial(fault_scenarios.owner_killed, rounds=1),
}
TURNS_MIN = 600  # each scenario waits for more than that


@pytest.fixture(scope="module")
def nodes() -> Iterator[RayNodes]:
    why = reason_not_to_run()
    if why is not None:
        pytest.skip(why)
    with RayNodes() as made:
        yield made


def proven(scenario: Callable[[], Row]) -> None:
    try:
        row = scenario()
    except NotRun as reason:
        pytest.skip(str(reason))
    print(row)
    assert row.ok, row.why()
    assert row.verdict.acknowledged >= TURNS_MIN


@pytest.mark.parametrize("name", DEFAULT)
def test_no_acknowledged_turn_is_lost(nodes: RayNodes, name: str) -> None:
    proven(lambda: DEFAULT[name](nodes))


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in bench.SHARED if name not in DEFAULT])
def test_nor_in_these(nodes: RayNodes, name: str) -> None:
    proven(lambda: bench.SHARED[name](nodes))


@pytest.mark.long
@pytest.mark.parametrize("name", list(bench.CLUSTERS))
def test_nor_where_the_cluster_itself_suffers(name: str) -> None:
    proven(bench.CLUSTERS[name])


def test_what_cannot_run_here_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scenario that is not run never looks like one that passed."""

    def missing() -> Row:
        raise NotRun("not run: no namespaces")

    ran = bench.attempt("split", missing)
    assert "not run: no namespaces" in ran.line() and not ran.ok
    monkeypatch.setattr(bench, "run", lambda names: [ran])
    monkeypatch.setattr("sys.argv", ["bench", "--only", "cut-off"])
    assert bench.main() == 2


def test_rows_are_written_with_the_errors_that_writers_were_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    verdict = Verdict(acknowledged=1, errors=Counter({"Overloaded": 2}))
    monkeypatch.setattr(bench, "run", lambda names: [bench.Ran("split", Row("split", verdict))])
    monkeypatch.setattr("sys.argv", ["bench", "--json", str(tmp_path / "rows.json")])
    assert bench.main() == 0
    (told,) = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert told["row"]["verdict"]["errors"] == {"Overloaded": 2}
