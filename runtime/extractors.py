"""The extractors of a store, by name or as an object: the face of the ``extractor_*`` modules.

``"rules"`` (the default) takes what was said in its own words, offline, ``"none"`` makes no facts,
``"openai:MODEL@https://host/v1"`` asks any endpoint of that form, and an object with the protocol
brings a way of its own. Importing this module loads none of them; ``made`` does.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING

from neverforget.runtime.object_checks import OBJECT, NamedKind
from neverforget.runtime.openai_names import EXTRACTOR_KEY

if TYPE_CHECKING:
    from neverforget.actors.extractor_contract import Extractor

NONE, RULES = "none", "rules"
_KIND = NamedKind(
    "an extractor",
    "extractor",
    (RULES, NONE),
    EXTRACTOR_KEY,
    ("extractor_id", "extract"),
    "extractor_id and extract(window)",
)
check, stored_name = _KIND.check, _KIND.stored_name


def made(extractor: str | Extractor, *, timezone: str | tzinfo = "UTC") -> Extractor | None:
    """The extractor that is meant; None for "none". Asks no endpoint yet. ``timezone``: where
    "yesterday" is reckoned. Raises InvalidArgument for what is no extractor, and NotFound for the
    name of an object: that has to be passed itself.
    """
    check(extractor)
    if not isinstance(extractor, str):
        return extractor
    if extractor == NONE:
        return None
    if extractor == RULES:
        from neverforget.runtime.extractor_rules import RulesExtractor

        return RulesExtractor(timezone)
    if extractor.startswith(OBJECT):
        raise _KIND.not_given(extractor)
    from neverforget.runtime.extractor_openai import OpenAIExtractor

    return OpenAIExtractor(extractor, timezone=timezone)
