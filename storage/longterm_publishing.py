"""Storing a generation beside everything else that goes on.

    publication = stored.begin()      # moments: fixes what goes in
    publication.run()                 # long; any thread
    stored.finish(publication)        # moments: the indexes change over; or stored.abandon(…)

``run`` reads only what never changes: the log below the moment that was fixed, snapshots of the
indexes, a copy of the table. Meanwhile the owner appends and forgets, the indexer brings words and
vectors, and views are made. It pauses now and then, so that the owner gets the interpreter.

An erasure that is noticed meanwhile makes it worthless: its files may hold what was erased. It ends
then without being published, and another is begun.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from neverforget.storage.directory_lock import Role
from neverforget.storage.errors import Corrupt, OutOfSpace, Poisoned
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.log_state import heads_crc
from neverforget.storage.longterm_bodies import BodySource
from neverforget.storage.longterm_documents import ForgottenTexts, document_of, quotable_text
from neverforget.storage.longterm_folding import born_digest
from neverforget.storage.longterm_following import heads_from
from neverforget.storage.longterm_moment import Moment
from neverforget.storage.longterm_row_generations import RowGenerations
from neverforget.storage.longterm_snapshot import Snapshot
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.manifest import Manifest, Part, free_name, publish
from neverforget.storage.manifest import Role as PartRole
from neverforget.storage.memory_table import Array
from neverforget.storage.table_file import write_table
from neverforget.storage.text_index import PAUSE_DOCUMENTS, Commit, TextDocument, TextIndex
from neverforget.storage.vector_index import Fold, VectorBase

_PAUSE_S: Final = 0.0001


class Superseded(Exception):
    """Something was erased while it ran."""


@dataclass
class Words:
    """What a text index is made of, fixed: by row, the position of the record whose words are to be
    in (0: none). ``upto``: the log position that this is of.
    """

    positions: Array
    upto: int

    def documents(
        self, bodies: BodySource, forgotten: ForgottenTexts, pause: Callable[[], object]
    ) -> Iterator[TextDocument]:
        for number, row in enumerate(np.flatnonzero(self.positions).tolist()):
            if number % PAUSE_DOCUMENTS == 0:
                pause()
            try:
                header, body = bodies.read(int(self.positions[row]))
            except Corrupt:
                continue
            yield document_of(row, body, header.timestamp, forgotten)


@dataclass
class Publication:
    """One generation in the making; made by ``Generations.begin``. ``manifest``: what it publishes,
    once it has.
    """

    fs: FileSystem
    directory: Path
    role: Role
    log_id: int
    state: LongTermState
    bodies: BodySource
    before: Manifest
    moment: Moment
    words: Words
    text_name: str
    text: TextIndex
    anew: bool
    superseded: Callable[[], bool]
    erasures: int  # noticed before it began: its files hold nothing of these
    snapshot: Callable[[], Snapshot] | None
    fold: Fold | None
    commit: Commit | None
    vectors_part: Part | None  # of what the fold would make again; or of a store that has no model
    known: dict[str, str | int] = field(default_factory=dict)  # model and dimension of the vectors
    pause: Callable[[], object] = lambda: time.sleep(_PAUSE_S)
    base: VectorBase | None = field(default=None, init=False)
    made_text: TextIndex | None = field(default=None, init=False)
    manifest: Manifest | None = field(default=None, init=False)
    commit_error: OutOfSpace | Poisoned | None = field(default=None, init=False)

    def run(self) -> bool:
        """Write it and publish it: it survives power loss when this returns. False: something was
        erased meanwhile, and nothing is published. OutOfSpace, OSError: the last one holds.
        """
        try:
            parts = [*self._rows(), *self._vectors(), *self._table(), self._text()]
            self._go_on()
        except Superseded:
            return False
        manifest = Manifest(
            log_id=self.log_id,
            number=self.before.number + 1,
            watermark=self.moment.upto,
            parts=tuple(parts),
        )
        # First the manifest, with the digest of the rows that the text index will know.
        publish(self.fs, self.directory, manifest)
        self.manifest = manifest
        if self.commit is not None:
            try:
                self.commit.run(self.pause)
            except (OutOfSpace, Poisoned) as error:
                self.commit_error = error  # the generation is whole, its words are behind
        return True

    def close(self) -> None:
        """Let go of what is not used."""
        if self.made_text is not None:
            self.made_text.close()
            self.made_text = None

    def _go_on(self) -> None:
        if self.superseded():
            raise Superseded
        self.pause()

    def _name(self, role: PartRole) -> str:
        return free_name(self.fs, self.directory, role, self.before.number + 1)

    def _rows(self) -> list[Part]:
        rows = RowGenerations(self.fs, self.directory, self.state)
        current = self.moment.position
        return rows.store(
            self.before, self.moment.upto, current, self.bodies, self._go_on, anew=self.anew
        )

    def _vectors(self) -> list[Part]:
        if self.vectors_part is not None:
            return [self.vectors_part]
        if self.fold is None:
            return []
        self._go_on()
        self.base = self.fold.run(self._go_on)
        name = self._name("vectors")
        seal = self.base.save(self.fs, self.directory / name, self._go_on)
        details = {**self.known, **self.rows_known()}
        return [
            Part(
                role="vectors", name=name, start=0, stop=self.words.upto, seal=seal, details=details
            )
        ]

    def _table(self) -> list[Part]:
        if self.snapshot is None:
            return self.before.of("table")
        snapshot, upto = self.snapshot(), self.moment.upto
        self._go_on()
        crc = heads_crc(heads_from(self.state, 0, upto), upto)
        name = self._name("table")
        compact = snapshot.compact(crc)
        self._go_on()
        seal = write_table(self.fs, self.directory / name, self.log_id, compact)
        return [Part(role="table", name=name, start=0, stop=upto, seal=seal)]

    def _text(self) -> Part:
        text, name = self.text, self.text_name
        if self.anew:
            name = self._name("text")
            text = TextIndex.create(self.fs, self.directory / name, role=self.role)
            self.made_text = text
            forgotten = forgotten_texts(self.bodies, self.moment)
            documents = self.words.documents(self.bodies, forgotten, self._go_on)
            text.load(documents, self.words.upto)
            self.text_name = name
        details = {"incarnation": text.incarnation, **self.rows_known()}
        return Part(role="text", name=name, start=0, stop=text.watermark, details=details)

    def rows_known(self) -> dict[str, str | int]:
        return {"rows": self.moment.count, "born": born_digest(self.moment.born)}


def forgotten_texts(
    bodies: BodySource, moment: Moment, go_on: Callable[[], object] = lambda: None
) -> ForgottenTexts:
    """Of what is forgotten at ``moment``. ``go_on`` may end it by raising."""
    texts = ForgottenTexts()
    for row in moment.forgotten().tolist():
        go_on()
        try:
            _, body = bodies.read(int(moment.position[row]))
        except Corrupt:
            continue
        texts.add(row, quotable_text(body))
    return texts
