"""The extractors of a store, by name or as an object: the face of the ``extractor_*`` modules.

``"rules"`` (the default) takes what was said in its own words, offline, ``"none"`` makes no facts,
``"openai:MODEL@https://host/v1"`` asks any endpoint of that form, and an object with the protocol
brings a way of its own. Importing this module loads none of them; ``made`` does.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import TYPE_CHECKING

from neverforget.runtime.object_checks import check_object
from neverforget.runtime.openai_names import EXTRACTOR_KEY, FORM, OPENAI, parse_openai
from neverforget.storage.errors import InvalidArgument, NotFound

if TYPE_CHECKING:
    from neverforget.actors.extractor_contract import Extractor

NONE, RULES, OBJECT = "none", "rules", "object:"
FORM_OF_OBJECT = "extractor_id and extract(window)"


def check(extractor: object) -> None:
    """Raises InvalidArgument for what is no extractor. No I/O; loads nothing."""
    if isinstance(extractor, str):
        _check_name(extractor)
        return
    check_object(extractor, "an extractor", ("extractor_id", "extract"), FORM_OF_OBJECT)


def _check_name(name: str) -> None:
    if name in (NONE, RULES):
        return
    if name.startswith(OPENAI):
        parse_openai(name, "an extractor", EXTRACTOR_KEY)
        return
    if name.startswith(OBJECT):  # what a store's settings keep of an object
        return
    shown = repr(name) if name.isidentifier() else "that"  # it may hold a password
    raise InvalidArgument(
        f'no extractor is called {shown}; there are "{RULES}", "{NONE}", "{FORM}", or an object '
        "with extractor_id and extract(window)"
    )


def stored_name(extractor: str | Extractor) -> str:
    """What a store's settings keep of it: the name, or "object:EXTRACTOR_ID"."""
    check(extractor)
    return extractor if isinstance(extractor, str) else f"{OBJECT}{extractor.extractor_id}"


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
        raise NotFound(
            f"this store has the extractor {extractor!r}, and its host was not given that object; "
            "pass extractor=... where the store is hosted"
        )
    from neverforget.runtime.extractor_openai import OpenAIExtractor

    return OpenAIExtractor(extractor, timezone=timezone)
