"""What an owner is measured by from outside: every metric, and its value in what the owner says.

The names are a promise: dashboards and alerts are made of them (``docs/metrics.md`` lists them,
``docs/grafana.json`` shows them). The only tags are the store and the partition, so there are as
many series as there are owners, however many agents and sessions there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from neverforget.actors.longterm_messages import LongTermStatusReply
from neverforget.actors.message_bases import SYNC_DISK, SYNC_PROCESS, SYNC_REPLICA
from neverforget.actors.messages import AnyReply, StatusReply
from neverforget.actors.metrics import Latencies, Meter
from neverforget.actors.reflector_messages import ReflectorStatusReply
from neverforget.storage.longterm_results import LongTermStatus
from neverforget.storage.results import RegionStatus

PREFIX: Final = "neverforget_"
TAGS: Final[tuple[str, ...]] = ("store", "partition")

# Names without the prefix. Every owner has those of the first group, a log's owner the second, and
# so on; a dashboard selects by name.
GAUGES: Final[Mapping[str, str]] = {
    "serving": "1: the owner serves; 0: it does not, or does not answer.",
    "available": "Of a deployed store, said by its keeper: 1: the owner is there and serves.",
    "queue": "Requests that wait at the owner.",
    "clients": "Open connections.",
    "last_error_timestamp_seconds": "When something last went wrong; 0: never since it began.",
    "epoch": "Grows with every new owner of the log.",
    "log_bytes": "Bytes of log on disk.",
    "log_end_bytes": "Position at which the log ends; its rate is what is written.",
    "unsynced_bytes": "Written and not yet synced.",
    "quarantined_bytes": "Bytes of log that cannot be read.",
    "recovery_seconds": "What the last opening of the log took.",
    "replica_lag_bytes": "Durable here and not yet in the replica.",
    "replica_lag_seconds": "Age of the oldest of it.",
    "replica_objects": "Objects that hold the log.",
    "replica_failing": "1: the replica does not answer, or shipping has stopped.",
    "sessions": "Sessions of the partition.",
    "turns": "Turns of the partition.",
    "restarts": "Owners of the partition before this one, since the host began.",
    "reflection_turns": "Turns that wait to be made into memories.",
    "reflection_due": "Sessions that are to be reflected now.",
    "reflection_failed": "Ranges of turns that the extractor failed on.",
    "memories": "Active memories.",
    "vectors": "Vectors that are indexed.",
    "embedding_waiting": "Memories that wait for their vectors.",
    "embedding_failed": "Memories that cannot be embedded.",
    "embedder_failing": "1: the embedder does not work.",
    "words_waiting": "Changed memories whose words are not indexed yet.",
    "chunking_waiting": "Long memories that wait for their chunks, or are being cut.",
    "chunking_failed": "Memories that cannot be cut.",
    "chunkers": "Processes that cut.",
    "reflector_windows": "Windows of turns that the reflector works on.",
    "reflector_queue": "Sessions that wait for the reflector.",
}
COUNTERS: Final[Mapping[str, str]] = {
    "appends": "Changes (append, remember, hide, ...) that were acknowledged.",
    "turns_appended": "Turns that were appended.",
    "syncs": "Syncs of the log.",
    "failures": "Requests answered with an error that is not the caller's.",
    "refusals": "Requests answered with an error that is the caller's.",
    "recalls": "Recalls that were answered.",
    "reflected_turns": "Turns that the reflector has worked through.",
    "reflected_facts": "Memories that it has made of them.",
}
HISTOGRAMS: Final[Mapping[str, str]] = {
    "append_process_seconds": 'Of changes at sync="process", from when the owner took them.',
    "append_disk_seconds": 'The same at sync="disk".',
    "append_replica_seconds": 'The same at sync="replica".',
    "sync_seconds": "Syncs of the log.",
    "recall_seconds": "Recalls, what they waited for included.",
}


class Observed(NamedTuple):
    """``counters`` and ``latencies`` have grown since the owner's process began."""

    gauges: dict[str, float]
    counters: dict[str, int]
    latencies: dict[str, Latencies]


