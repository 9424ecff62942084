"""The names that ``embedder=`` takes, read and checked. Loads no model and no numpy."""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass

from neverforget.storage.errors import InvalidArgument

MINILM, NONE, HASH, OPENAI = "minilm", "none", "hash", "openai:"
FORM = "openai:MODEL@https://host/v1"


@dataclass(frozen=True)
class OpenAIName:
    """``base_url`` has no user, query, fragment or final slash."""

    model: str
    base_url: str
    host: str
    tls: bool

    def __str__(self) -> str:
        return f"{OPENAI}{self.model}@{self.base_url}"


def parse_openai(name: str) -> OpenAIName:
    """The parts of "openai:MODEL@https://host/v1"; a model's name may hold @, : and / itself."""
    rest = name.removeprefix(OPENAI)
    at = max(rest.rfind("@https://"), rest.rfind("@http://"))
    if not name.startswith(OPENAI) or at < 1:
        raise InvalidArgument(f"an embedder at an endpoint is written {FORM}")
    model, url = rest[:at], rest[at + 1 :].rstrip("/")
    parts = _plain(url)
    # The name is kept in the store and shown: a password in it would be as well, so it is not even
    # repeated here.
    if parts is None or parts.hostname is None:
        raise InvalidArgument(
            f"the address in {FORM} is a plain one: host, perhaps port and path; no user, "
            "password, query or fragment (the key comes from NEVERFORGET_EMBEDDER_KEY)"
        )
    if any(c.isspace() or not c.isprintable() for c in rest):
        raise InvalidArgument(f"spaces and control characters have no place in {FORM}")
    return OpenAIName(model, url, parts.hostname, parts.scheme == "https")


def _plain(url: str) -> urllib.parse.SplitResult | None:
    """The parts of ``url``, if it is a host with at most a port and a path."""
    try:
        parts = urllib.parse.urlsplit(url)
        _ = parts.port  # raises as well
    except ValueError:
        return None
    return None if "@" in parts.netloc or "?" in url or "#" in url else parts


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
