"""What an owner is told when it is made, in plain values: it travels to another process."""

from __future__ import annotations

import msgspec

from neverforget.storage.directory_lock import ProcessId, Role
from neverforget.storage.region_options import RegionOptions


class OwnerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Of any owner of a region. ``replica``: where its log is shipped. ``replica_writes_alone``: it
    is written also while the replica cannot be reached at a start. ``replica_term``: how often its
    log was moved; see ``storage/replica.py``. ``store_name``: as it was deployed.
    """

    directory: str
    store_id: str
    role: Role  # "worker" has a host; "application" is inline
    host: ProcessId | None = None
    socket: str = ""
    name: str = ""  # as an actor
    store_name: str = ""
    segment_bytes: int = 64 * 1024 * 1024
    batch_bytes_max: int = 64 * 1024 * 1024
    reply_bytes_max: int = 4 * 1024 * 1024
    requests_queued_max: int = 4096
    sync_interval_ms: int = 1000
    noop_after_ms: int = 200
    replica: str | None = None
    replica_writes_alone: bool = False
    replica_lag_bytes: int = 64 * 1024 * 1024
    replica_lag_s: float = 60.0
    replica_term: int = 0


class PartitionSpec(OwnerSpec, frozen=True, kw_only=True):
    """``reflect_every``: a session is due when so many turns wait to be reflected. 0: never.
    ``reflect_after_s``: and when any wait and nothing was appended to it for so long. 0: never.
    """

    partition: int
    reflect_every: int = 0
    reflect_after_s: float = 0.0


def region_options(spec: OwnerSpec) -> RegionOptions:
    reflected = spec if isinstance(spec, PartitionSpec) else None
    return RegionOptions(
        segment_bytes=spec.segment_bytes,
        first_segment_bytes=min(spec.segment_bytes, RegionOptions().first_segment_bytes),
        batch_bytes_max=spec.batch_bytes_max,
        # A media error under a map is SIGBUS: no risk for somebody else's process.
        read_by="pread" if spec.role == "application" else "map",
        reply_bytes_max=spec.reply_bytes_max,
        reflect_every=0 if reflected is None else reflected.reflect_every,
        reflect_after_s=0.0 if reflected is None else reflected.reflect_after_s,
    )
