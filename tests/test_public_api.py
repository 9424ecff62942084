"""The public names, pinned: what is here may be used, everything else may change."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pickle
import subprocess
import sys
from enum import Enum
from importlib.metadata import version

import msgspec
import pytest

import neverforget as nf
from neverforget.storage import errors


def words(text: str) -> list[str]:
    return text.split()


NAMES = words(
    """
    CONFIRMED AgentInfo AuditEntry BackupInfo Chunk Config Confirmation ConfirmationRequired
    Conflict Context ContextItem Corrupt DeletionReport EmbedderMismatch ErasureReport FailedRange
    Finding Hit Hits HostInfo ImportReport InvalidArgument LeftOut LogPoints LongTermInfo Memory
    NeverforgetError NotFound OutOfSpace Overloaded OwnerFenced OwnerInfo Page Poisoned
    ReflectionInfo ReflectionReport Relation RestorePoint RestorePoints RestoreReport Role Session
    SessionInfo Status Store StoreClosed StoreLocked Timeframe Turn TurnRef Unavailable
    UnsupportedFormat VerifyReport WorkingItem WorkingMember WorkingMemory
    aio backups connect deploy failover import_file integrations open restore restore_points testing
    undeploy verify_backup
"""
)

STORE = words(
    """
    address agents archive archive_where audit backup chunks close config deletion_report erase
    erase_where forget forget_where get get_many history memories namespaces original provenance
    purge recall reflect reindex relate relations remember remember_many revert revise scoped
    session sessions settle status tag unarchive undo_forget unrelate untag verify working_memory
"""
)

SESSION = words(
    """
    agent append append_many erase follow fork get hide info name namespace page tail unhide
"""
)

WORKING_MEMORY = words(
    """
    add agent context group join leave max_tokens members namespace pin recall remove unpin
    utilization
"""
)

CONFIG = words(
    """
    partitions name_digest tokenizer embedder segment_bytes batch_bytes_max reply_bytes_max
    requests_queued_max sync_interval_ms embedder_processes chunk_over_characters chunker_processes
    summarizer extractor reflect_every_turns reflect_after_s reflector_threads timezone recall_text
    recall_context recall_vector recall_speaker recall_candidates recall_rrf_k replica
    replica_unreachable replica_lag_bytes replica_lag_s sync deadline_s
