"""How an endpoint in OpenAI's form is named in a setting: "openai:MODEL@https://host/v1"."""

from __future__ import annotations

import urllib.parse
from dataclasses import dataclass

from neverforget.storage.errors import InvalidArgument

OPENAI = "openai:"
FORM = "openai:MODEL@https://host/v1"
EMBEDDER_KEY, SUMMARIZER_KEY = "NEVERFORGET_EMBEDDER_KEY", "NEVERFORGET_SUMMARIZER_KEY"
EXTRACTOR_KEY = "NEVERFORGET_EXTRACTOR_KEY"


@dataclass(frozen=True)
class OpenAIName:
    """``base_url`` has no user, query, fragment or final slash."""

    model: str
    base_url: str
    host: str
    tls: bool

    def __str__(self) -> str:
        return f"{OPENAI}{self.model}@{self.base_url}"


def parse_openai(
    name: str, what: str = "an embedder", key_variable: str = EMBEDDER_KEY
) -> OpenAIName:
    """The parts of "openai:MODEL@https://host/v1"; a model's name may hold @, : and / itself.
    ``what`` and ``key_variable`` stand in what InvalidArgument says.
    """
    rest = name.removeprefix(OPENAI)
    at = max(rest.rfind("@https://"), rest.rfind("@http://"))
    if not name.startswith(OPENAI) or at < 1:
        raise InvalidArgument(f"{what} at an endpoint is written {FORM}")
    model, url = rest[:at], rest[at + 1 :].rstrip("/")
    parts = _plain(url)
    # The name is kept in the store and shown: a password in it would be as well, so it is not even
    # repeated here.
    if parts is None or parts.hostname is None:
        raise InvalidArgument(
            f"the address in {FORM} is a plain one: host, perhaps port and path; no user, "
            f"password, query or fragment (the key comes from {key_variable})"
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
