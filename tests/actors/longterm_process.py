"""A process that reindexes a long-term store and says how far it is, until somebody kills it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neverforget.actors import longterm_messages as m
from tests.actors.longterm_owners import own
from tests.fakes.embedders import Plain

FORMER, NEXT = 8, 16


class Telling(Plain):
    """Says of every batch that it is asked for it."""

    batch_texts_max = 8

    def embed(self, texts: Sequence[str]) -> Any:
        say("batch")
        return super().embed(texts)


def say(what: str) -> None:
    print(what, flush=True)


def embedders() -> dict[str, Any]:
    return {"test": Plain(FORMER), "next": Telling(NEXT)}


def main() -> None:
    owned = own(Path(sys.argv[1]), embedders())
    owned.ask(m.Reindex(1, "next", True), m.ReindexReply)

    def over() -> bool:
        return owned.ask(m.Reindex(1, "next", False), m.ReindexReply).state == "done"

    owned.until(over)
    say("done")
    sys.stdin.read()  # until it is killed


if __name__ == "__main__":
    main()
