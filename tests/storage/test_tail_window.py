"""No result without its call, and nothing else is left out."""

from __future__ import annotations

import itertools
import random

from neverforget.storage.format import RecordFlag, RoleCode
from neverforget.storage.record import decode_records, encode_turn
from neverforget.storage.tail_window import Link, Sight, is_paired, link, newest_group, parted


def links_of(*turns: tuple[str, object, str | None]) -> list[Link]:
    made = b"".join(
        encode_turn(
            role=role, content=content, call_id=call_id, timestamp_us=0, token_count=1,
            producer=1, producer_seq=1, key_scope=b"",
        )
        for role, content, call_id in turns
    )  # fmt: skip
    return [link(header, body) for header, body in decode_records(made)]


CALL, RESULT, TEXT = ("tool_call", "f()", None), ("tool_result", "42", None), ("user", "hi", None)


def named(role: str, call_id: str) -> tuple[str, object, str | None]:
    return role, "x", call_id


def test_a_result_in_front_of_every_call_is_left_out_when_its_call_may_lie_before() -> None:
    assert parted(links_of(RESULT, TEXT, RESULT), calls_before=True) == [0, 2]
    assert parted(links_of(RESULT, TEXT, RESULT), calls_before=False) == []


def test_a_result_belongs_to_the_nearest_call_before_it() -> None:
    assert parted(links_of(TEXT, CALL, RESULT, RESULT), calls_before=True) == []
    assert parted(links_of(RESULT, CALL, RESULT), calls_before=True) == [0]


def test_a_result_belongs_to_the_call_with_its_id_however_far() -> None:
    window = links_of(named("tool_call", "b"), named("tool_result", "a"))
    assert parted(window, calls_before=True) == [1], "the nearest call is another's"
    window = links_of(named("tool_call", "a"), named("tool_call", "b"), named("tool_result", "a"))
    assert parted(window, calls_before=True) == []
    assert parted(links_of(CALL, named("tool_result", "a")), calls_before=True) == []


def test_calls_inside_an_assistant_turn_are_found_by_their_ids() -> None:
    content = {"content": None, "tool_calls": [{"id": "a"}, {"id": "b"}, {"no": "id"}]}
    window = links_of(
        ("assistant", content, None), named("tool", "b"), named("function", "a"), named("tool", "z")
    )
    assert [one.is_result for one in window] == [False, True, True, True]
    assert parted(window, calls_before=True) == [3]


def test_an_assistant_turn_without_calls_is_no_call() -> None:
    assert links_of(("assistant", {"tool_calls": []}, None), ("assistant", "text", "a")) == [
        Link(False, None, None),
        Link(False, None, None),
    ]


def test_an_erased_call_still_counts_as_one() -> None:
    made = encode_turn(
        role="tool_call", content="f()", call_id="a", timestamp_us=0, token_count=1,
        producer=1, producer_seq=1, key_scope=b"",
    )  # fmt: skip
    ((header, _),) = decode_records(made)
    assert link(header, None).makes == frozenset()
    assert parted([link(header, None), Link(True, None, "a")], calls_before=True) == []


def test_only_calls_and_results_need_their_bodies() -> None:
    paired = {role for role in RoleCode if is_paired(role, 0)}
    assert paired == {RoleCode.TOOL_RESULT, RoleCode.TOOL, RoleCode.FUNCTION}
    assert is_paired(RoleCode.ASSISTANT, int(RecordFlag.CALLS))


def test_every_window_of_a_random_conversation_keeps_its_pairs(rng: random.Random) -> None:
    """The rule by itself: the owner of a result is the call with its id, else the nearest."""
    for _ in range(200):
        turns: list[tuple[str, object, str | None]] = []
        for _ in range(rng.randrange(1, 14)):
            kind = rng.random()
            call_id = rng.choice(["a", "b", "c"])
            if kind < 0.35:
                turns.append(named("tool_call", call_id))
            elif kind < 0.7:
                turns.append(named("tool_result", call_id))
            else:
                turns.append(TEXT)
        links = links_of(*turns)
        for start in range(len(turns)):
            before = any(one.makes is not None for one in links[:start])
            left_out = {start + at for at in parted(links[start:], calls_before=before)}
            for at in range(start, len(turns)):
                owner = owner_of(turns, at)
                if owner is not None and owner < start:
                    assert at in left_out, "its call lies before the window"
                elif owner is None or turns[owner][2] == turns[at][2]:
                    assert at not in left_out or owner is None
    assert parted([], calls_before=True) == []


# ---- the newest group: what is shown where nothing else would be left ----------------------------


def group(
    *turns: tuple[str, object, str | None], sights: str = "", whole: bool = False
) -> list[int] | None:
    """``sights``: h hidden, o of another role, anything else shown; one character a turn."""
    marks = {"h": Sight.HIDDEN, "o": Sight.OTHER_ROLE}
    seen = [marks.get(mark, Sight.SHOWN) for mark in sights or "." * len(turns)]
    return newest_group(links_of(*turns), seen, whole=whole)


A, B = named("tool_call", "a"), named("tool_call", "b")
RESULT_A, RESULT_B = named("tool_result", "a"), named("tool_result", "b")


def test_the_newest_group_is_whole_from_its_call_on() -> None:
    assert group(TEXT, CALL, RESULT, RESULT) == [1, 2, 3]
    assert group(TEXT, A, TEXT, RESULT_A) == [1, 2, 3]
    assert group(A, B, RESULT_A, RESULT_B) == [1, 3], "what is of another call is left out"
    assert group(A, B, RESULT_B, RESULT_A) == [0, 1, 2, 3]
    assert group(A, RESULT_A, TEXT) == [2], "a turn that is no result stands for itself"


def test_the_call_is_looked_for_as_far_back_as_it_takes() -> None:
    assert group(RESULT_A, TEXT) is not None
    assert group(TEXT, RESULT_A) is None and group(TEXT, RESULT) is None
    assert group(B, TEXT, RESULT_A) is None
    assert group(B, TEXT, RESULT_A, whole=True) == [0, 1, 2], "else the nearest before it"
    assert group(TEXT, RESULT_A, whole=True) == [1], "it has no call at all"
    assert group(whole=True) == [] and group() is None


def test_a_result_whose_call_is_hidden_gives_way_to_an_older_turn() -> None:
    assert group(B, RESULT_B, A, RESULT_A, sights="..h.") == [0, 1]
    assert group(TEXT, A, RESULT_A, sights=".h.") == [0]
    assert group(A, RESULT_A, sights="h.", whole=True) == []
    assert group(A, RESULT_A, RESULT_A, sights="..h") == [0, 1]


def test_a_result_whose_call_is_of_a_role_not_asked_for_stands_for_itself() -> None:
    assert group(TEXT, A, RESULT_A, sights=".o.") == [2]
    assert group(A, B, RESULT_A, RESULT_B, sights="o...") == [1, 2, 3]


def owner_of(turns: list[tuple[str, object, str | None]], at: int) -> int | None:
    if turns[at][0] != "tool_result":
        return None
    calls = [n for n in range(at) if turns[n][0] == "tool_call"]
    same = [n for n in calls if turns[n][2] == turns[at][2]]
    return next(itertools.chain(reversed(same), reversed(calls)), None)
