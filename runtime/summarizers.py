"""The summarizers of a store, by name or as an object: the face of the ``summarizer_*`` modules.

``"none"`` (the default) makes no summaries, ``"extractive"`` takes the text's own sentences,
``"openai:MODEL@https://host/v1"`` asks any endpoint of that form, and an object with the protocol
brings a model of its own. Importing this module loads none of them; ``made`` does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from neverforget.runtime.object_checks import OBJECT, NamedKind
from neverforget.runtime.openai_names import SUMMARIZER_KEY

if TYPE_CHECKING:
    from neverforget.actors.summarizer_contract import Summarizer

NONE, EXTRACTIVE = "none", "extractive"
_KIND = NamedKind(
    "a summarizer",
    "summarizer",
    (NONE, EXTRACTIVE),
    SUMMARIZER_KEY,
    ("summarizer_id", "summarize"),
    "summarizer_id and summarize(text)",
)
check, stored_name = _KIND.check, _KIND.stored_name


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
        raise _KIND.not_given(summarizer)
    from neverforget.runtime.summarizer_openai import OpenAISummarizer

    return OpenAISummarizer(summarizer)
