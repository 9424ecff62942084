"""What a lost owner had acknowledged comes back to a region that went on without it: once, with new
seqs, and as far as nobody took it away.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from neverforget.storage.errors import Conflict, InvalidArgument
from neverforget.storage.format import HEADER_BYTES
from neverforget.storage.salvage_results import Piece, SalvageReport
from neverforget.storage.slices import in_one_go
from tests.storage.parted import Parted, salvage
from tests.storage.small_region import Bench, contents, flags_at, seen


@pytest.fixture
def parted(tmp_path: Path) -> Iterator[Parted]:
    """Both hold turns 0 and 1 of ``s``."""
    front = Bench(tmp_path / "old")
    front.client.say("s", "zero", "one")
    made = Parted(front, tmp_path / "new")
    yield made
    made.close()


def turns(bench: Bench, session: str = "s") -> list[Any]:
    return contents(bench.client.all(session))


def origins(bench: Bench, session: str = "s") -> dict[int, tuple[int, int]]:
    """By seq, of those that were salvaged."""
    found: dict[int, tuple[int, int]] = {}
    for first, last, epoch, old in bench.client.all(session).salvaged:
        found |= {seq: (epoch, old + seq - first) for seq in range(first, last + 1)}
    return found


def test_turns_come_back_behind_those_that_came_since(parted: Parted) -> None:
    old, new = parted.old.client, parted.new.client
    old.say("s", "lost 2", "lost 3")
    old.say("s", {"content": {"lost": [4]}, "role": "assistant", "timestamp_us": 123})
    new.say("s", "new 2")
    report = parted.salvage()
    assert (report.turns, report.conflicts, report.came_again) == (3, 0, 0)
    assert turns(parted.new) == ["zero", "one", "new 2", "lost 2", "lost 3", {"lost": [4]}]
    epoch = old.region.epoch
    assert origins(parted.new) == {3: (epoch, 2), 4: (epoch, 3), 5: (epoch, 4)}
    last = seen(new.all("s"))[-1]
    assert (last.role, last.timestamp) == ("assistant", 123)
    before = seen(new.all("s")), origins(parted.new)
    for seal in (False, True):
        parted.new.reopen(seal=seal)
        assert (seen(new.all("s")), origins(parted.new)) == before
    assert parted.new.findings() == []


def test_a_salvage_that_is_repeated_finds_nothing_to_do(parted: Parted) -> None:
    """Also by another way, and after the owner was opened again."""
    old = parted.old.client
    old.say("s", "lost")
    old.say("t", "another session", agent="a")
    old.hide("s", (0, 2), reason="why")
    old.region.refuse("erase", {"session": "x"}, "tester", None)
    old.commit()
    first = parted.salvage()
    assert first.turns == 2 and first.came_again == 0
    before = turns(parted.new), turns(parted.new, "t"), parted.new.client.region.log_end
    for _ in range(2):
        again = parted.salvage(bytes_max=1)
        assert (again.turns, again.conflicts) == (0, 0)
        assert (again.came_again, again.records) == (4, first.records)
        after = turns(parted.new), turns(parted.new, "t"), parted.new.client.region.log_end
        assert after == before
        parted.new.reopen()


def test_what_a_client_repeated_is_there_once(parted: Parted) -> None:
    """Before the salvage, and after it."""
    old, new = parted.old.client, parted.new.client
    early, late = old.next_request(), old.next_request()
    old.say("s", "early", "early too", request=early)
    old.say("s", "late", request=late)
    old.say("s", {"content": "keyed", "key": "k"})
    new.say("s", "new")
    held = {turn.seq: turn for turn in seen(old.all("s"))}
    again = [{"content": held[n].content, "timestamp_us": held[n].timestamp} for n in (2, 3)]
    new.append("s", *again, request=early)
    new.append("s", {"content": "keyed", "key": "k"})
    new.commit()
    report = parted.salvage()
    assert (report.turns, report.came_again) == (1, 3)
    assert turns(parted.new) == ["zero", "one", "new", "early", "early too", "keyed", "late"]
    repeated = new.append("s", {"content": "late", "timestamp_us": held[4].timestamp}, request=late)
    assert [index for index, _ in repeated.existing] == [0]
    assert len(turns(parted.new)) == 7


def test_hides_name_the_turns_by_their_new_seqs(parted: Parted) -> None:
    """Those in front of where the logs part, those that are brought, those that came again."""
    old, new = parted.old.client, parted.new.client
    request = old.next_request()
    old.say("s", "came again", request=request)  # 2 there
    old.say("s", "lost 3", "lost 4")
    old.hide("s", (1, 3), reason="a reason")
    old.hide("s", (1, 1), hidden=False)
    new.say("s", "new 2", "new 3", "new 4")
    held = seen(old.all("s"))[2]
    new.append("s", {"content": held.content, "timestamp_us": held.timestamp}, request=request)
    new.commit()
    parted.salvage()
    window = new.all("s")
    assert contents(window)[5:] == ["came again", "lost 3", "lost 4"]
    assert [seq for seq in range(8) if flags_at(window, seq)] == [5, 6]
    hide, unhide, _ = parted.new.audit()
    assert (hide.reason, hide.target["seqs"]) == ("a reason", [[1, 1], [5, 6]])
    assert unhide.operation == "unhide"


def test_a_new_session_its_agents_and_a_fork_come_back(parted: Parted) -> None:
    old, new = parted.old.client, parted.new.client
    old.say("s", "lost 2")
    old.say("t", "of t", agent="ann")
    old.say("t", "of t too", agent="bob")
    old.fork("f", "s", 3)
    old.say("f", "of the fork")
    new.say("s", "new 2")
    parted.salvage()
    assert turns(parted.new, "t") == ["of t", "of t too"]
    assert new.region.info((), "t").agents == ["ann", "bob"]
    forked = new.all("f")
    assert forked.parent is not None and forked.base == 4, "behind the newest turn it had"
    assert contents(forked) == ["of the fork"] and forked.tokens == 50
    assert origins(parted.new, "f") == {4: (old.region.epoch, 3)}
    parted.new.reopen()
    assert parted.new.client.all("f") == forked


def test_marks_are_dropped_and_what_came_back_waits_to_be_reflected(parted: Parted) -> None:
    old, new = parted.old.client, parted.new.client
    old.say("s", "lost 2")
    old.region.mark((), "s", 0, 2, "x", *old.next_request())
    old.commit()
    report = parted.salvage()
    assert (report.turns, report.dropped) == (1, 1)
    assert new.all("s").consolidated_through == 0


# ---- erasing -------------------------------------------------------------------------------------


def test_what_was_erased_on_the_old_side_stays_erased(parted: Parted) -> None:
    """In front of where the logs part it is erased here too; behind, it does not come back."""
    old, new = parted.old.client, parted.new.client
    old.say("s", "lost 2", "secret 3", "lost 4")
    old.erase("s", [(1, 1), (3, 3)], reason="asked to")
    new.say("s", "new 2")
    report = parted.salvage()
    assert report.turns == 2
    assert turns(parted.new) == ["zero", None, "new 2", "lost 2", "lost 4"]
    assert b"secret 3" not in parted.new.every_byte()
    (entry,) = parted.new.audit(operation="erase")
    assert (entry.reason, entry.target["seqs"]) == ("asked to", [[1, 1]])
    assert parted.salvage().turns == 0
    assert len(parted.new.audit(operation="erase")) == 1


def test_what_its_client_repeated_here_is_erased_as_it_was_there(parted: Parted) -> None:
    """The turn that is gone there says who it was of: by its request, or by its key."""
    old, new = parted.old.client, parted.new.client
    request = old.next_request()
    old.say("s", "secret 2", request=request)
    old.say("s", {"content": "secret 3", "key": "k"})
    at = seen(old.all("s"))[2].timestamp
    old.erase("s", [(2, 3)])
    new.say("s", "new 2")
    new.append("s", {"content": "secret 2", "timestamp_us": at}, request=request)
    new.append("s", {"content": "secret 3", "key": "k"})
    new.commit()
    assert parted.salvage().turns == 0
    assert turns(parted.new) == ["zero", "one", "new 2", None, None]
    assert b"secret" not in parted.new.every_byte()
    assert parted.salvage().turns == 0


def test_an_erasure_that_the_old_owner_did_not_finish_counts(parted: Parted) -> None:
    """Its record is durable and the bytes are not zeroed yet."""
    old = parted.old.client
    old.say("s", "secret 2", "lost 3")
    at = parted.old.position_of("s", 2)
    path, offset = parted.old.segment_of(at)
    whole = path.read_bytes()[offset : offset + 200]
    old.erase("s", [(2, 2)])
    assert path.read_bytes()[offset : offset + 200] != whole
    parted.old.overwrite(at, whole[: HEADER_BYTES + 24])
    assert parted.salvage().turns == 1
    assert turns(parted.new) == ["zero", "one", "lost 3"]


def test_a_session_that_was_erased_as_a_whole_on_the_old_side(parted: Parted) -> None:
    old = parted.old.client
    old.say("s", "lost 2")
    old.erase("s")
    old.say("s", "a fresh one")
    parted.salvage()
    assert turns(parted.new) == ["a fresh one"]
    assert parted.salvage().turns == 0


def test_what_was_said_since_outlives_an_erasure_of_the_old_side(parted: Parted) -> None:
    old, new = parted.old.client, parted.new.client
    old.erase("s")
    new.say("s", "new 2")
    parted.salvage()
    assert turns(parted.new) == [None, None, "new 2"]


def test_a_session_that_was_erased_here_does_not_come_back(parted: Parted) -> None:
    old, new = parted.old.client, parted.new.client
    old.say("s", "lost 2")
    old.say("t", "of t")
    new.say("t", "of t here")
    new.erase("s")
    new.erase("t")
    report = parted.salvage()
    assert (report.turns, report.conflicts) == (0, 0)
    assert turns(parted.new) == [] and turns(parted.new, "t") == []


# ---- conflicts -----------------------------------------------------------------------------------


def test_a_key_that_was_given_to_another_turn_since(parted: Parted) -> None:
    """The turn is brought all the same, without holding the key, and it is on record."""
    old, new = parted.old.client, parted.new.client
    old.say("s", {"content": "old", "key": "private-key"})
    new.say("s", {"content": "new", "key": "private-key"})
    report = parted.salvage()
    assert (report.turns, report.conflicts) == (1, 1)
    assert turns(parted.new)[2:] == ["new", "old"]
    conflict, summary = parted.new.audit(operation="salvage")
    assert conflict.details["operation"] == "turn" and "key is held" in conflict.details["conflict"]
    assert conflict.target == {"namespace": [], "session": "s"}
    assert summary.details["conflicts"] == 1 and summary.details["turns"] == 1
    assert {f.kind for f in parted.new.region.status().findings} == {"salvaged", "salvage_conflict"}
    again = parted.salvage()
    assert (again.turns, again.conflicts) == (0, 0)
    assert len(parted.new.audit(operation="salvage")) == 2
    parted.new.reopen()
    assert len(parted.new.audit(operation="salvage")) == 2
    assert new.append("s", {"content": "new", "key": "private-key"}).existing


def test_a_fork_whose_name_was_taken_since_is_listed(parted: Parted) -> None:
    old, new = parted.old.client, parted.new.client
    old.fork("f", "s", 2)
    old.say("f", "of the fork")
    new.say("f", "another")
    report = parted.salvage()
    assert (report.turns, report.conflicts) == (1, 1)
    assert turns(parted.new, "f") == ["another", "of the fork"]


def test_a_client_may_repeat_its_request_in_the_middle_of_a_salvage(parted: Parted) -> None:
    """Between two slices, when its turn was looked at already: it was staged twice once."""
    old, new = parted.old.client, parted.new.client
    request = old.next_request()
    old.say("s", {"content": "lost", "timestamp_us": 7}, request=request)
    for number in range(300):
        old.append(f"t{number % 3}", f"turn {number}")
    old.commit()
    (piece,) = parted.pieces()
    work = parted.new.region.salvage(piece)
    next(work)
    new.say("s", {"content": "lost", "timestamp_us": 7}, request=request)
    assert in_one_go(work).came_again == 1
    assert turns(parted.new) == ["zero", "one", "lost"]


def test_a_piece_that_is_repeated_does_no_harm(parted: Parted) -> None:
    for number in range(3):
        parted.old.client.say("s", f"lost {number}")
    first, second, third = parted.pieces(bytes_max=1)
    salvage(parted.new, [first, first, second, second, third])
    with pytest.raises(Conflict, match="begin again"):
        in_one_go(parted.new.region.salvage(third))
    assert turns(parted.new)[2:] == ["lost 0", "lost 1", "lost 2"]


def test_pieces_in_the_wrong_order_are_refused(parted: Parted) -> None:
    old = parted.old.client
    for number in range(4):
        old.say("s", f"lost {number}")
    found = parted.pieces(bytes_max=1)
    assert [piece.last for piece in found] == [False, False, False, True]
    with pytest.raises(Conflict, match="begin again"):
        in_one_go(parted.new.region.salvage(found[1]))
    in_one_go(parted.new.region.salvage(found[0]))
    parted.new.reopen()
    with pytest.raises(Conflict, match="begin again"):
        in_one_go(parted.new.region.salvage(found[1]))
    in_one_go(parted.new.region.salvage(found[0]))
    with pytest.raises(InvalidArgument, match="of log"):
        in_one_go(parted.new.region.salvage(Piece(1, 2, 0, 0, [], [], 0, True)))
    assert salvage(parted.new, found).turns == 3, "the first one is there"
    assert turns(parted.new)[2:] == [f"lost {number}" for number in range(4)]


def test_what_is_salvaged_twice_over_is_known_by_where_it_was_first(
    parted: Parted, tmp_path: Path
) -> None:
    """The owner that brought it back is lost itself: both old logs hold the turn now."""
    old, new = parted.old.client, parted.new.client
    old.say("s", {"content": "lost"})
    new.say("s", "shipped")
    second = Parted(parted.new, tmp_path / "third")
    parted.salvage()  # into the second one, which is lost then
    third = second.new
    third.client.say("s", "at last")
    again = salvage(third, second.pieces(stream=9))
    assert again.turns == 1
    assert salvage(third, parted.pieces()).turns == 0
    assert turns(third) == ["zero", "one", "shipped", "at last", "lost"]
    assert origins(third) == {4: (old.region.epoch, 2)}
    third.close()


def test_two_old_logs_may_come_back_at_the_same_time(parted: Parted) -> None:
    """Slice by slice beside each other, as an owner's own and that of a disk elsewhere: also where
    both hold the same, known by its client's request or by nothing but where it stood."""
    old = parted.old.client
    for number in range(200):
        old.say(f"s{number % 3}", f"lost {number}")
    old.region.refuse("erase", {"session": "x"}, "tester", None)
    old.commit()
    slices = [
        (slice_ for piece in parted.pieces(4_000, stream) for slice_ in all_of(parted, piece))
        for stream in (1, 2, 3)
    ]
    while slices:
        slices = [work for work in slices if next(work, "end") != "end"]
        parted.new.region.write()
    found = [words for n in range(3) for words in turns(parted.new, f"s{n}")]
    assert sorted(found) == sorted(f"lost {number}" for number in range(200))
    assert len(parted.new.audit(operation="forget-refused")) == 1
    parted.new.region.sync()
    parted.new.reopen()
    assert parted.salvage().turns == 0


