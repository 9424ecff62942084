"""neverforget: durable memory for fleets of AI agents.

    import neverforget as nf

    with nf.open("memory") as store:
        chat = store.session("support/4711")
        chat.append("user", "Where is my parcel?")
        for turn in chat.tail(10):
            print(turn.role, turn.content)

Names are loaded when they are first used, so importing this costs nothing. ``neverforget.aio`` has
the same for event loops, ``neverforget.testing`` what tests need.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from neverforget import aio, integrations, testing
    from neverforget.runtime.agent_values import AgentInfo
    from neverforget.runtime.backups import BackupInfo, backups, verify_backup
    from neverforget.runtime.config import Config
    from neverforget.runtime.deploying import deploy, failover, undeploy
    from neverforget.runtime.importers import ImportReport, import_file
    from neverforget.runtime.memory_values import (
        Chunk,
        DeletionReport,
        Hit,
        Hits,
        Memory,
        Relation,
        Timeframe,
    )
    from neverforget.runtime.reflection_values import (
        FailedRange,
        ReflectionInfo,
        ReflectionReport,
    )
    from neverforget.runtime.restore_points import (
        LogPoints,
        RestorePoint,
        RestorePoints,
        restore_points,
    )
    from neverforget.runtime.restoring import RestoreReport, restore
    from neverforget.runtime.session import Session
    from neverforget.runtime.status_values import (
        Finding,
        HostInfo,
        LongTermInfo,
        OwnerInfo,
        Status,
        VerifyReport,
    )
    from neverforget.runtime.store import Store, connect, open
    from neverforget.runtime.values import (
        CONFIRMED,
        AuditEntry,
        Confirmation,
        ErasureReport,
        Page,
        Role,
        SessionInfo,
        Turn,
        TurnRef,
    )
    from neverforget.runtime.working_memory import WorkingMemory
    from neverforget.runtime.working_values import (
        Context,
        ContextItem,
        LeftOut,
        WorkingItem,
        WorkingMember,
    )
    from neverforget.storage.errors import (
        ConfirmationRequired,
        Conflict,
        Corrupt,
        EmbedderMismatch,
        InvalidArgument,
        NeverforgetError,
        NotFound,
        OutOfSpace,
        Overloaded,
        OwnerFenced,
        Poisoned,
        StoreClosed,
        StoreLocked,
        Unavailable,
        UnsupportedFormat,
    )

__all__ = [
    "CONFIRMED",
    "AgentInfo",
    "AuditEntry",
    "BackupInfo",
    "Chunk",
    "Config",
    "Confirmation",
    "ConfirmationRequired",
    "Conflict",
    "Context",
    "ContextItem",
    "Corrupt",
    "DeletionReport",
    "EmbedderMismatch",
    "ErasureReport",
    "FailedRange",
    "Finding",
    "Hit",
    "Hits",
    "HostInfo",
    "ImportReport",
    "InvalidArgument",
    "LeftOut",
    "LogPoints",
    "LongTermInfo",
    "Memory",
    "NeverforgetError",
    "NotFound",
    "OutOfSpace",
    "Overloaded",
    "OwnerFenced",
    "OwnerInfo",
    "Page",
    "Poisoned",
    "ReflectionInfo",
    "ReflectionReport",
    "Relation",
    "RestorePoint",
    "RestorePoints",
    "RestoreReport",
    "Role",
    "Session",
    "SessionInfo",
    "Status",
    "Store",
    "StoreClosed",
    "StoreLocked",
    "Timeframe",
    "Turn",
    "TurnRef",
    "Unavailable",
    "UnsupportedFormat",
    "VerifyReport",
    "WorkingItem",
    "WorkingMember",
    "WorkingMemory",
    "aio",
    "backups",
    "connect",
    "deploy",
    "failover",
    "import_file",
    "integrations",
    "open",
    "restore",
    "restore_points",
    "testing",
    "undeploy",
    "verify_backup",
]

_RUNTIME = {
    "agent_values": "AgentInfo",
    "backups": "BackupInfo backups verify_backup",
    "config": "Config",
    "deploying": "deploy failover undeploy",
    "importers": "ImportReport import_file",
    "reflection_values": "FailedRange ReflectionInfo ReflectionReport",
    "restore_points": "LogPoints RestorePoint RestorePoints restore_points",
    "restoring": "RestoreReport restore",
    "session": "Session",
    "store": "Store connect open",
    "memory_values": "Chunk DeletionReport Hit Hits Memory Relation Timeframe",
    "status_values": "Finding HostInfo LongTermInfo OwnerInfo Status VerifyReport",
    "values": "CONFIRMED AuditEntry Confirmation ErasureReport Page Role SessionInfo Turn TurnRef",
    "working_memory": "WorkingMemory",
    "working_values": "Context ContextItem LeftOut WorkingItem WorkingMember",
}
_HOMES = {
    name: f"neverforget.runtime.{module}"
    for module, names in _RUNTIME.items()
    for name in names.split()
}
_SUBMODULES = ("aio", "integrations", "testing")


def __getattr__(name: str) -> Any:
    if name == "__version__":  # read from the installed package's metadata, so not before asked for
        return importlib.import_module("importlib.metadata").version("neverforget")
    if name in _SUBMODULES:
        return importlib.import_module(f"neverforget.{name}")
    home = _HOMES.get(name)
    if home is None:
        if name not in __all__:
            raise AttributeError(f"module 'neverforget' has no attribute {name!r}")
        home = "neverforget.storage.errors"
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
