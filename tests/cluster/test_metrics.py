"""A hosted store with real Ray: what Prometheus finds where Ray exports the metrics of the node."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import neverforget as nf
from neverforget.actors.metric_names import COUNTERS, GAUGES, HISTOGRAMS, PREFIX
from tests.cluster.cluster_nodes import RayNodes
from tests.cluster.processes import PATIENCE_S, end_host, until

# Ray's own: how often a worker hands its metrics to the agent of its node, which forgets a gauge in
# twice that time. Longer than the longest pause between two publications.
REPORTING = {"RAY_metrics_report_interval_ms": "3000"}
SAMPLE = re.compile(rf"^ray_{PREFIX}(\w+)\{{(.*)\}} (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="([^"]*)"')
Found = dict[tuple[str, str], float]


@pytest.fixture(scope="module")
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="nfm-") as folder:
        found = Path(folder) / "store"
        command = [sys.executable, "-m", "neverforget", "serve", str(found), "--json"]
        command += ["--set", "partitions=1", "--set", "embedder=none"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, **REPORTING}
        ) as serving:
            assert serving.stdout is not None
            assert json.loads(serving.stdout.readline())["ready"] is True
            yield found
            end_host(found)
            assert serving.wait(PATIENCE_S) == 0, "it ended in order"


def scraped(store: nf.Store) -> Found:
    """Value by name (as Prometheus has it) and partition, summed over processes."""
    host = store.status().host
    assert host is not None and host.metrics_port is not None, "ray[default] is installed"
    url = f"http://127.0.0.1:{host.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=30) as answer:
        text = answer.read().decode()
    found: Found = {}
    for name, labelled, value in SAMPLE.findall(text):
        labels = dict(LABEL.findall(labelled))
        if "le" not in labels:  # a bucket of a histogram
            assert labels["store"] == store.status().store_id
            key = name, labels["partition"]
            found[key] = found.get(key, 0.0) + float(value)
    return found


def test_the_figures_of_a_store_are_where_prometheus_looks(path: Path) -> None:
    with nf.open(path, host="never", wait=PATIENCE_S, deadline_s=PATIENCE_S) as store:
        chat = store.session("chat")
        for n in range(20):
            chat.append("user", f"turn {n}")
        chat.append("user", "last", sync="process")
        store.remember("Oslo is wet")
        store.recall("Oslo")
        with pytest.raises(nf.Conflict):
            chat.append("user", "no", expect_seq=0)
        wanted = {
            ("turns", "0"): 21.0, ("sessions", "0"): 1.0, ("serving", "0"): 1.0,
            ("appends_total", "0"): 21.0, ("append_disk_seconds_count", "0"): 20.0,
            ("append_process_seconds_count", "0"): 1.0, ("refusals_total", "0"): 1.0,
            ("memories", "memories"): 1.0, ("serving", "memories"): 1.0,
            ("recalls_total", "memories"): 1.0, ("recall_seconds_count", "memories"): 1.0,
        }  # fmt: skip
        until(lambda: wanted.items() <= scraped(store).items(), "all of them")
        found = scraped(store)
        assert found["sync_seconds_count", "0"] >= 20
        assert found["append_disk_seconds_sum", "0"] > 0
        known = {*GAUGES, *(f"{name}_total" for name in COUNTERS)}
        known |= {f"{name}_{part}" for name in HISTOGRAMS for part in ("count", "sum")}
        assert {name for name, _ in found} <= known


@pytest.mark.long
def test_a_probe_of_a_deployed_store_names_what_is_away(ray_nodes: RayNodes) -> None:
    """Beside what is there, which is all that an owner can say of itself."""
    plan = ray_nodes.folder / "memory.toml"
    plan.write_text(
        'name = "memory"\npath = "$NF_DATA"\n[settings]\npartitions = 1\nembedder = "none"\n'
    )
    store = f"ray:memory@{ray_nodes.address}"

    def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "neverforget", *arguments]
        environment = ray_nodes.environment("a")
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    assert ran("deploy", str(plan), "--address", ray_nodes.address).returncode == 0
    there = ran("status", store, "--check", "--timeout", "60")
    assert (there.returncode, there.stdout) == (0, "serving: 1 partition and the memories\n")
    found = json.loads(ran("status", store, "--watch", "-n", "1", "--json").stdout)
    (owner,) = found["owners"]
    assert (owner["node"], owner["through"], owner["epoch"]) == (ray_nodes.ip("b"), "ray", 1)
    assert found["longterm"]["node"] == ray_nodes.ip("b")
    ray_nodes.kill("b")

    def away() -> bool:
        checked = ran("status", store, "--check", "--timeout", "5")
        return checked.returncode == 1 and "partition 0: away" in checked.stderr

    until(away, "a probe that says so")


def test_an_owner_that_was_killed_is_counted_and_published_anew(path: Path) -> None:
    with nf.open(path, host="never", wait=PATIENCE_S, deadline_s=PATIENCE_S) as store:
        (owner,) = store.status().owners
        os.kill(owner.pid, signal.SIGKILL)
        store.session("chat").append("user", "again")

        def back() -> bool:
            found = scraped(store)
            return found.get(("restarts", "0"), 0.0) >= 1 and found.get(("serving", "0")) == 1.0

        until(back, "the figures of the next owner")
