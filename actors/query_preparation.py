"""What of a memory and of a query goes into which search. Pure, no I/O.

* **Meaning**: the names of known speakers are taken out of what is embedded, of the text and of the
  query alike. "Wow, Caroline!" is otherwise nearest to every question about Caroline.
* **Words**: the whole text, with its date in words in the same field ("Monday 8 May 2023", see
  ``text_analysis.date_words``); neighbouring text is a field of its own and is never embedded. Stop
  words are dropped from queries by the text index.
* **Speaker**: a memory spoken by the one person whom the query names gets a small boost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

# No names, though they stand where a speaker's name does: they say nothing about who it is.
_ROLES = "user assistant system tool function human ai bot agent model narrator speaker"
ROLES: Final = frozenset(_ROLES.split())
# Names that are words as well; they count only as they are spelled.
_WORDS = """
    will may mark art grace hope joy faith rose lily daisy ivy iris violet ruby pearl crystal amber
    dawn summer autumn april june august bill bob frank grant guy jack jean miles nick pat ray rich
    rob rod sandy sky star sue ted victor wade a i an the
    """
_ALSO_WORDS: Final = frozenset(_WORDS.split())
_WORD: Final = re.compile(r"[^\W_]+(?:[-'\u2019][^\W_]+)*")
_POSSESSIVE: Final = re.compile(r"['\u2019]s$", re.IGNORECASE)
_UNSPACED: Final = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7ff]")
_SPACES: Final = re.compile(r"\s+")


class PreparedQuery(NamedTuple):
    """``words`` for the text index, ``meaning`` to be embedded, ``speaker`` to be boosted."""

    words: str
    meaning: str
    speaker: str | None


class Speakers:
    """The known speakers of some place. Immutable; a look at a text costs the same however many
    they are.
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = frozenset(
            name for name in names if name.strip() and name.strip().lower() not in ROLES
        )
        self._of_word: dict[str, set[str]] = {}  # a name's word, case-folded -> whose it is
        self._spelled: set[str] = set()
        unspaced = []
        for name in sorted(self.names):
            if _UNSPACED.search(name):
                unspaced.append(name.strip())
                continue
            for word in _WORD.findall(name):
                self._of_word.setdefault(word.casefold(), set()).add(name)
                self._spelled.add(word)
        longest_first = sorted(unspaced, key=len, reverse=True)
        self._unspaced = re.compile("|".join(map(re.escape, longest_first))) if unspaced else None

    def masked(self, text: str) -> str:
        """``text`` without the names; a text of nothing but names stays as it is."""
        if not self.names:
            return text
        left = _WORD.sub(lambda found: "" if self._whose(found[0]) else found[0], text)
        if self._unspaced is not None:
            left = self._unspaced.sub("", left)
        if left == text:
            return text
        left = _SPACES.sub(" ", left).strip()
        return left if _WORD.search(left) else text

    def named(self, text: str) -> set[str]:
        """Whom ``text`` names. Of a word that several bear, all of them, unless other words of the
        text tell which.
        """
        words = [whose for word in _WORD.findall(text) if (whose := self._whose(word))]
        certain = {name for whose in words if len(whose) == 1 for name in whose}
        found = set(certain)
        for whose in words:
            if not whose & certain:
                found |= whose
        if self._unspaced is not None:
            found.update(n for n in self.names if n.strip() in self._unspaced.findall(text))
        return found

    def _whose(self, word: str) -> set[str]:
        plain = _POSSESSIVE.sub("", word)
        folded = plain.casefold()
        whose = self._of_word.get(folded)
        if whose is None or (folded in _ALSO_WORDS and plain not in self._spelled):
            return set()
        return whose


def prepare_text(text: str, speakers: Speakers) -> str:
    """What of a memory is embedded."""
    return speakers.masked(text)


def prepare_query(query: str, speakers: Speakers) -> PreparedQuery:
    """A query for every leg. ``speakers``: of the namespace that is searched."""
    named = speakers.named(query)
    return PreparedQuery(query, speakers.masked(query), named.pop() if len(named) == 1 else None)
