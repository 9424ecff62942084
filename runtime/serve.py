"""``neverforget serve``: a process whose only purpose is to host a store."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from typing import Any

from neverforget.runtime.config import named
from neverforget.runtime.endpoint import Endpoint
from neverforget.runtime.host import serve
from neverforget.storage.errors import InvalidArgument, NeverforgetError, StoreLocked, Unavailable


def main(arguments: Sequence[str]) -> int:
    """Run it. The exit code: 0 ended when told to or when nobody needed it, 1 failed, 2 usage, 4
    locked or unavailable."""
    parser = argparse.ArgumentParser(prog="neverforget serve")
    parser.add_argument("path")
    parser.add_argument("--linger", type=float, metavar="SECONDS", default=None)
    parser.add_argument("--set", action="append", metavar="NAME=VALUE", default=[])
    parsed = parser.parse_args(arguments)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    try:
        config = named(None, settings(parsed.set))
        return serve(parsed.path, linger=parsed.linger, config=config, ready=_announce)
    except NeverforgetError as error:
        print(f"neverforget serve: {error}", file=sys.stderr, flush=True)
        if isinstance(error, InvalidArgument):
            return 2
        return 4 if isinstance(error, StoreLocked | Unavailable) else 1


def settings(pairs: Sequence[str]) -> dict[str, Any]:
    """NAME=VALUE pairs, the values as JSON, or plain words where they are none."""
    found: dict[str, Any] = {}
    for pair in pairs:
        name, separator, text = pair.partition("=")
        if not separator:
            raise InvalidArgument(f"--set takes NAME=VALUE, not {pair!r}")
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


def _announce(endpoint: Endpoint) -> None:
    print(
        f"serving {endpoint.store_id}: {len(endpoint.sockets)} partitions, "
        f"process {endpoint.process.pid}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
