"""Metrics that an owner hands to Ray, which exports them on each node for Prometheus.

Ray stands here because only a process of Ray's can hand metrics to it. Loaded by owners that are
actors, on the thread that publishes; nothing inline, and no client, imports it.
"""

from __future__ import annotations

import ray
from ray.util.metrics import Counter, Gauge, Histogram

from neverforget.actors.metric_names import COUNTERS, GAUGES, HISTOGRAMS, PREFIX, TAGS
from neverforget.actors.metrics import BOUNDS_S


def sink(store: str, partition: str) -> RaySink | None:
    """None: this node's Ray exports nothing (``ray[default]`` is not installed)."""
    return RaySink(store, partition) if ray.is_initialized() and metrics_port() else None


def metrics_port() -> int:
    """Where Ray exports the metrics of this node, over HTTP; 0: it does not."""
    here = ray.get_runtime_context().get_node_id()
    ports = (int(node["MetricsExportPort"]) for node in ray.nodes() if node["NodeID"] == here)
    return max(ports, default=0)


class RaySink:
    """A ``Sink``. Each metric is made when it is first published: an owner has only its own."""

    def __init__(self, store: str, partition: str) -> None:
        self._tags = dict(zip(TAGS, (store, partition), strict=True))
        self._gauges: dict[str, Gauge] = {}
        self._counters: dict[str, Counter] = {}
        self._histograms: dict[str, Histogram] = {}

    def gauge(self, name: str, value: float) -> None:
        if name not in self._gauges:
            self._gauges[name] = Gauge(PREFIX + name, GAUGES[name], TAGS)
        self._gauges[name].set(value, self._tags)

    def count(self, name: str, more: int) -> None:
        if name not in self._counters:
            self._counters[name] = Counter(PREFIX + name, COUNTERS[name], TAGS)
        self._counters[name].inc(more, self._tags)

    def observe(self, name: str, seconds: float, times: int) -> None:
        if name not in self._histograms:
            self._histograms[name] = Histogram(
                PREFIX + name, HISTOGRAMS[name], list(BOUNDS_S), TAGS
            )
        histogram = self._histograms[name]
        for _ in range(times):
            histogram.observe(seconds, self._tags)
