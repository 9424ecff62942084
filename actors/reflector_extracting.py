"""Somebody else's extractor, asked with a bound of time, and what comes of it.

One that does not answer in time is left behind in its thread and another one is made: a thread
cannot be ended from outside. How many still hang is known.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from neverforget.actors.bounded_calls import BoundedCalls
from neverforget.actors.extractor_contract import (
    EXTRACTOR_ID_CHARACTERS_MAX,
    Extractor,
    Fact,
    NotExtracted,
    Window,
    checked_facts,
)
from neverforget.storage.errors import NeverforgetError, Unavailable

log = logging.getLogger(__name__)

MAKE_S: Final = 120.0  # to make an extractor, which may load a model
CLOSE_S: Final = 1.0
Make = Callable[[], Extractor | None]


class Extracting:
    """One extractor at a time, for one thread. ``make``: None is no extractor at all."""

    def __init__(self, make: Make, deadline_s: float) -> None:
        self._make = make
        self._deadline_s = deadline_s
        self._extractor: Extractor | None = None
        self._extractor_id: str | None = None
        self._calls = self._new_calls()
        self._left: list[BoundedCalls] = []

    @property
    def stuck(self) -> int:
        """Calls that were given up and have not come back."""
        self._left = [calls for calls in self._left if calls.hanging]
        return len(self._left)

    def extractor_id(self) -> str | None:
        """Of the extractor, which is made where there is none; None: it is to be none. Raises
        Unavailable while it cannot be made.
        """
        if self._extractor is None:
            making = BoundedCalls("making the extractor", MAKE_S, _REMEDY, one_at_a_time=False)
            try:
                made, name = making(self._made)
            except NeverforgetError as error:
                if making.hanging:
                    self._left.append(making)
                raise Unavailable(error.message, outcome="not_applied") from error
            except BaseException as error:
                told = (
                    f"the extractor cannot be made ({type(error).__name__}); look at its settings"
                )
                raise Unavailable(told, outcome="not_applied") from error
            self._extractor, self._extractor_id = made, name
        return self._extractor_id

    def __call__(self, window: Window) -> list[Fact]:
        """Facts, each of which can be remembered. Raises NotExtracted; Unavailable where what it
        asks is away. The messages hold nothing of the window.
        """
        extractor, calls = self._extractor, self._calls
        assert extractor is not None, "ask for its id first"
        try:
            facts: list[Fact] = calls(lambda: checked_facts(window, extractor.extract(window)))
        except NotExtracted:
            raise
        except Unavailable:
            if not calls.hanging:
                raise
            self._left.append(calls)
            self._extractor, self._calls = None, self._new_calls()
            raise NotExtracted(f"no answer within {self._deadline_s:g} s") from None
        except ConnectionError as error:
            told = f"the extractor does not reach what it asks ({type(error).__name__})"
            raise Unavailable(told, outcome="not_applied") from None
        except BaseException as error:  # also what would end a thread: it is somebody else's code
            raise NotExtracted(f"the extractor raised {type(error).__name__}") from None
        return facts

    def close(self) -> None:
        """Close the extractor, where it can be closed; waits for it for CLOSE_S at most."""
        extractor, self._extractor = self._extractor, None
        close = getattr(extractor, "close", None)
        if close is None:
            return
        try:
            BoundedCalls("closing the extractor", CLOSE_S, _REMEDY, one_at_a_time=False)(close)
        except BaseException as error:  # as above; nothing depends on it any more
            log.debug("an extractor was not closed: %s", type(error).__name__)

    def _made(self) -> tuple[Extractor | None, str | None]:
        made = self._make()
        if made is None:
            return None, None
        name = made.extractor_id
        if not isinstance(name, str) or not 0 < len(name) <= EXTRACTOR_ID_CHARACTERS_MAX:
            raise TypeError("extractor_id is no short text")
        return made, name

    def _new_calls(self) -> BoundedCalls:
        return BoundedCalls("the extractor", self._deadline_s, _REMEDY, one_at_a_time=False)


_REMEDY: Final = "another one is made"