"""
)

FIELDS = {
    nf.Turn: "namespace session seq role content name agent call_id key metadata timestamp "
    "token_count consolidated state salvaged_from",
    nf.SessionInfo: "namespace session agents turns tokens first_at last_at consolidated_through",
    nf.Page: "items next previous has_more",
    nf.TurnRef: "namespace session first last",
    nf.AgentInfo: "agent last_active turns sessions memories recalls",
    nf.AuditEntry: "operation target key by at reason details",
    nf.ErasureReport: "turns bytes unreachable at sessions memories flagged revised",
    nf.Memory: "id key text type tags importance confidence source agent speaker namespace "
    "metadata created_at occurred_at valid_from valid_to version status context revised_at by",
    nf.Hit: "memory score sources chunk arithmetic duplicates",
    nf.Chunk: "id start stop text",
    nf.Relation: "source target kind weight",
    nf.Timeframe: "start stop phrase",
    nf.DeletionReport: "start stop forgotten restored archived unarchived purged erased turns "
    "refused by entries",
    nf.VerifyReport: "ok findings records bytes objects",
    nf.BackupInfo: "path store_id at partitions bytes opened",
    nf.RestoreReport: "store_id partitions sessions turns memories objects bytes at erasures",
    nf.RestorePoints: "store_id logs points",
    nf.RestorePoint: "at turns objects bytes",
    nf.LogPoints: "log objects turns bytes first_at last_at",
    nf.Context: "items turns summary tokens max_tokens left_out timezone",
    nf.ContextItem: "memory pinned score text tokens provenance",
    nf.LeftOut: "memories turns",
    nf.WorkingItem: "memory tokens pinned added_at used_at accesses provenance",
    nf.WorkingMember: "agent joined_at seen_at active",
    nf.Status: "store_id path host owners longterm reflection",
    nf.ReflectionReport: "sessions turns windows facts failed extractor",
    nf.ReflectionInfo: "extractor turns sessions due oldest_at state running failures failed error "
    "turns_reflected facts",
    nf.FailedRange: "namespace session first last extractor tries error at",
}

SIGNATURES = {
    nf.open: "path *host inline wait agent namespace config **overrides",
    nf.connect: "name *address agent namespace deadline",
    nf.deploy: "name config *address wait",
    nf.failover: "name partition *confirm to address wait",
    nf.undeploy: "name *address",
    nf.backups: "directory",
    nf.verify_backup: "directory",
    nf.restore: "path from_ *store_id at progress",
    nf.restore_points: "url store_id *limit",
    nf.Store.verify: "*remote",
    nf.Store.scoped: "*namespace agent deadline",
    nf.Store.session: "name *agent namespace",
    nf.Store.sessions: "*namespace prefix after limit",
    nf.Store.namespaces: "prefix *max_depth after limit",
    nf.Store.audit: "*operation by target timeframe after limit",
    nf.Store.remember: "text *key on_conflict type tags importance confidence source agent speaker "
    "namespace metadata related_to occurred_at context valid_from valid_to sync",
    nf.Store.remember_many: "items",
    nf.Store.get: "id *key namespace default include_forgotten",
    nf.Store.get_many: "ids",
    nf.Store.memories: "*namespace types tags agent where timeframe status derived after limit",
    nf.Store.recall: "query *timeframe limit offset strategy fusion types tags agent namespace "
    "where as_of include_archived tz now explain wait",
    nf.Store.revise: "id *text type importance confidence metadata valid_to valid_from occurred_at "
    "tags source agent speaker context expect_version",
    nf.Store.history: "id",
    nf.Store.revert: "id version",
    nf.Store.tag: "id tags",
    nf.Store.untag: "id tags",
    nf.Store.relate: "source target kind *weight",
    nf.Store.unrelate: "source target kind",
    nf.Store.relations: "id *kind direction",
    nf.Store.provenance: "id",
    nf.Store.chunks: "id",
    nf.Store.original: "chunk_id",
    nf.Store.forget: "id *confirm reason by",
    nf.Store.undo_forget: "id",
    nf.Store.archive: "id *confirm reason by",
    nf.Store.unarchive: "id",
    nf.Store.forget_where: "*namespace tags types agent where older_than dry_run confirm reason by",
    nf.Store.archive_where: "*namespace tags types agent where older_than dry_run confirm "
    "reason by",
    nf.Store.purge: "*older_than dry_run confirm reason by",
    nf.Store.erase: "id *confirm reason by",
    nf.Store.erase_where: "*namespace dry_run confirm reason by",
    nf.Store.deletion_report: "timeframe",
    nf.Store.agents: "",
    nf.Store.reflect: "session *again progress",
    nf.Store.reindex: "*embedder progress",
    nf.Store.settle: "timeout progress",
    nf.Store.backup: "directory progress",
    nf.Store.working_memory: "agent *group max_tokens",
    nf.WorkingMemory.add: "memory *pinned",
    nf.WorkingMemory.recall: "query **as_recall",
    nf.WorkingMemory.remove: "id",
    nf.WorkingMemory.pin: "id",
    nf.WorkingMemory.unpin: "id",
    nf.WorkingMemory.context: "strategy *max_tokens conversation",
    nf.WorkingMemory.join: "",
    nf.WorkingMemory.leave: "",
    nf.WorkingMemory.members: "",
    nf.Session.append: "role content *name call_id metadata timestamp token_count key expect_seq "
    "sync",
    nf.Session.append_many: "turns *expect_seq sync",
    nf.Session.tail: "limit *max_tokens roles include_hidden",
    nf.Session.page: "*after before newest limit include_hidden",
    nf.Session.get: "seq default",
    nf.Session.follow: "after",
    nf.Session.hide: "seqs *reason",
    nf.Session.unhide: "seqs",
    nf.Session.fork: "name *at",
    nf.Session.erase: "seqs *confirm reason by",
}


def public(thing: object) -> list[str]:
    return sorted(name for name in dir(thing) if not name.startswith("_"))


def arguments(function: object) -> str:
    words = []
    starred = False
    assert callable(function)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            words.append(f"**{parameter.name}")
        elif parameter.kind is parameter.KEYWORD_ONLY and not starred:
            starred = True
            words.append(f"*{parameter.name}")
        else:
            words.append(parameter.name)
    return " ".join(words)


def test_the_package_has_these_names_and_no_others() -> None:
    assert sorted(nf.__all__) == sorted(NAMES) == dir(nf)
    for name in NAMES:
        assert getattr(nf, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'remember'"):
        nf.remember  # noqa: B018
    namespace: dict[str, object] = {}
    exec("from neverforget import *", namespace)
    assert set(NAMES) <= set(namespace)


def test_the_version_is_the_installed_one() -> None:
    assert nf.__version__ == version("neverforget")


def test_the_submodules_have_these_names() -> None:
    assert nf.aio.__all__ == ["AsyncSession", "AsyncStore", "AsyncWorkingMemory", "connect", "open"]
    assert nf.testing.__all__ == ["nf_store", "store"]
    assert nf.testing.nf_store is not None
    assert importlib.import_module("neverforget.integrations") is nf.integrations
    with pytest.raises(AttributeError):
        nf.testing.nothing  # noqa: B018


def test_stores_and_sessions_have_these_methods() -> None:
    assert public(nf.Store) == sorted(STORE)
    assert public(nf.Session) == sorted(SESSION)
    assert public(nf.WorkingMemory) == sorted(WORKING_MEMORY)


def test_async_stores_and_sessions_have_the_same_methods_with_the_same_arguments() -> None:
    for plain, twin, more in (
        (nf.Store, nf.aio.AsyncStore, []),
        (nf.Session, nf.aio.AsyncSession, ["count"]),
        (nf.WorkingMemory, nf.aio.AsyncWorkingMemory, ["count"]),
    ):
        assert public(twin) == sorted([*public(plain), *more])
        for name in public(plain):
            method = getattr(plain, name)
            if not callable(method):
                continue
            other = getattr(twin, name)
            assert arguments(other) == arguments(method), name
            assert defaults(other) == defaults(method), name
            assert inspect.iscoroutinefunction(other) is (name not in PLAIN), name


PLAIN = ("scoped", "session", "follow", "working_memory")


def defaults(function: object) -> dict[str, object]:
    assert callable(function)
    return {p.name: p.default for p in inspect.signature(function).parameters.values()}


def name_of(value: object) -> str:
    return getattr(value, "__qualname__", "")


@pytest.mark.parametrize(("function", "expected"), SIGNATURES.items(), ids=name_of)
def test_methods_take_these_arguments(function: object, expected: str) -> None:
    assert arguments(function) == expected


@pytest.mark.parametrize(("value", "fields"), FIELDS.items(), ids=name_of)
def test_values_are_frozen_structs_of_these_fields(value: type, fields: str) -> None:
    assert issubclass(value, msgspec.Struct)
    assert list(value.__struct_fields__) == fields.split()
    assert value.__struct_config__.frozen


def test_a_store_has_these_settings() -> None:
    assert [field.name for field in dataclasses.fields(nf.Config)] == CONFIG
    documented = (nf.Config.__doc__ or "").split()
    assert {f"{name}:" for name in CONFIG if not name.startswith("recall_")} <= {*documented}


def test_everything_public_is_documented() -> None:
    for name in NAMES:
        thing = getattr(nf, name)
        if name == "CONFIRMED" or inspect.ismodule(thing):
            continue
        if inspect.isclass(thing) and issubclass(thing, errors.NeverforgetError):
            assert name in (errors.__doc__ or "")  # the tree tells whose fault each one is
            continue
        assert thing.__doc__ and len(thing.__doc__) > 20, name
    plain = (nf.Store, nf.Session, nf.WorkingMemory)
    for cls in (*plain, nf.aio.AsyncStore, nf.aio.AsyncSession, nf.aio.AsyncWorkingMemory):
        for name in public(cls):
            assert getattr(cls, name).__doc__, f"{cls.__name__}.{name}"


WRITES = {
    nf.Session: words("append append_many hide fork erase"),
    nf.WorkingMemory: words("add recall remove pin unpin join leave"),
    nf.Store: words(
        """
        remember remember_many revise revert tag untag relate unrelate forget undo_forget archive
        unarchive forget_where archive_where purge erase erase_where
    """
    ),
}


def test_writes_say_what_survives() -> None:
    for cls, twin in (
        (nf.Session, nf.aio.AsyncSession),
        (nf.Store, nf.aio.AsyncStore),
        (nf.WorkingMemory, nf.aio.AsyncWorkingMemory),
    ):
        for write in WRITES[cls]:
            for each in (cls, twin):
                words = " ".join((getattr(each, write).__doc__ or "").split())
                assert "crash" in words, f"{each.__name__}.{write}"
            words = " ".join((getattr(cls, write).__doc__ or "").split())
            assert "power loss" in words, f"{cls.__name__}.{write}"


def test_confirmation_is_a_plain_enum_of_one_member() -> None:
    assert issubclass(nf.Confirmation, Enum) and list(nf.Confirmation) == [nf.CONFIRMED]
    assert not isinstance(nf.CONFIRMED, str | int)


def test_roles() -> None:
    assert [role.value for role in nf.Role] == [
        "user", "assistant", "system", "tool_call", "tool_result", "thought",
    ]  # fmt: skip
    assert all(isinstance(role, str) and role == role.value for role in nf.Role)


@pytest.mark.parametrize("error", sorted(errors.BY_CODE.values(), key=str))
def test_errors_are_public_and_pickle_both_ways(error: type[errors.NeverforgetError]) -> None:
    assert getattr(nf, error.__name__) is error
    made = error("what and why", **dict.fromkeys(error.fields, 7))
    back = pickle.loads(pickle.dumps(made))
    assert type(back) is error and str(back) == "what and why"
    assert all(getattr(back, name) == 7 for name in error.fields)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (nf.InvalidArgument, ValueError),
        (nf.ConfirmationRequired, ValueError),
        (nf.NotFound, KeyError),
        (nf.OutOfSpace, OSError),
        (nf.Poisoned, OSError),
        (nf.Unavailable, ConnectionError),
    ],
)
def test_errors_are_also_what_python_calls_them(error: type, builtin: type) -> None:
    assert issubclass(error, builtin) and issubclass(error, nf.NeverforgetError)


def test_names_resolve_in_a_fresh_process_in_any_order() -> None:
    for name in NAMES:
        program = f"import neverforget as nf; nf.{name}; nf.{name}"
        if name in ("aio", "import_file", "open", "Turn", "InvalidArgument"):
            subprocess.run([sys.executable, "-c", program], check=True)
