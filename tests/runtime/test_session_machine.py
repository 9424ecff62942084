"""Sessions against a model: random appends, keys, hides, forks of forks, erasures and reopenings,
then every way of reading must agree with it.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import neverforget as nf

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
FRACTION = st.floats(0, 1)


@dataclass(eq=False)
class ModelTurn:
    content: int
    hidden: bool = False
    erased: bool = False


@dataclass(eq=False)
class ModelSession:
    parent: ModelSession | None = None
    base: int = 0
    own: list[ModelTurn] = field(default_factory=list)
    gone: bool = False
    keys: dict[str, int] = field(default_factory=dict)

    def turns(self) -> list[ModelTurn]:
        if self.parent is None:
            return self.own
        if self.parent.gone:
            return [ModelTurn(0, erased=True) for _ in range(self.base)] + self.own
        return self.parent.turns()[: self.base] + self.own


def shape(turns: list[tuple[int, ModelTurn]]) -> list[tuple[int, Any, str]]:
    return [
        (
            seq,
            None if t.erased else t.content,
            "erased" if t.erased else "hidden" if t.hidden else "ok",
        )
        for seq, t in turns
    ]


def seen(turns: Any) -> list[tuple[int, Any, str]]:
    return [(turn.seq, turn.content, turn.state) for turn in turns]


class Sessions(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        shared = Path("/dev/shm")  # in memory where that can be: it opens hundreds of stores
        folder = shared if shared.is_dir() else None
        self.path = Path(tempfile.mkdtemp(prefix="nf-machine-", dir=folder))
        self.model: dict[str, ModelSession] = {}
        self.next = 0
        self.open()

    def open(self) -> None:
        self.store = nf.open(
            self.path, inline=True, partitions=2, segment_bytes=64 * 1024, sync="process"
        )

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.path)

    def content(self) -> int:
        self.next += 1
        return self.next

    @rule(name=NAMES, count=st.integers(1, 5))
    def append(self, name: str, count: int) -> None:
        session = self.model.setdefault(name, ModelSession())
        contents = [self.content() for _ in range(count)]
        turns = self.store.session(name).append_many(
            [{"role": "user", "content": c, "token_count": 1} for c in contents]
        )
        session.own += [ModelTurn(content) for content in contents]
        assert turns[-1].seq == len(session.turns()) - 1

    @rule(name=NAMES, key=st.sampled_from(["k1", "k2"]))
    def append_under_a_key(self, name: str, key: str) -> None:
        session = self.model.setdefault(name, ModelSession())
        known = session.keys.get(key)
        content = self.content() if known is None else session.own[known - session.base].content
        turn = self.store.session(name).append("user", content, key=key, token_count=1)
        if known is None:
            session.keys[key] = len(session.turns())
            session.own.append(ModelTurn(content))
        elif session.own[known - session.base].erased:
            with pytest.raises(nf.Conflict):
                self.store.session(name).append("user", self.content(), key=key, token_count=1)
        assert turn.seq == session.keys[key]

    @precondition(lambda self: self.model)
    @rule(data=st.data(), hidden=st.booleans(), part=FRACTION, width=st.integers(1, 4))
    def hide(self, data: st.DataObject, hidden: bool, part: float, width: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))
        own = self.model[name].own
        first = int(part * len(own))
        some = own[first : first + width]
        if not some:
            return
        base = self.model[name].base + first
        call = self.store.session(name).hide if hidden else self.store.session(name).unhide
        call(range(base, base + len(some)))
        for turn in some:
            turn.hidden = hidden

    @precondition(lambda self: self.model)
    @rule(data=st.data(), into=NAMES, part=FRACTION)
    def fork(self, data: st.DataObject, into: str, part: float) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))
        parent = self.model[name]
        at = round(part * len(parent.turns()))
        if into in self.model:
            try:
                self.store.session(name).fork(into, at=at)
            except (nf.Conflict, nf.InvalidArgument):
                return
            raise AssertionError("forked into a session that exists")
        self.store.session(name).fork(into, at=at)
        self.model[into] = ModelSession(parent, at)

    @precondition(lambda self: any(s.own for s in self.model.values()))
    @rule(data=st.data(), part=FRACTION)
    def erase_a_turn(self, data: st.DataObject, part: float) -> None:
        name = data.draw(st.sampled_from(sorted(n for n, s in self.model.items() if s.own)))
        own = self.model[name].own
        index = min(int(part * len(own)), len(own) - 1)
        seq = self.model[name].base + index
        self.store.session(name).erase(seq, confirm=nf.CONFIRMED)
        own[index].erased = True

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def erase_a_session(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.model)))
        self.store.session(name).erase(confirm=nf.CONFIRMED)
        self.model.pop(name).gone = True

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open()

    @rule(name=NAMES, limit=st.integers(1, 7), hidden=st.booleans(), part=FRACTION)
    def read(self, name: str, limit: int, hidden: bool, part: float) -> None:
        chat = self.store.session(name)
        turns = list(enumerate(self.model.get(name, ModelSession()).turns()))
        visible = [(seq, turn) for seq, turn in turns if hidden or not turn.hidden]
        assert seen(chat.tail(limit, include_hidden=hidden)) == shape(visible)[-limit:]
        assert seen(chat.tail(50, max_tokens=limit, include_hidden=True)) == shape(turns)[
            -limit:
        ] or any(turn.erased for _, turn in turns)
        page = chat.page(limit=limit, include_hidden=hidden)
        walked = seen(page)
        while page.has_more:
            page = chat.page(after=page.next, limit=limit, include_hidden=hidden)
            walked += seen(page)
        assert walked == shape(visible)
        page = chat.page(newest=True, limit=limit, include_hidden=hidden)
        walked = seen(page)
        while page.previous is not None and page.has_more:
            page = chat.page(before=page.previous, limit=limit, include_hidden=hidden)
            walked = seen(page) + walked
        assert walked == shape(visible)
        start = int(part * len(turns))
        assert seen(chat[start : start + limit]) == shape(turns)[start : start + limit]

    @invariant()
    def lengths_agree(self) -> None:
        for name, session in self.model.items():
            assert len(self.store.session(name)) == len(session.turns())
        assert {info.session for info in self.store.sessions()} == set(self.model)


TestSessions = Sessions.TestCase
# An eighth of the profile's examples: each of them opens and reopens a real store.
TestSessions.settings = settings(
    max_examples=settings().max_examples // 8, stateful_step_count=25, deadline=None
)
