"""Storing generations: what ``Generations`` does after it is open. See ``longterm_publishing``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from neverforget.storage.directory_lock import Role
from neverforget.storage.filesystem import FileSystem
from neverforget.storage.longterm_bodies import BodySource
from neverforget.storage.longterm_index import LongTermIndex
from neverforget.storage.longterm_moment import Moment
from neverforget.storage.longterm_publishing import Publication, Words, born_digest
from neverforget.storage.longterm_snapshot import Snapshot
from neverforget.storage.longterm_state import LongTermState
from neverforget.storage.manifest import Manifest, Part, collect
from neverforget.storage.vector_index import Fold, VectorBase

TABLE_LAG_BYTES = 8 * 1024 * 1024  # of the log behind the stored table, replayed on opening


class Storing:
    """One publication at a time; all calls are the indexer's."""

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
    _publication: Publication | None

    @abstractmethod
    def _read_bodies_from(self, manifest: Manifest) -> None: ...

    def begin(self, *, anew: bool = False) -> Publication:
        """Fix what goes into the next generation. Moments; in the indexer's thread, while the owner
        changes nothing: what changed a memory is written, synced and noticed. One at a time.

        ``anew``: copy nothing from older files. Done by itself after an erasure, whose words must
        be in no file.
        """
        state, index = self._state, self.index
        assert self._publication is None, "one is being written"
        moment = self._moment = Moment.of(state, index.upto)
        assert state.log.durable >= moment.upto, "sync first: the log must not lose what is stored"
        anew = anew or index.erased
        erasures = index.erasures
        if anew:
            index.drop_gone()
        fold = None if index.vectors is None else index.vectors.begin_fold()
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
        """The part that holds just what would be stored again."""
        parts = self.manifest.of("vectors")
        if not parts or (fold is None and (anew or not self._expects_vectors)):
            return None
        if fold is None:
            return parts[-1]
        view = fold.snapshot
        if view.base is not self._saved_base or len(view.removed) or view.overlay.alive.any():
            return None
        known = {"rows": moment.count, "born": born_digest(moment.born)}
        details = {**parts[-1].details, **known}
        return msgspec.structs.replace(parts[-1], stop=words.upto, details=details)

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
        if publication.made_text is not None:
            old = index.text
            index.change_text(publication.made_text)
            publication.made_text = None
            self._text_name = publication.text_name
            old.close()
        elif commit is not None and publication.commit_error is None:
            index.text.finish_commit(commit)
        elif commit is not None:
            index.text.abandon_commit(commit)
        self.manifest, self._publication = publication.manifest, None
        self._read_bodies_from(self.manifest)
        collect(self._fs, self.directory, self.manifest)
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
            collect(self._fs, self.directory, self.manifest, keep=[self._text_name])

    def publish(self, *, anew: bool = False) -> Manifest:
        """``begin``, ``run``, ``finish`` in one thread, with everything noticed and brought."""
        assert not self.index.bring(), "bring what was noticed first"
        publication = self.begin(anew=anew)
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