def all_of(parted: Parted, piece: Piece) -> Iterator[None]:
    yield from parted.new.region.salvage(piece)
    yield None


def test_damage_in_the_old_log_costs_what_is_damaged(parted: Parted) -> None:
    old = parted.old.client
    for number in range(5):
        old.say("s", f"lost {number}")
    parted.old.damage_body(parted.old.position_of("s", 3))
    parted.old.damage_header(parted.old.position_of("s", 5))
    zeroed = parted.old.position_of("s", 6)  # as an erasure of this side does in what was set aside
    parted.old.overwrite(zeroed + HEADER_BYTES, bytes(9))
    report = parted.salvage()
    assert (report.turns, report.unreadable, report.dropped) == (2, 1, 1)
    assert turns(parted.new)[2:] == ["lost 0", "lost 2"]


def test_many_turns_in_small_and_large_pieces(parted: Parted) -> None:
    old = parted.old.client
    for number in range(600):
        old.append(f"s{number % 7}", f"turn {number} " + "x" * (number * 37 % 700))
    old.append("s0", "y" * 100_000)
    old.commit()
    names = [f"s{n}" for n in range(7)]
    wanted = {name: turns(parted.old, name) for name in names}
    report = parted.salvage(bytes_max=5_000)
    assert report.turns == 601
    assert {name: turns(parted.new, name) for name in names} == wanted
    parted.new.reopen()
    assert {name: turns(parted.new, name) for name in names} == wanted
    for name in names:
        assert len(parted.new.client.all(name).salvaged) == 1


def test_report_adds_up() -> None:
    report = SalvageReport(1, 2, 3)
    report.add(SalvageReport(1, 1, 1, 1, 1, 1))
    assert report == SalvageReport(2, 3, 4, 1, 1, 1)
