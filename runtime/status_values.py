"""How a store stands: what ``status`` and ``verify`` return."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from neverforget.runtime.reflection_values import ReflectionInfo
from neverforget.storage.results import Finding as StorageFinding


class Finding(Struct, frozen=True):
    """One thing that verification or recovery found.

    kind: corrupt_body, corrupt_header, torn_tail, bad_side_file, missing_segment, index_mismatch,
        unfinished_erasure, orphan_chunk, quarantined (the partition cannot be opened),
        bad_derived_file (of an index, which is made anew), not_embedded (found by words only),
        salvaged, salvage_conflict and not_salvaged (of what nobody had shipped), object_missing,
        object_differs and bad_object (of a replica), short_copy and unreadable (of a backup), …
    severity: "error" (bytes are lost) or "repaired" (nothing acknowledged is).
    partition: whose it is; None: the long-term owner's.
    """

    kind: str
    severity: str
    partition: int | None
    file: str
    offset: int
    bytes: int
    message: str


class HostInfo(Struct, frozen=True):
    """The process that hosts the store. ``role``: "serve" (a host of its own) or "application".
    ``linger_s``: seconds it stays after its last client, None for ever. ``metrics_port``: where Ray
    exports the metrics of its node (see docs/metrics.md), None: it exports none.
    ``linger_s``: seconds it stays after its last client, None for ever. ``role`` "keeper": of a
    deployed store; ``findings``: what it knows of old disks that returned.
    """

    pid: int
    role: str
    started_at: datetime
    clients: int
    linger_s: float | None
    ray_address: str | None
    metrics_port: int | None = None
    findings: tuple[Finding, ...] = ()


class ReplicaInfo(Struct, frozen=True):
    """How far a log is shipped, and where.

    state: "everything" (it is shipped as it grows), "unfenced" (it is written while the replica
        does not answer, as configured) or "stopped".
    error: why the replica does not answer, or why shipping stopped; None: all is well.
    objects: number of the last one; ``shipped_bytes``: log position up to which they hold it.
    lag_bytes, lag_s: what is durable here and not there, and how old the oldest of it is.
    """

    place: str
    state: str
    error: str | None
    objects: int
    shipped_bytes: int
    lag_bytes: int
    lag_s: float


class OwnerInfo(Struct, frozen=True):
    """One partition and who owns it.

    state: "recovering", "serving", "readonly" or "quarantined", or "away": no node of the cluster
        has its disk, or the owner does not answer in time; ``reason`` says why.
    through: how this process calls it: "inline", "socket" (it is on this node) or "ray".
    epoch: grows with every new owner.
    queue: requests waiting; ``clients``: open connections.
    restarts: processes that owned it before this one, since the host began; one that died before it
        had the lock of its region is not counted.
    log_bytes: bytes of log on disk; ``durable_bytes``: log position up to which it is synced.
    recovery_s: seconds the last opening took; ``last_sync_s``: seconds the last sync took;
        ``sync_p50_s``, ``sync_p99_s``: median and 99th percentile of its newest 256 syncs.
    last_error: what last went wrong there since its process began, also when that is over, and when
        that was; None: nothing.
    replica: None where the log is not shipped, or nobody may write it now.
    """

    name: str
    partition: int
    pid: int
    node: str
    state: str
    reason: str | None
    epoch: int
    queue: int
    clients: int
    restarts: int
    sessions: int
    turns: int
    log_bytes: int
    durable_bytes: int
    segments: int
    quarantined_bytes: int
    torn_bytes: int
    recovery_s: float
    last_sync_s: float
    syncs: int
    through: str
    findings: tuple[Finding, ...]
    replica: ReplicaInfo | None = None
    sync_p50_s: float = 0.0
    sync_p99_s: float = 0.0
    last_error: str | None = None
    last_error_at: datetime | None = None


class LongTermInfo(Struct, frozen=True):
    """The owner of the long-term memories, and how far what is derived from them has come.

    state, reason, epoch, queue, clients, node, last_error, …: as in ``OwnerInfo``.
    memories: active ones; ``archived`` and ``forgotten`` besides; ``derived``: chunks, summaries.
    embedder: its name; ``embedder_state``: "ok", "none" (words only), "missing" (an object that
        nobody passed to ``open``), "failing", then ``embedder_error`` says why, or "opening".
    model, dimension: of the vectors; None and 0 until the embedder told.
    vectors: how many are indexed; ``waiting``: memories without vectors yet; ``failed``: that
        cannot be embedded, and are found by their words only.
    lag: changed memories whose words are not indexed yet.
    chunks_waiting: memories that are to be cut into chunks; ``chunks_running``: that are being cut;
        ``chunks_failed``: that cannot be, and are tried again when the store is opened.
    chunkers: processes that cut, none while there is nothing to do.
    summaries_failed: memories that have chunks and no summary, since this owner began.
    chunk_error: the last thing that went wrong with either.
    generation: number of the newest files of the indexes, made at ``published_at``; 0, None: none.
    derived_bytes: bytes of those files; they are made again from the log when they are lost.
    """

    state: str
    reason: str | None
    pid: int
    epoch: int
    queue: int
    clients: int
    memories: int
    derived: int
    archived: int
    forgotten: int
    relations: int
    embedder: str
    embedder_state: str
    embedder_error: str | None
    model: str | None
    dimension: int
    vectors: int
    waiting: int
    failed: int
    lag: int
    chunks_waiting: int
    chunks_running: int
    chunks_failed: int
    chunkers: int
    summaries_failed: int
    chunk_error: str | None
    generation: int
    published_at: datetime | None
    log_bytes: int
    durable_bytes: int
    derived_bytes: int
    segments: int
    quarantined_bytes: int
    torn_bytes: int
    recovery_s: float
    syncs: int
    findings: tuple[Finding, ...]
    replica: ReplicaInfo | None = None
    node: str = ""
    through: str = ""
    sync_p50_s: float = 0.0
    sync_p99_s: float = 0.0
    last_error: str | None = None
    last_error_at: datetime | None = None


class Status(Struct, frozen=True):
    """How a store stands. ``host`` is None when the store runs inline in this process; ``owners``
    are those of the partitions, ``longterm`` is the owner of the memories, ``reflection`` tells how
    far it is that memories are made of what was said.
    """

    store_id: str
    path: str
    host: HostInfo | None
    owners: tuple[OwnerInfo, ...]
    longterm: LongTermInfo
    reflection: ReflectionInfo

    @property
    def healthy(self) -> bool:
        """All owners serve."""
        return not self.problems

    @property
    def problems(self) -> tuple[str, ...]:
        """Which owners do not serve, and why."""
        states = [(f"partition {each.partition}", each.state, each.reason) for each in self.owners]
        states.append(("the memories", self.longterm.state, self.longterm.reason))
        return tuple(
            f"{name}: {state}" + (f" ({reason})" if reason else "")
            for name, state, reason in states
            if state != "serving"
        )

    @property
    def sessions(self) -> int:
        """Sessions, over all partitions."""
        return sum(owner.sessions for owner in self.owners)

    @property
    def turns(self) -> int:
        """Turns, over all partitions."""
        return sum(owner.turns for owner in self.owners)

    @property
    def memories(self) -> int:
        """Active long-term memories."""
        return self.longterm.memories

    @property
    def log_bytes(self) -> int:
        """Bytes of log on disk, over all owners."""
        return sum(owner.log_bytes for owner in self.owners) + self.longterm.log_bytes

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What recovery found, over all owners, and what has become of derived files since."""
        found = tuple(finding for owner in self.owners for finding in owner.findings)
        host = () if self.host is None else self.host.findings
        return found + self.longterm.findings + host


class VerifyReport(Struct, frozen=True):
    """The outcome of reading everything. ``ok``: no finding says that bytes are lost. ``objects``:
    of the replica, where that was read as well.
    """

    ok: bool
    findings: tuple[Finding, ...]
    records: int
    bytes: int
    objects: int = 0


def finding(partition: int | None, found: StorageFinding) -> Finding:
    """A region's finding with the number of its partition; None: the long-term region."""
    return Finding(
        found.kind,
        found.severity,
        partition,
        found.file,
        found.offset,
        found.bytes,
        found.message,
    )
