"""The summarizers of a store, by name or as an object: the face of the ``summarizer_*`` modules.

``"none"`` (the default) makes no summaries, ``"extractive"`` takes the text's own sentences,
``"openai:MODEL@https://host/v1"`` asks any endpoint of that form, and an object with the protocol
brings a model of its own. Importing this module loads none of them; ``made`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neverforget.runtime.object_checks import check_object
from neverforget.runtime.openai_names import FORM, OPENAI, SUMMARIZER_KEY, parse_openai
from neverforget.storage.errors import InvalidArgument, NotFound

if TYPE_CHECKING:
    from neverforget.actors.summarizer_contract import Summarizer

NONE, EXTRACTIVE, OBJECT = "none", "extractive", "object:"
FORM_OF_OBJECT = "summarizer_id and summarize(text)"


def check(summarizer: object) -> None:
    """Raises InvalidArgument for what is no summarizer. No I/O; loads nothing."""
    if isinstance(summarizer, str):
        _check_name(summarizer)
        return
    check_object(summarizer, "a summarizer", ("summarizer_id", "summarize"), FORM_OF_OBJECT)


def _check_name(name: str) -> None:
    if name in (NONE, EXTRACTIVE):
        return
    if name.startswith(OPENAI):
        parse_openai(name, "a summarizer", SUMMARIZER_KEY)
        return
    if name.startswith(OBJECT):  # what a store's settings keep of an object
        return
    shown = repr(name) if name.isidentifier() else "that"  # it may hold a password
    raise InvalidArgument(
        f'no summarizer is called {shown}; there are "{NONE}", "{EXTRACTIVE}", "{FORM}", or an '
        "object with summarizer_id and summarize(text)"
    )


def stored_name(summarizer: str | Summarizer) -> str:
    """What a store's settings keep of it: the name, or "object:SUMMARIZER_ID"."""
    check(summarizer)
    return summarizer if isinstance(summarizer, str) else f"{OBJECT}{summarizer.summarizer_id}"


def made(summarizer: str | Summarizer) -> Summarizer | None:
    """The summarizer that is meant; None for "none". Asks no endpoint yet. Raises InvalidArgument
    for what is no summarizer, and NotFound for the name of an object: that has to be passed itself.
    """
    check(summarizer)
    if not isinstance(summarizer, str):
        return summarizer
    if summarizer == NONE:
        return None
    if summarizer == EXTRACTIVE:
        from neverforget.runtime.summarizer_extractive import ExtractiveSummarizer

        return ExtractiveSummarizer()
    if summarizer.startswith(OBJECT):
        raise NotFound(
            f"this store has the summarizer {summarizer!r}, and its host was not given that "
            "object; pass summarizer=... where the store is hosted"
        )
    from neverforget.runtime.summarizer_openai import OpenAISummarizer

    return OpenAISummarizer(summarizer)
