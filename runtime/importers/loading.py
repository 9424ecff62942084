"""Turns of a file into a store, so that a second run, or a run that was interrupted, repeats
nothing.

Every turn has an identity that does not depend on the run:

* its ``key``, where the file gives one: the owner answers a known key with the turn that has it;
* its place, where the file says it (``seq``, in our own exports): a turn that is there already is
  compared;
* else a key made here: ``import:{what the session begins with in this file}:{number in the
  session}``. A file that has grown keeps these, and two files about the same session that begin
  differently do not collide.

Turns are appended in batches, several sessions at a time, since files hold them interleaved; the
disk is waited for at the end, because until then the file is there to begin again from. Memory is
bounded by the open batches plus a few words for each session of the file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from neverforget.actors.messages import Settle
from neverforget.runtime.importers.report import ImportReport, Problems
from neverforget.runtime.importers.source_turn import Branch, Problem, SourceTurn
from neverforget.runtime.operation import Call, Operation
from neverforget.runtime.turn_json import json_value
from neverforget.storage.errors import Conflict, InvalidArgument

if TYPE_CHECKING:
    from neverforget.runtime.session import Session
    from neverforget.runtime.store import Store
    from neverforget.runtime.values import Turn

BATCH_TURNS_MAX = 256
OPEN_TURNS_MAX = 4096
OPEN_CHARACTERS_MAX = 16 * 1024 * 1024
PAGE_TURNS = 256
STATE_FIELD = "neverforget.state"  # in the metadata of what stands for a turn without content
COMPARED = ("role", "content", "name", "agent", "call_id", "key", "metadata")


@dataclass(slots=True)
class Target:
    """A session of the store that the file feeds."""

    namespace: tuple[str, ...]
    name: str
    end: int  # seq of the next new turn
    began_with: int  # ``end`` when this run met the session
    begins: str | None = None  # digest of the session's first turn in this file
    met: int = 0  # turns of the file so far
    waiting: list[SourceTurn] = field(default_factory=list)
    window: list[Turn] = field(default_factory=list)  # existing turns, read ahead for comparison
    keys: set[bytes] | None = None  # of the existing turns; only a dry run reads them


class Loader:
    """``store`` None: a dry run into a store that does not exist yet."""

    def __init__(
        self, store: Store | None, file: str, namespace: tuple[str, ...], dry_run: bool
    ) -> None:
        self._store = store
        self._file = file
        self._prefix = namespace
        self._dry_run = dry_run or store is None
        self._targets: dict[tuple[tuple[str, ...], str], Target] = {}
        self._open: dict[int, Target] = {}
        self._open_turns = self._open_characters = 0
        self.turns = self.appended = self.existing = self.refused = self.contentless = 0
        self._problems = Problems()

    # ---- taking ----------------------------------------------------------------------------------

    def problem(self, problem: Problem) -> None:
        self._problems.add(problem)

    def add(self, turn: SourceTurn) -> None:
        self.turns += 1
        target = self._target(turn)
        self._identify(target, turn)
        if turn.seq is not None and target.waiting and turn.seq <= (target.waiting[-1].seq or 0):
            self._write(target)  # it may repeat one that waits: only what is written is compared
        target.waiting.append(turn)
        self._open[id(target)] = target
        self._open_turns += 1
        self._open_characters += _size(turn.fields["content"])
        if len(target.waiting) >= BATCH_TURNS_MAX:
            self._write(target)
        elif self._open_turns >= OPEN_TURNS_MAX or self._open_characters >= OPEN_CHARACTERS_MAX:
            self._write_all()

    def add_branch(self, branch: Branch) -> None:
        """A whole conversation. Where the session holds another course of it, the branch's own name
        is used."""
        first = branch.turns[0]
        first.session = branch.session
        target = self._target(first)
        if (
            branch.session != branch.leaf
            and target.end
            and not self._continues(target, branch.turns)
        ):
            first.session = branch.leaf
        for turn in branch.turns:
            turn.session = first.session
            self.add(turn)

    def finish(self) -> None:
        """Write everything that waits, and return when it is on the disk."""
        self._write_all()
        if not self._dry_run and self._store is not None:
            self._store._run(_durable(self._store._context.partitions))

    def _write_all(self) -> None:
        for target in list(self._open.values()):
            self._write(target)

    def report(self, path: str, format_name: str, size: int) -> ImportReport:
        return ImportReport(
            path=path,
            format=format_name,
            turns=self.turns,
            appended=self.appended,
            existing=self.existing,
            refused=self.refused,
            contentless=self.contentless,
            sessions=len(self._targets),
            bytes=size,
            problem_count=self._problems.count,
            problems=tuple(self._problems.kept),
            dry_run=self._dry_run,
        )

    # ---- identity --------------------------------------------------------------------------------

    def _target(self, turn: SourceTurn) -> Target:
        place = (self._prefix + turn.namespace, turn.session)
        target = self._targets.get(place)
        if target is None:
            end = 0 if self._store is None else self._session(*place).info().turns
            target = self._targets[place] = Target(*place, end=end, began_with=end)
        return target

    def _session(self, namespace: tuple[str, ...], name: str, agent: str | None = None) -> Session:
        assert self._store is not None
        return self._store.session(name, agent=agent, namespace=namespace)

    def _identify(self, target: Target, turn: SourceTurn) -> None:
        number, target.met = target.met, target.met + 1
        if turn.state in ("erased", "unreadable"):
            turn.fields["content"] = None
            turn.fields["metadata"] = {**turn.fields.get("metadata", {}), STATE_FIELD: turn.state}
        if turn.seq is None and "key" not in turn.fields:
            if target.begins is None:
                target.begins = _digest(turn)
            turn.fields["key"] = f"import:{target.begins}:{number}"

    def _continues(self, target: Target, turns: list[SourceTurn]) -> bool:
        """The session's turns are the first ones of ``turns``, judged by the newest that has a
        key."""
        keys = [turn.fields.get("key") for turn in turns]
        if self._store is None:
            return True
        for turn in reversed(
            self._session(target.namespace, target.name).tail(16, include_hidden=True)
        ):
            if turn.key is not None:
                return turn.key in keys
        return True

    # ---- writing ---------------------------------------------------------------------------------

    def _write(self, target: Target) -> None:
        turns, target.waiting = target.waiting, []
        self._open.pop(id(target), None)
        self._open_turns -= len(turns)
        self._open_characters -= sum(_size(turn.fields["content"]) for turn in turns)
        for agent, run in _runs(self._without_known_places(target, turns)):
            if self._dry_run:
                self._count(target, run)
            else:
                self._append(target, self._session(target.namespace, target.name, agent), run)

    def _without_known_places(self, target: Target, turns: list[SourceTurn]) -> list[SourceTurn]:
        """What is left of an export's turns when those that stand at their place already are taken
        out."""
        left: list[SourceTurn] = []
        known = target.began_with if self._dry_run else target.end
        after = target.end  # where the next new turn of this batch will stand
        for turn in turns:
            if turn.seq is None:
                left.append(turn)
            elif turn.seq < known and self._stands(target, turn):
                self.existing += 1
            elif "key" in turn.fields or turn.seq == after:
                left.append(turn)
                after += 1
            elif turn.seq < after:
                self._refuse(turn, f"{target.name} holds another turn at seq {turn.seq}")
            else:
                self._refuse(
                    turn, f"{target.name} lacks the turns from seq {after} to {turn.seq - 1}"
                )
        return left

    def _stands(self, target: Target, turn: SourceTurn) -> bool:
        """The session has this very turn at its place, or had it until it was erased there."""
        assert turn.seq is not None
        found = self._existing(target, turn.seq)
        if found is None:
            return False
        if found.state in ("erased", "unreadable"):
            return True
        chat = self._session(target.namespace, target.name, turn.agent)
        if not _same(found, turn, chat.agent):
            return False
        if turn.state == "hidden" and found.state == "ok" and not self._dry_run:
            chat.hide([turn.seq], reason="hidden in the import")
        return True

    def _existing(self, target: Target, seq: int) -> Turn | None:
        window = target.window
        if not window or not window[0].seq <= seq <= window[-1].seq:
            chat = self._session(target.namespace, target.name)
            window = target.window = list(chat[seq : seq + PAGE_TURNS])
        return next((turn for turn in window if turn.seq == seq), None)

    def _append(self, target: Target, chat: Session, turns: list[SourceTurn]) -> None:
        # The place of a turn without a key is its identity: nobody may append in between.
        expect = target.end if any("key" not in turn.fields for turn in turns) else None
        try:
            written = chat.append_many(
                [turn.fields for turn in turns], expect_seq=expect, sync="process"
            )
        except (Conflict, InvalidArgument) as error:
            end = chat.info().turns
            if expect is not None and end > target.end:  # somebody appends too: look again
                target.end = end
                left = self._without_known_places(target, turns)
                if left:
                    self._append(target, chat, left)
                return
            if len(turns) == 1:
                self._refuse(turns[0], str(error))
                return
            for turn in turns:  # one of them is at fault: find it, keep the others
                self._append(target, chat, [turn])
            return
        hidden: list[int] = []
        for source, there in zip(turns, written, strict=True):
            if there.seq >= target.end:
                self.appended += 1
                self.contentless += source.state in ("erased", "unreadable")
                target.end = there.seq + 1
            else:
                self.existing += 1
            if source.state == "hidden" and there.state == "ok":
                hidden.append(there.seq)
        if hidden:
            chat.hide(hidden, reason="hidden in the import")

    def _refuse(self, turn: SourceTurn, message: str) -> None:
        self.refused += 1
        self.problem(Problem(self._file, turn.line, message))

    # ---- dry run ---------------------------------------------------------------------------------

    def _count(self, target: Target, turns: list[SourceTurn]) -> None:
        if target.keys is None:
            target.keys = set()
            if self._store is not None and target.began_with:
                chat = self._session(target.namespace, target.name)
                target.keys |= {_short(turn.key) for turn in chat if turn.key is not None}
        for turn in turns:
            key = turn.fields.get("key")
            if key is not None and _short(key) in target.keys:
                self.existing += 1
                continue
            self.appended += 1
            target.end += 1
            if key is not None:
                target.keys.add(_short(key))


def _durable(partitions: int) -> Operation[None]:
    """Until the turns are on the disk. The memories of the same file are already, and need not be
    embedded for that."""
    for partition in range(partitions):
        yield Call(partition, Settle(0), math.inf)


def _runs(turns: list[SourceTurn]) -> Iterator[tuple[str | None, list[SourceTurn]]]:
    """Neighbours by the same agent: a batch has one."""
    run: list[SourceTurn] = []
    for turn in turns:
        if run and run[0].agent != turn.agent:
            yield run[0].agent, run
            run = []
        run.append(turn)
    if run:
        yield run[0].agent, run


def _same(found: Turn, turn: SourceTurn, agent: str | None) -> bool:
    given = {"agent": agent, **turn.fields}
    for name in COMPARED:
        ours, theirs = getattr(found, name) or None, given.get(name) or None
        if name == "content":
            ours, theirs = found.content, given["content"]
        if name == "metadata" and found.salvaged_from is not None and theirs:
            # In an export of this store it stands beside the metadata.
            theirs = {n: v for n, v in theirs.items() if n != "salvaged_from"} or None
        if json_value(ours) != json_value(theirs):
            return False
    return True


def _digest(turn: SourceTurn) -> str:
    """Of what identifies the turn. Not of its metadata: a newer export may know more about an old
    turn."""
    at = turn.fields.get("timestamp")
    what = [
        turn.fields["role"],
        turn.fields.get("name"),
        turn.fields["content"],
        at and at.isoformat(),
    ]
    text = json.dumps(json_value(what), sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def _short(key: str) -> bytes:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=10).digest()


def _size(content: Any) -> int:
    """About how many characters; structured content is not worth a walk for an exact answer."""
    return len(content) if isinstance(content, str | bytes) else 1024


Progress = Callable[[int, int | None], None]
