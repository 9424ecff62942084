"""Storing generations: what ``Generations`` does after it is open. See ``longterm_publishing``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import numpy as np

from neverforget.storage.atomic_file import TEMPORARY_SUFFIX
from neverforget.storage.directory_lock import Role
from neverforget.storage.errors import NeverforgetError
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.longterm_bodies import BodySource
from neverforget.storage.longterm_folding import FoldingTurn, born_digest, store_due
from neverforget.storage.longterm_index import LongTermIndex
from neverforget.storage.longterm_moment import Moment
from neverforget.storage.longterm_publishing import Publication, Words
from neverforget.storage.longterm_row_generations import GENERATIONS_MAX
from neverforget.storage.longterm_snapshot import Snapshot
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.manifest import Manifest, Part, check_part, collect, free_name
from neverforget.storage.manifest import Role as PartRole
from neverforget.storage.vector_index import Fold, VectorBase

TABLE_LAG_BYTES = 8 * 1024 * 1024  # of the log behind the stored table, replayed on opening


class Storing:
    """One publication and one turn of vectors at a time; all calls are the indexer's.

    ``_saved_base`` is the base in use where ``_saved_part`` holds just that; ``_unsaved`` counts
    the vectors of a base that no part holds.
    """

    directory: Path
    manifest: Manifest
    index: LongTermIndex
    _fs: FileSystem
    _state: LongTermState
    _moment: Moment
    _model: str | None
    _dimension: int
    _expects_vectors: bool
    _log_bodies: BodySource
    _log_id: int
    _role: Role
    _text_name: str
    _saved_base: VectorBase | None
    _saved_part: Part | None
    _unsaved: int
    _publication: Publication | None
    _folding: FoldingTurn | None

    @abstractmethod
    def _read_bodies_from(self, manifest: Manifest) -> None: ...

    @abstractmethod
    def _report(self, part: Part, error: NeverforgetError | OSError) -> None: ...

    def is_damaged(self) -> bool:
        """Whether, at a quick look, a stored file is not what was stored. Such a one is reported;
        ``distrust`` them all, and begin the next generation ``anew``.
        """
        before = self.manifest
        for part in before.parts:
            try:
                check_part(self._fs, self.directory, part, "size")
            except (NeverforgetError, OSError) as error:
                self._report(part, error)
        return self.manifest is not before

    def distrust(self) -> None:
        """The vectors that are stored may be damaged: they are stored again, too."""
        self._saved_part = None

    def begin(self, *, anew: bool = False, vectors: bool = True) -> Publication:
        """Fix what goes into the next generation. Moments; in the indexer's thread, while the owner
        changes nothing: what changed a memory is written, synced and noticed. One at a time.

        ``anew``: copy nothing from older files. Done by itself after an erasure, whose words must
        be in no file. ``vectors`` False: those that are stored will do, see ``longterm_folding``;
        this is of no effect when ``anew``.
        """
        state, index = self._state, self.index
        assert self._publication is None, "one is being written"
        moment = self._moment = Moment.of(state, index.upto)
        assert state.applied <= moment.upto, "notice first: the table knows more than the indexes"
        assert state.log.durable >= moment.upto, "sync first: the log must not lose what is stored"
        anew = anew or index.erased
        erasures = index.erasures
        if anew:
            index.drop_gone()
        fold = None
        if index.vectors is not None and (vectors or anew):
            assert self._folding is None, "vectors are folded already"
            fold = index.vectors.begin_fold()
        commit = None
        if anew:
            index.keep_words()
        elif index.text.watermark < index.words_upto:
            commit = index.text.begin_commit(index.words_upto)
        words = Words(index.words_in(moment.count), index.words_upto)
        self._publication = Publication(
            fs=self._fs,
            directory=self.directory,
            role=self._role,
            log_id=self._log_id,
            state=state,
            bodies=self._log_bodies,
            before=self.manifest,
            moment=moment,
            words=words,
            text_name=self._text_name,
            text=index.text,
            anew=anew,
            superseded=lambda: index.erasures != erasures,
            erasures=erasures,
            snapshot=self._table_at(moment, anew),
            fold=fold,
            commit=commit,
            vectors_part=self._same_vectors(fold, words, moment, anew),
            known={"model": self._model or "", "dimension": self._dimension},
        )
        return self._publication

    def _table_at(self, moment: Moment, anew: bool) -> Callable[[], Snapshot] | None:
        """None: the one that is stored will do, opening replays the rest."""
        parts = self.manifest.of("table")
        if not anew and parts and moment.upto - parts[-1].stop < TABLE_LAG_BYTES:
            return None
        rows = self.index.view().rows  # of this very moment
        return Snapshot.begin(moment.upto, rows, self._state.table, self._state.relations)

    def _same_vectors(
        self, fold: Fold | None, words: Words, moment: Moment, anew: bool
    ) -> Part | None:
        """The part that is kept: it holds just what would be stored again, or will do."""
        part = self._saved_part
        if fold is None:
            there = self.index.vectors is not None
            return part if there or (self._expects_vectors and not anew) else None
        view = fold.snapshot
        if part is None or view.base is not self._saved_base:
            return None
        if len(view.removed) or view.overlay.alive.any():
            return None
        known = {"rows": moment.count, "born": born_digest(moment.born)}
        return msgspec.structs.replace(part, stop=words.upto, details={**part.details, **known})

    def finish(self, publication: Publication) -> Manifest | None:
        """Change over to what ``publication`` has stored. None: it was superseded, begin another.
        In the indexer's thread; nobody waits for it. OutOfSpace, Poisoned: it is stored, but for
        the words, which are in memory and go with the next.
        """
        assert publication is self._publication, "not the one that is under way"
        if publication.manifest is None:
            self.abandon(publication)
            return None
        index, fold, commit = self.index, publication.fold, publication.commit
        if fold is not None and index.vectors is not None:
            if publication.base is None:
                index.vectors.abandon_fold(fold)
            else:
                index.vectors.finish_fold(fold, publication.base)
                self._saved_base = publication.base
                self._unsaved = 0
        if fold is not None or index.vectors is None:
            kept = publication.manifest.of("vectors")
            self._saved_part = kept[-1] if kept else None
        if publication.made_text is not None:
            old = index.text
            index.change_text(publication.made_text, publication.pause)
            publication.made_text = None
            self._text_name = publication.text_name
            old.close()
        elif commit is not None and publication.commit_error is None:
            index.text.finish_commit(commit)
        elif commit is not None:
            index.text.abandon_commit(commit)
        self.manifest, self._publication = publication.manifest, None
        self._read_bodies_from(self.manifest)
        collect(self._fs, self.directory, self.manifest, keep=self._in_use())
        # Of when it began: the owner may erase at this moment. And the old files are gone only now.
        index.erasures_cleared = publication.erasures
        if publication.commit_error is not None:
            raise publication.commit_error
        return self.manifest

    def abandon(self, publication: Publication) -> None:
        """Forget one that failed or is of no use; everything stays as it is."""
        assert publication is self._publication, "not the one that is under way"
        if publication.fold is not None and self.index.vectors is not None:
            self.index.vectors.abandon_fold(publication.fold)
        if publication.commit is not None:
            self.index.text.abandon_commit(publication.commit)
        self.index.change_text(None)
        publication.close()
        self._publication = None
        self.manifest = publication.manifest or self.manifest
        with suppress(OSError):  # what it has written is in the way of those who need room
            collect(self._fs, self.directory, self.manifest, keep=self._in_use())

    def _in_use(self) -> list[str]:
        """What no manifest names yet."""
        names = [self._text_name]
        if self._saved_part is not None:
            names.append(self._saved_part.name)
        if self._folding is not None and self._folding.name is not None:
            names += [self._folding.name, self._folding.name + TEMPORARY_SUFFIX]
        return names

    def publish(self, *, anew: bool = False, vectors: bool = True) -> Manifest:
        """``begin``, ``run``, ``finish`` in one thread, with everything noticed and brought."""
        assert not self.index.bring(), "bring what was noticed first"
        publication = self.begin(anew=anew, vectors=vectors)
        try:
            publication.pause = lambda: None
            published = publication.run()
        except BaseException:
            self.abandon(publication)
            raise
        assert published, "nothing is erased while nobody writes"
        manifest = self.finish(publication)
        assert manifest is not None
        return manifest

    def bytes_anew(self, *, vectors: bool) -> int:
        """About how much of what is stored a generation that is begun now would write once more."""
        index, manifest = self.index, self.manifest
        roles: set[PartRole] = set()
        if len(manifest.of("rows")) >= GENERATIONS_MAX:
            roles.add("rows")
        if any(index.upto - part.stop >= TABLE_LAG_BYTES for part in manifest.of("table")):
            roles.add("table")
        if vectors and index.vectors is not None:
            roles.add("vectors")
        parts = [part for part in manifest.parts if index.erased or part.role in roles]
        return sum(part.seal.size for part in parts if part.seal is not None)

    # ---- vectors, on their own turn --------------------------------------------------------------

    @property
    def unsaved_vectors(self) -> int:
        """About how many would have to be embedded again after a crash."""
        if self.index.vectors is None:
            return 0
        return self._unsaved + int(np.count_nonzero(self.index.vectors.snapshot().overlay.alive))

    @property
    def vectors_due(self) -> bool:
        """So many that they are stored now."""
        vectors = self.index.vectors
        return vectors is not None and store_due(self.unsaved_vectors, len(vectors))

    def begin_folding(self, *, store: bool) -> FoldingTurn:
        """Fix what the next base holds. ``store``: in a file too, for the generations that are
        begun after ``finish_folding``. Not while a publication with vectors of its own is written.
        """
        index, state, vectors = self.index, self._state, self.index.vectors
        assert vectors is not None and self._folding is None, "one turn at a time"
        number = self.manifest.number + 1
        self._folding = FoldingTurn(
            fs=self._fs,
            directory=self.directory,
            name=free_name(self._fs, self.directory, "vectors", number) if store else None,
            fold=vectors.begin_fold(),
            upto=index.words_upto,
            born=lambda: state.table.column("born"),
            known={"model": self._model or "", "dimension": self._dimension},
        )
        return self._folding

    def finish_folding(self, turn: FoldingTurn) -> None:
        """Change over to what ``turn`` has made. Moments."""
        assert turn is self._folding and turn.base is not None, "run it first"
        vectors = self.index.vectors
        assert vectors is not None
        self._unsaved += turn.added
        vectors.finish_fold(turn.fold, turn.base)
        self._saved_base = None
        if turn.part is not None:
            self._saved_base, self._saved_part, self._unsaved = turn.base, turn.part, 0
        self._folding = None

    def abandon_folding(self, turn: FoldingTurn) -> None:
        """Forget one that failed; everything stays as it is."""
        assert turn is self._folding, "not the one that is under way"
        if self.index.vectors is not None:
            self.index.vectors.abandon_fold(turn.fold)
        self._folding = None
