"""Opening, sharing, copying, pickling and closing handles."""

from __future__ import annotations

import asyncio
import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import neverforget as nf
from neverforget.runtime import engine
from neverforget.runtime.config import Config
from neverforget.storage.directory_lock import read_holder
from tests.fakes.embedders import Answering, is_down
from tests.fakes.plain_host import PlainHost
from tests.runtime.conftest import SMALL, Opener, filled, seqs


@pytest.fixture(autouse=True)
def no_engine_is_left() -> Iterator[None]:
    yield
    if engine._engines or engine._openings:
        gc.collect()
    assert engine._engines == {} and engine._openings == {}


# ---- one engine per process and path -------------------------------------------------------------


def test_opening_again_gives_another_handle_on_the_same_engine(opener: Opener) -> None:
    """A notebook cell that is run twice."""
    first, second = opener(agent="ada"), opener(agent="bob")
    assert first is not second and first._engine is second._engine
    first.session("chat").append("user", "from first")
    first.close()
    with pytest.raises(nf.StoreClosed):
        first.session("chat").append("user", "x")
    assert second.session("chat").append("user", "from second").seq == 1


def test_a_link_to_the_store_is_the_same_store(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "store")
    with nf.open(tmp_path / "store", inline=True, **SMALL) as store:
        with nf.open(tmp_path / "link", inline=True) as other:
            assert other._engine is store._engine
            assert other.address == str(tmp_path / "store")


def test_the_last_handle_of_an_inline_store_gives_the_directory_back(tmp_path: Path) -> None:
    path = tmp_path / "store"
    handles = [nf.open(path, inline=True, **SMALL) for _ in range(3)]
    for handle in handles:
        assert read_holder(path) is not None
        handle.close()
        handle.close()
    assert read_holder(path) is None


def test_a_dropped_handle_lets_go(tmp_path: Path) -> None:
    chat = nf.open(tmp_path / "store", inline=True, **SMALL).session("chat")
    chat.append("user", "the session holds the store")
    assert len(chat) == 1
    del chat
    gc.collect()
    assert read_holder(tmp_path / "store") is None


def test_threads_that_open_at_once_share_one_engine(tmp_path: Path) -> None:
    stores: list[nf.Store] = []
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait()
        stores.append(nf.open(tmp_path / "store", inline=True, **SMALL))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(store._engine) for store in stores}) == 1
    for store in stores:
        store.close()


def test_a_store_that_is_open_inline_here_is_found_by_a_plain_open(tmp_path: Path) -> None:
    with nf.open(tmp_path / "store", inline=True, **SMALL) as store:
        with nf.open(tmp_path / "store") as other:
            assert other._engine is store._engine


def test_inline_on_a_hosted_path_is_locked(host: PlainHost) -> None:
    with pytest.raises(nf.StoreLocked) as caught:
        nf.open(host.store.path, inline=True)
    assert (caught.value.pid, caught.value.role) == (os.getpid(), "serve")
    with nf.open(host.store.path, host="never"):
        with pytest.raises(nf.StoreLocked) as caught:
            nf.open(host.store.path, inline=True)
    assert caught.value.pid == os.getpid()


def test_what_another_process_holds_inline_is_locked(tmp_path: Path) -> None:
    program = (
        "import sys, neverforget as nf\n"
        "store = nf.open(sys.argv[1], inline=True)\n"
        "print('open', flush=True); sys.stdin.read(); store.close()"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "store")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdin is not None and other.stdout is not None
    try:
        assert other.stdout.readline() == b"open\n"
        arguments: Any
        for arguments in ({"inline": True}, {}, {"host": "never"}):
            with pytest.raises(nf.StoreLocked) as caught:
                nf.open(tmp_path / "store", **arguments)
            assert (caught.value.pid, caught.value.role) == (other.pid, "application")
    finally:
        other.stdin.close()
        other.wait()
        other.stdout.close()
    with nf.open(tmp_path / "store", inline=True):
        pass


