"""A disk that comes back after its store was restored elsewhere: what it had acknowledged and
nobody shipped is told to the owners that serve now.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import neverforget as nf
from neverforget.actors.messages import AnyReply, Request
from neverforget.actors.places import LONGTERM
from neverforget.runtime import retrying
from neverforget.runtime import session_writing as writing
from neverforget.runtime.restoring import restore
from neverforget.runtime.salvaging import bring_back, salvaged, unshipped
from neverforget.storage.directory_lock import DirectoryLock
from neverforget.storage.errors import Conflict, NotFound, StoreLocked
from neverforget.storage.salvage_reading import PIECE_BYTES, decode_piece
from neverforget.storage.salvage_results import SalvageReport
from tests.runtime.cli_calls import Cli
from tests.runtime.conftest import SMALL

ONE: dict[str, Any] = {**SMALL, "partitions": 1, "embedder": "none"}


class Moved(NamedTuple):
    """``old``: the folder that came back. ``store``: served from another by now."""

    old: Path
    away: Path
    store: nf.Store
    store_id: str

    @property
    def url(self) -> str:
        return f"file://{self.away}"

    def ask(self, place: int) -> Callable[[Request], AnyReply]:
        channel = self.store._engine.channel
        return lambda request: channel.call(place, request, time.monotonic() + 60.0)


def texts(store: nf.Store, session: str = "chat") -> list[Any]:
    return [turn.content for turn in store.session(session)]


@pytest.fixture
def moved(tmp_path: Path) -> Iterator[Moved]:
    """The bucket went away, the machine went on for a little, and then was lost."""
    old, away = tmp_path / "old", tmp_path / "away"
    with nf.open(old, inline=True, replica=f"file://{away}", agent="ada", **ONE) as store:
        store.session("chat").append("user", "shipped", sync="replica")
        front = store.remember("front", sync="replica")
        away.rename(tmp_path / "hidden")
        for number in range(3):
            store.session("chat").append("user", f"lost {number}")
        store.session("new").append("user", "a session of its own", key="k")
        store.session("chat").hide([2])
        store.remember("Oslo is wet", key="oslo")
        store.revise(front.id, text="front, revised")
        store_id = store.status().store_id
    (tmp_path / "hidden").rename(away)
    restore(tmp_path / "new", f"file://{away}")
    with nf.open(tmp_path / "new", inline=True, replica=f"file://{away}", **ONE) as store:
        store.session("chat").append("user", "since then")
        yield Moved(old, away, store, store_id)


def test_all_of_it_arrives_once_and_the_directory_is_kept(moved: Moved) -> None:
    store, chat = moved.store, moved.store.session("chat")
    report = bring_back(moved.old, moved.store_id, 0, moved.url, moved.ask(0))
    assert (report.turns, report.conflicts) == (4, 0)
    assert texts(store) == ["shipped", "since then", "lost 0", "lost 2"]
    found = list(chat.page(include_hidden=True))
    assert [turn.state for turn in found] == ["ok", "ok", "ok", "hidden", "ok"]
    origins = [turn.salvaged_from for turn in found]
    assert origins[:2] == [None, None]
    epochs = {origin[0] for origin in origins if origin}
    assert len(epochs) == 1 and [origin[1] for origin in origins if origin] == [1, 2, 3]
    (own,) = store.session("new")
    assert own.salvaged_from is not None and own.key == "k" and own.agent == "ada"
    assert chat.get(2).salvaged_from == chat.tail(2)[0].salvaged_from == origins[2]
    repeated = store.session("new").append("user", "a session of its own", key="k")
    assert repeated == own
    memories = bring_back(moved.old, moved.store_id, LONGTERM, moved.url, moved.ask(LONGTERM))
    assert (memories.turns, memories.conflicts) == (2, 0)
    assert {m.text for m in store.memories()} == {"front, revised", "Oslo is wet"}
    assert not (moved.old / "regions" / "p0").exists()
    kept = moved.old / "regions" / "p0.salvaged-1" / "log"
    assert b"lost 0" in b"".join(path.read_bytes() for path in kept.glob("*.seg"))
    assert (moved.old / "longterm" / "0.salvaged-1").exists()
    with pytest.raises(NotFound):
        bring_back(moved.old, moved.store_id, 0, moved.url, moved.ask(0))
    assert salvaged(moved.old, 0) is None
    assert [entry.operation for entry in store.audit(operation="salvage")] == ["salvage"] * 2


def test_it_is_begun_again_where_the_owner_was_opened_anew(moved: Moved) -> None:
    """Every piece is told twice, too: an answer may be lost."""
    ask, asked = moved.ask(0), []

    def shaky(request: Request) -> AnyReply:
        asked.append(request)
        ask(request)
        if len(asked) == 1:
            raise Conflict("begin again")
        return ask(request)

    bring_back(moved.old, moved.store_id, 0, moved.url, shaky)
    assert len(asked) == 2
    assert texts(moved.store) == ["shipped", "since then", "lost 0", "lost 2"]


def test_a_disk_that_lacks_nothing_has_nothing_to_tell(moved: Moved, tmp_path: Path) -> None:
    bring_back(moved.old, moved.store_id, 0, moved.url, moved.ask(0))
    moved.store.session("chat").append("user", "more", sync="replica")
    third = tmp_path / "third"
    restore(third, moved.url)
    assert list(unshipped(third, moved.store_id, 0, moved.url)) == []
    (third / "regions" / "p0" / "SHIPPED").unlink()
    assert list(unshipped(third, moved.store_id, 0, moved.url)) == [], "also without its mark"
    assert bring_back(third, moved.store_id, 0, moved.url, moved.ask(0)) == SalvageReport()


def test_a_mark_from_another_disk_hides_nothing(moved: Moved, tmp_path: Path) -> None:
    """It said that all was shipped: nothing was brought back, and the directory renamed."""
    moved.store.session("chat").append("user", "more", sync="replica")
    moved.store.close()
    mark = Path("regions", "p0", "SHIPPED")
    shutil.copy(tmp_path / "new" / mark, moved.old / mark)
    with nf.open(tmp_path / "new", inline=True, replica=moved.url, **ONE) as store:
        again = moved._replace(store=store)
        assert bring_back(moved.old, moved.store_id, 0, moved.url, again.ask(0)).turns == 4
        assert texts(store) == ["shipped", "since then", "more", "lost 0", "lost 2"]


def test_nothing_is_read_that_an_owner_has(moved: Moved) -> None:
    lock = DirectoryLock.acquire(moved.old / "regions" / "p0", role="application")
    with pytest.raises(StoreLocked):
        list(unshipped(moved.old, moved.store_id, 0, moved.url))
    lock.release()
    assert list(unshipped(moved.old, moved.store_id, 0, moved.url))


def test_the_command_brings_back_all_parts_once(moved: Moved, cli: Cli) -> None:
    moved.store.close()
    new = moved.store.address
    ran = cli("salvage", new, "--from", moved.old)
    assert ran.code == 0 and "6 turns and memories brought back" in ran.out, ran
    assert cli("salvage", new, "--from", moved.old).code == 3, "there is nothing left to bring"
    assert "salvage" in cli("audit", new, "--operation", "salvage").out
    with nf.open(new, inline=True, **ONE) as store:
        assert texts(store) == ["shipped", "since then", "lost 0", "lost 2"]
        assert len(store.memories()) == 2


def test_a_store_without_a_replica_has_nothing_to_compare_with(tmp_path: Path, cli: Cli) -> None:
    with nf.open(tmp_path / "plain", inline=True, **ONE) as store:
        store.session("chat").append("user", "hello")
    ran = cli("salvage", tmp_path / "plain", "--from", tmp_path)
    assert ran.code == 2 and "no replica" in ran.err


def test_more_erased_turns_than_one_piece_holds_are_told_in_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what was to be brought back counted for the size of a piece: a large session that had
    been erased was one message, at some size more than a connection takes."""
    monkeypatch.setattr(retrying, "REACH_S_MAX", 0.1)
    old, away = tmp_path / "old", tmp_path / "away"
    with nf.open(old, inline=True, replica=f"file://{away}", **ONE) as store:
        chat, store_id = store.session("chat"), store.status().store_id
        chat.append("user", "shipped", sync="replica")
        away.rename(tmp_path / "hidden")
        chat.append_many([{"role": "user", "content": n} for n in range(6_000)])
        hasty = store.scoped(deadline=1.0).session("chat")
        with pytest.raises(nf.Unavailable):  # on record, and waiting for the replica
            hasty.erase(confirm=nf.CONFIRMED)
    (tmp_path / "hidden").rename(away)
    sent = list(unshipped(old, store_id, 0, f"file://{away}"))
    assert [decode_piece(raw).index for raw in sent] == list(range(len(sent))) and len(sent) > 1
    assert sum(len(decode_piece(raw).erased) for raw in sent) == 6_000
    assert max(map(len, sent)) < 2 * PIECE_BYTES


def test_a_repeat_that_two_owners_answer_gets_its_own_turn(tmp_path: Path) -> None:
    """The owner that was left behind answers the repeat, the one that serves by now what has become
    of that seq: there it is a turn of somebody else.
    """
    old, new = tmp_path / "old", tmp_path / "new"
    with nf.open(old, inline=True, **ONE) as store:
        store.session("chat").append("user", "in both")
    shutil.copytree(old, new)
    with nf.open(old, inline=True, **ONE) as behind, nf.open(new, inline=True, **ONE) as serving:
        said = behind.session("chat").append("user", "left behind", key="k")
        assert serving.session("chat").append("user", "since then").seq == said.seq
        chat = serving.session("chat")
        again = [{"role": "user", "content": "left behind", "key": "k"}]
        operation = writing.append_many(chat._context, chat._place, None, 0, again, None)
        owners, reply = iter((behind, serving)), None
        with pytest.raises(StopIteration) as ended:
            while True:
                call = operation.send(reply)
                channel = next(owners)._engine.channel
                reply = channel.call(call.partition, call.request, time.monotonic() + 60.0)
        assert ended.value.value == [said]
        assert next(owners, None) is None, "both were asked"
