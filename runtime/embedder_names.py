"""The names that ``embedder=`` takes, read and checked. Loads no model and no numpy."""

from __future__ import annotations

from neverforget.runtime.openai_names import FORM, OPENAI, parse_openai
from neverforget.storage.errors import InvalidArgument

MINILM, NONE, HASH = "minilm", "none", "hash"


def check_name(name: str) -> None:
    """Raises InvalidArgument for what names no embedder of a store."""
    if name in (MINILM, NONE):
        return
    if name == HASH:
        raise InvalidArgument(
            'embedder="hash" knows no meaning and is for tests: neverforget.testing.store has it; '
            f'here say "{MINILM}", "{NONE}", "{FORM}", or pass an object'
        )
    if name.startswith(OPENAI):
        parse_openai(name)
        return
    shown = repr(name) if name.isidentifier() else "that"  # it may hold a password
    raise InvalidArgument(
        f'no embedder is called {shown}; there are "{MINILM}", "{NONE}", "{FORM}", or an object '
        "with model_id, dimension and embed(texts)"
    )