def observed(told: AnyReply | None, meter: Meter) -> Observed:
    """``told``: what the owner replies to a Status; None: it does not answer."""
    error = meter.last_error
    found = Observed(
        {"serving": 0.0, "last_error_timestamp_seconds": 0.0 if error is None else error.at / 1e6},
        {"failures": meter.failures, "refusals": meter.refusals},
        {},
    )
    match told:
        case StatusReply():
            _partition(told, meter, found)
        case LongTermStatusReply():
            _longterm(told, meter, found)
        case ReflectorStatusReply():
            _reflector(told, found)
        case _:
            pass
    return found


def _any(told: StatusReply | LongTermStatusReply, gauges: dict[str, float]) -> None:
    gauges["serving"] = float(told.state == "serving")
    gauges["queue"] = told.queue
    gauges["clients"] = told.clients


def _log(region: RegionStatus | LongTermStatus, meter: Meter, found: Observed) -> None:
    gauges, replica = found.gauges, region.replica
    gauges["epoch"] = region.epoch
    gauges["log_bytes"] = region.log_bytes
    gauges["log_end_bytes"] = region.tail
    gauges["unsynced_bytes"] = region.tail - region.durable
    gauges["quarantined_bytes"] = region.quarantined_bytes
    gauges["recovery_seconds"] = region.recovery_us / 1e6
    if replica is not None:
        gauges["replica_lag_bytes"] = replica.lag_bytes
        gauges["replica_lag_seconds"] = replica.lag_us / 1e6
        gauges["replica_objects"] = replica.objects
        gauges["replica_failing"] = float(replica.error is not None)
    found.counters["appends"] = sum(latencies.total for latencies in meter.appends.values())
    found.counters["syncs"] = meter.syncs.total
    found.latencies["append_process_seconds"] = meter.appends[SYNC_PROCESS]
    found.latencies["append_disk_seconds"] = meter.appends[SYNC_DISK]
    found.latencies["append_replica_seconds"] = meter.appends[SYNC_REPLICA]
    found.latencies["sync_seconds"] = meter.syncs


def _partition(told: StatusReply, meter: Meter, found: Observed) -> None:
    gauges, region, reflection = found.gauges, told.region, told.reflection
    _any(told, gauges)
    if region is not None:
        _log(region, meter, found)
        gauges["sessions"] = region.sessions
        gauges["turns"] = region.turns
        gauges["restarts"] = region.restarts
        found.counters["turns_appended"] = region.appended
    if reflection is not None:
        gauges["reflection_turns"] = reflection.turns
        gauges["reflection_due"] = reflection.due
        gauges["reflection_failed"] = reflection.failed


def _longterm(told: LongTermStatusReply, meter: Meter, found: Observed) -> None:
    gauges, region, index, chunking = found.gauges, told.region, told.index, told.chunking
    _any(told, gauges)
    if region is not None:
        _log(region, meter, found)
        gauges["memories"] = region.memories
        found.counters["recalls"] = meter.recalls.total
        found.latencies["recall_seconds"] = meter.recalls
    if index is not None:
        gauges["vectors"] = index.vectors
        gauges["embedding_waiting"] = index.waiting
        gauges["embedding_failed"] = index.failed
        gauges["embedder_failing"] = float(index.embedder_state in ("missing", "failing"))
        gauges["words_waiting"] = index.lag
    if chunking is not None:
        gauges["chunking_waiting"] = chunking.waiting + chunking.running
        gauges["chunking_failed"] = chunking.failed
        gauges["chunkers"] = chunking.chunkers


def _reflector(told: ReflectorStatusReply, found: Observed) -> None:
    gauges = found.gauges
    gauges["serving"] = 1.0
    gauges["reflector_windows"] = len(told.running)
    gauges["reflector_queue"] = told.queue
    if told.error_at is not None:
        gauges["last_error_timestamp_seconds"] = told.error_at / 1e6
    found.counters["reflected_turns"] = told.turns
    found.counters["reflected_facts"] = told.facts