# ---- arguments -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "arguments"),
    [
        ("", {}),
        (5, {}),
        (b"bytes", {}),
        ("ray:no/name", {}),
        ("ray:fleet", {"inline": True}),
        ("http://host/store", {}),
        ("s3://bucket", {}),
        ("~no-such-user/store", {}),
        ("a\0b", {}),
        ("a\ud83d", {}),
        ("x", {"host": "maybe"}),
        ("x", {"inline": 1}),
        ("x", {"wait": 0}),
        ("x", {"wait": "long"}),
        ("x", {"agent": ""}),
        ("x", {"namespace": 5}),
        ("x", {"config": {"sync": "disk"}}),
        ("x", {"partitions": 0}),
        ("x", {"sync": "both"}),
        ("x", {"deadline_s": -1}),
        ("x", {"tokenizer": "cl100k"}),
        ("x", {"no_such_setting": 1}),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any, arguments: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(nf.InvalidArgument):
        nf.open(path, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_a_leading_tilde_is_the_users_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with nf.open("~/store", inline=True) as store:
        assert store.address == str(tmp_path.resolve() / "store")


def test_a_view_is_what_open_may_return(opener: Opener) -> None:
    store = opener(namespace="acme", agent="ada")
    turn = store.session("chat").append("user", "x")
    assert (turn.namespace, turn.agent) == (("acme",), "ada")


def test_settings_that_do_not_fit_the_store_are_refused(opener: Opener) -> None:
    store = opener()
    assert store.config.partitions == SMALL["partitions"]
    wrong: Any
    for wrong in ({"partitions": 3}, {"segment_bytes": 4096 * 99}, {"tokenizer": "o200k_base"}):
        with pytest.raises(nf.InvalidArgument, match=next(iter(wrong))):
            opener(**wrong)
        with pytest.raises(nf.InvalidArgument):
            nf.open(store.address, config=nf.Config(**wrong))
    same = opener(partitions=SMALL["partitions"], config=nf.Config(deadline_s=5), sync="process")
    assert (same.config.deadline_s, same.config.sync) == (5, "process")
    assert same.config.sources["sync"] == same.config.sources["deadline_s"] == "argument"
    assert store.config.sync == "disk"


def test_client_defaults_may_stand_in_store_toml(tmp_path: Path) -> None:
    path = tmp_path / "store"
    nf.open(path, inline=True, **SMALL).close()
    toml = path / "store.toml"
    toml.write_text(toml.read_text().replace("\n[client]\n", "\n[client]\ndeadline_s = 7.5\n"))
    with nf.open(path, inline=True) as store:
        assert store.config.deadline_s == 7.5
        assert store.config.sources["deadline_s"] == "store.toml"
        assert store.config.sources["partitions"] == "store.toml"
        assert store.config.sources["reply_bytes_max"] == "default"
    with nf.open(path, inline=True, deadline_s=3) as store:
        assert store.config.deadline_s == 3
    with pytest.raises(nf.InvalidArgument, match="partitions was fixed as 2"):
        nf.open(path, inline=True, partitions=4)


def test_sync_of_the_handle_is_the_default_of_append(opener: Opener) -> None:
    chat = opener(sync="process").session("chat")
    chat.append("user", "x")
    owner = opener().status().owners[chat._place.partition]
    assert owner.turns == 1
    chat.append("user", "y", sync="disk")


# ---- closing -------------------------------------------------------------------------------------


def test_everything_of_a_closed_handle_says_so(opener: Opener) -> None:
    store = opener()
    chat, view = store.session("chat"), store.scoped(namespace="n")
    filled(chat, 3)
    iteration = iter(chat)
    store.close()
    calls: list[Callable[[], object]] = [
        lambda: chat.append("user", "x"),
        lambda: chat.append_many([{"role": "user", "content": "x"}]),
        chat.tail,
        chat.page,
        chat.info,
        lambda: chat.get(0, None),
        lambda: chat[0],
        lambda: len(chat),
        lambda: next(iteration),
        lambda: chat.hide(0),
        lambda: chat.fork("f", at=1),
        lambda: chat.erase(confirm=nf.CONFIRMED),
        store.sessions,
        store.audit,
        store.status,
        store.verify,
        store.settle,
        store.scoped,
        view.sessions,
        view.session("x").info,
        lambda: copy.copy(store),
        store.__enter__,
        chat.__enter__,
        # Pickled, it would fail where it arrives: in a Ray task as an error of Ray's.
        lambda: pickle.dumps(store),
        lambda: pickle.dumps(chat),
    ]
    for call in calls:
        with pytest.raises(nf.StoreClosed, match="open it again"):
            call()
    store.close()
    assert "closed" in repr(store) and bool(chat)


def test_closing_a_view_leaves_the_store(opener: Opener) -> None:
    store = opener()
    with store.scoped(namespace="n") as view:
        chat = view.session("chat")
        chat.append("user", "x")
    with pytest.raises(nf.StoreClosed):
        view.sessions()
    with pytest.raises(nf.StoreClosed):
        chat.info()
    with store.session("other") as other:
        other.append("user", "y")
    assert len(store.sessions()) == 2


def test_close_while_a_call_waits(opener: Opener) -> None:
    store = opener()
    chat = store.session("chat")
    outcome: list[BaseException] = []
    waits = threading.Event()

    def follow() -> None:
        try:
            waits.set()
            next(chat.follow())
        except nf.NeverforgetError as error:
            outcome.append(error)

    follower = threading.Thread(target=follow)
    follower.start()
    assert waits.wait(10)
    store.close()
    follower.join(60)
    assert [type(error) for error in outcome] == [nf.StoreClosed]


# ---- copies and pickles --------------------------------------------------------------------------


def test_copies_are_handles_of_their_own(opener: Opener) -> None:
    store = opener(agent="ada", namespace="n")
    for made in (copy.copy(store), copy.deepcopy(store), copy.deepcopy([store])[0]):
        assert repr(made) == repr(store)
        with made:
            made.session("chat").append("user", "x")
    assert len(store.session("chat")) == 3
    chat = store.session("chat")
    assert copy.deepcopy(chat)[0] == copy.copy(chat)[0] == chat[0]


def test_values_survive_repr_pickle_and_deepcopy(store: nf.Store) -> None:
    chat = store.session("chat", namespace="n")
    turn = chat.append("user", {"a": [1, b"x", "lone \ud83d"]}, metadata={"m": 1}, key="k")
    chat.hide(0)
    values = [
        turn,
        chat.info(),
        chat.page(include_hidden=True),
        store.sessions(),
        store.namespaces(),
        store.audit(),
        store.audit()[0],
        store.status(),
        store.verify(),
        store.config,
        nf.Role.USER,
        nf.CONFIRMED,
        nf.TurnRef(("n",), "chat", 0, 0),
        chat.erase(0, confirm=nf.CONFIRMED),
    ]
    for value in values:
        assert copy.deepcopy(value) == value == pickle.loads(pickle.dumps(value))
        assert repr(value)
    assert pickle.loads(pickle.dumps(nf.CONFIRMED)) is nf.CONFIRMED
    assert len({turn, copy.deepcopy(turn)}) == 1
    with pytest.raises(AttributeError):
        turn.content = "changed"  # type: ignore[misc]


def test_handles_pickle_as_addresses_and_attach_in_another_process(host: PlainHost) -> None:
    with nf.open(host.store.path, host="never", agent="ada", deadline_s=20) as store:
        view = store.scoped(namespace="acme")
        chat = filled(view.session("chat"), 2)
        blob = pickle.dumps([view, chat, nf.aio.AsyncStore(*store._pickled().attach())])
        program = (
            "import pickle, sys\n"
            "view, chat, other = pickle.load(sys.stdin.buffer)\n"
            "assert view.config.deadline_s == 20\n"
            "assert chat.append('user', 'there').seq == 2\n"
            "assert view.session('chat')[2].agent == 'ada'\n"
            "assert not {'ray', 'numpy', 'faiss', 'pyarrow'} & set(sys.modules)\n"
            "with view, chat: pass\n"
            "print(repr(view), repr(chat))"
        )
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program], input=blob, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
        assert seqs(chat) == [0, 1, 2]
        again = pickle.loads(pickle.dumps(chat))
        with again:
            assert seqs(again) == [0, 1, 2]
        with pytest.raises(nf.StoreClosed):
            again.info()
        assert len(chat) == 3  # the original is another handle
        gc.collect()


def test_unpickling_never_creates_or_takes_another_store(short_path: Path) -> None:
    path = short_path / "store"
    host = PlainHost(path, Config(**SMALL))
    with nf.open(path, host="never") as store:
        blob = pickle.dumps(store.session("chat"))
    host.close()
    with pytest.raises(nf.Unavailable):
        pickle.loads(blob)
    path.rename(short_path / "moved")
    with pytest.raises((nf.Unavailable, nf.NotFound)):
        pickle.loads(blob)
    assert not path.exists()
    other = PlainHost(path, Config(**SMALL))
    try:
        with pytest.raises(nf.UnsupportedFormat):
            pickle.loads(blob)
        with nf.open(path, host="never"), pytest.raises(nf.UnsupportedFormat):
            pickle.loads(blob)
    finally:
        other.close()


def test_an_inline_handle_does_not_pickle_and_says_why(inline: nf.Store) -> None:
    for handle in (inline, inline.session("chat")):
        with pytest.raises(TypeError, match="without inline=True"):
            pickle.dumps(handle)


# ---- surroundings --------------------------------------------------------------------------------


def test_synchronous_calls_work_inside_a_running_loop(opener: Opener) -> None:
    async def main() -> list[int]:
        store = opener()
        chat = store.session("chat")
        chat.append("user", "x")
        await asyncio.sleep(0)
        chat.append("user", "y")
        return seqs(chat.tail())

    assert asyncio.run(main()) == [0, 1]


def test_a_path_with_spaces_and_beyond_the_socket_limit_works(tmp_path: Path) -> None:
    path = tmp_path / ("a long name " * 12)
    host = PlainHost(path, Config(**SMALL))
    try:
        with nf.open(path, host="never") as store:
            assert store.session("chat").append("user", "x").seq == 0
            assert store.address == str(path)
    finally:
        host.close()


@pytest.mark.parametrize(
    "place", [3, None, "", "http://host/backup", "a\0b", "file", "file/below", "/proc/backup"]
)
def test_a_backup_to_what_is_no_place_for_one_is_refused(
    store: nf.Store, tmp_path: Path, place: Any
) -> None:
    (tmp_path / "file").write_text("x")
    if isinstance(place, str) and place.startswith("file"):
        place = tmp_path / place
    with pytest.raises(nf.InvalidArgument):
        store.backup(place)


def test_sessions_are_equal_when_they_are_the_same_session_for_the_same_agent(
    opener: Opener, tmp_path: Path
) -> None:
    store = opener(agent="ada")
    chat = store.session("x")
    same = [
        store.session("x"), opener(agent="ada").session("x"), store.session("x", agent="ada"),
        copy.copy(chat), store.scoped(deadline=9).session("x"),
    ]  # fmt: skip
    assert all(other == chat and hash(other) == hash(chat) for other in same)
    others = [
        store.session("y"), store.session("x", agent="bob"), store.session("x", namespace="n"),
        store.scoped(namespace="n").session("x"), "x", None,
    ]  # fmt: skip
    assert all(other != chat for other in others)
    with nf.open(tmp_path / "another", inline=True, agent="ada") as another:
        assert another.session("x") != chat
    assert {chat: 1}[store.session("x")] == 1


def test_a_backup_is_a_store(opener: Opener, tmp_path: Path) -> None:
    store = opener()
    filled(store.session("a"), 30)
    filled(store.session("b", namespace="n"), 20)
    kept = store.remember("the parcel is in Oslo")
    steps: list[tuple[int, int]] = []
    store.backup(tmp_path / "copy", progress=lambda done, total: steps.append((done, total)))
    assert steps == [(1, 3), (2, 3), (3, 3)]  # two partitions, and the long-term owner
    store.session("a").append("user", "after the backup")
    store.forget(kept.id, confirm=nf.CONFIRMED)
    with nf.open(tmp_path / "copy", inline=True) as copied:
        assert len(copied.session("a")) == 30 and len(copied.session("b", namespace="n")) == 20
        assert copied.get(kept.id) == kept and copied.recall("parcel", strategy="text")
        assert copied.verify().ok
        assert copied.status().store_id == store.status().store_id
    for wrong in (tmp_path / "copy", store.address, Path(store.address) / "inside", __file__):
        with pytest.raises(nf.InvalidArgument):
            store.backup(wrong)


def test_settle_status_and_verify(store: nf.Store) -> None:
    filled(store.session("a"), 3)
    store.session("a").append("user", "x", sync="process")
    steps: list[int] = []
    status = store.settle(timeout=30, progress=lambda done, total: steps.append(done))
    assert steps == [1, 2, 3] and status.turns == 4 and status.sessions == 1
    assert status.longterm.state == "serving" and status.memories == status.longterm.waiting == 0
    assert [owner.partition for owner in status.owners] == [0, 1]
    assert {owner.state for owner in status.owners} == {"serving"}
    assert (status.host is None) == store._engine.inline
    report = store.verify()
    assert report.ok and report.findings == () and report.records >= 5 and report.bytes > 0
    for wrong in (-1, False, "0", float("nan")):
        with pytest.raises(nf.InvalidArgument):
            store.settle(timeout=wrong)  # type: ignore[arg-type]


def test_settling_in_no_time_is_to_look_once(tmp_path: Path) -> None:
    """It was refused as no number of seconds."""
    with nf.open(tmp_path / "store", inline=True, embedder=Answering(is_down)) as store:
        store.settle()
        assert store.settle(timeout=0.0).memories == 0
        store.remember("tea")
        with pytest.raises(nf.Unavailable, match="indexed yet"):
            store.settle(timeout=0)


def test_a_partition_that_cannot_be_opened_is_never_taken_for_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with nf.open(path, inline=True, **SMALL) as store:
        lost = next(c for c in map(store.session, "abcdefgh") if c._place.partition == 1)
        kept = next(c for c in map(store.session, "abcdefgh") if c._place.partition == 0)
        filled(lost, 2)
        filled(kept, 2)
    (path / "regions" / "p1").rename(tmp_path / "p1")
    with nf.open(path, inline=True) as store:
        states = [owner.state for owner in store.status().owners]
        assert states == ["serving", "quarantined"]
        assert len(store.session(kept.name)) == 2
        for call in (store.session(lost.name).info, store.session(lost.name).tail, store.sessions):
            with pytest.raises(nf.Corrupt, match="quarantined"):
                call()
        report = store.verify()
        assert not report.ok
        assert [(f.kind, f.partition) for f in report.findings] == [("quarantined", 1)]
        assert report.records > 0
    (tmp_path / "p1").rename(path / "regions" / "p1")
    with nf.open(path, inline=True) as store:
        assert len(store.session(lost.name)) == 2 and store.verify().ok
