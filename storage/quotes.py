"""Which of many texts stand in another one, as whole words: found without trying each of them.

A text is looked up by its first characters, and among those that begin alike as a whole: what it
costs depends on the text that is searched, and hardly on how many are looked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

_LEAD: Final = 8  # characters by which a text is looked up
_LONG: Final = 24  # so much does not stand in another word by accident


class Quotes:
    """Texts by the number of who owns them; several may own the same one."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._texts: dict[int, str] = {}
        self._owners: dict[str, int] = {}  # how many
        # Lead -> the only text that begins so, or length -> texts: most are alone, and a container
        # for each would be walked by every collection.
        self._by_lead: dict[str, str | dict[int, set[str]]] = {}
        self._leads: dict[int, int] = {}  # length of a lead -> how many leads have it
        for number, text in enumerate(texts):
            self.add(number, text)

    def __len__(self) -> int:
        return len(self._texts)

    def __contains__(self, text: object) -> bool:
        return text in self._owners

    def add(self, owner: int, text: str) -> None:
        """Blanks around it do not count; nothing but blanks is never found."""
        text = text.strip()
        if self._texts.get(owner) == text:
            return
        self.discard(owner)
        if not text:
            return
        self._texts[owner] = text
        self._owners[text] = self._owners.get(text, 0) + 1
        if self._owners[text] > 1:
            return
        lead = text[:_LEAD]
        beside = self._by_lead.get(lead)
        if beside is None:
            self._by_lead[lead] = text
            self._leads[len(lead)] = self._leads.get(len(lead), 0) + 1
            return
        if isinstance(beside, str):
            beside = self._by_lead[lead] = {len(beside): {beside}}
        beside.setdefault(len(text), set()).add(text)

    def discard(self, owner: int) -> bool:
        text = self._texts.pop(owner, None)
        if text is None:
            return False
        self._owners[text] -= 1
        if not self._owners[text]:
            del self._owners[text]
            self._drop(text)
        return True

    def _drop(self, text: str) -> None:
        lead = text[:_LEAD]
        beside = self._by_lead[lead]
        if not isinstance(beside, str):
            beside[len(text)].remove(text)
            if not beside[len(text)]:
                del beside[len(text)]
        if isinstance(beside, str) or not beside:
            del self._by_lead[lead]
            self._leads[len(lead)] -= 1
            if not self._leads[len(lead)]:
                del self._leads[len(lead)]

    def text_of(self, owner: int) -> str | None:
        return self._texts.get(owner)

    def places_in(self, text: str) -> Iterator[tuple[int, int]]:
        """[start, stop) of each one that stands in ``text``, none inside of another."""
        if not self._texts:
            return
        lengths = sorted(self._leads, reverse=True)
        if not any(self._begins_in(text, length) for length in lengths):
            return
        at = 0
        while at < len(text):
            stop = self._found_at(text, at, lengths)
            if stop:
                yield at, stop
                at = stop
            else:
                at += 1

    def _begins_in(self, text: str, length: int) -> bool:
        """Whether any of them may: most texts that are searched hold none."""
        leads = {text[at : at + length] for at in range(len(text) - length + 1)}
        return not self._by_lead.keys().isdisjoint(leads)

    def stand_in(self, text: str) -> bool:
        return next(self.places_in(text), None) is not None

    def cut_from(self, text: str) -> str:
        """``text`` with a blank in the place of each."""
        parts, end = [], 0
        for start, stop in self.places_in(text):
            parts.append(text[end:start])
            end = stop
        return " ".join([*parts, text[end:]]) if end else text

    def _found_at(self, text: str, at: int, lengths: list[int]) -> int:
        for length in lengths:
            beside = self._by_lead.get(text[at : at + length])
            if beside is None:
                continue
            if isinstance(beside, str):
                beside = {len(beside): {beside}}
            # The longest one that fits is meant.
            fitting = (at + each for each in beside if at + each <= len(text))
            for stop in sorted(fitting, reverse=True):
                if text[at:stop] in beside[stop - at] and is_whole(text, at, stop):
                    return stop
        return 0


def stands_in(wanted: str, text: str) -> bool:
    """Whether this one text does."""
    wanted = wanted.strip()
    at = text.find(wanted) if wanted else -1
    while at >= 0:
        if is_whole(text, at, at + len(wanted)):
            return True
        at = text.find(wanted, at + 1)
    return False


def is_whole(text: str, start: int, stop: int) -> bool:
    """Whether [start, stop) is not a part of longer words: "Yes" in "Yesterday" is. In scripts
    that put no blanks between words every place is the end of one.
    """
    if stop - start >= _LONG:
        return True
    return not (_joined(text, start) or _joined(text, stop))


def _joined(text: str, at: int) -> bool:
    if not 0 < at < len(text):
        return False
    before, after = text[at - 1], text[at]
    return _is_word(before) and _is_word(after)


def _is_word(character: str) -> bool:
    if not (character.isalnum() or character == "_"):
        return False
    code = ord(character)
    # Thai to Tibetan, Chinese and Japanese, the ideographs of the planes beyond.
    return not (0x0E00 <= code < 0x1000 or 0x2E80 <= code < 0xAC00 or 0xF900 <= code < 0xFB00
                or 0x20000 <= code < 0x40000)  # fmt: skip
