"""The settings of a store as keywords of ``open``; ``config.py`` says what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from neverforget.runtime.setting_checks import SyncLevel

if TYPE_CHECKING:
    from neverforget.actors.embedder_contract import Embedder
    from neverforget.actors.extractor_contract import Extractor
    from neverforget.actors.summarizer_contract import Summarizer


class Settings(TypedDict, total=False):
    """The settings as keywords of ``open``; see ``Config``."""

    partitions: int
    name_digest: str
    tokenizer: str
    embedder: str | Embedder
    segment_bytes: int
    batch_bytes_max: int
    reply_bytes_max: int
    requests_queued_max: int
    sync_interval_ms: int
    embedder_processes: int
    chunk_over_characters: int
    chunker_processes: int
    summarizer: str | Summarizer
    extractor: str | Extractor
    reflect_every_turns: int
    reflect_after_s: float
    reflector_threads: int
    timezone: str
    recall_text: float
    recall_context: float
    recall_vector: float
    recall_speaker: float
    recall_candidates: int
    recall_rrf_k: int
    replica: str | None
    replica_unreachable: str
    replica_lag_bytes: int
    replica_lag_s: float
    sync: SyncLevel
    deadline_s: float
