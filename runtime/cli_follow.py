"""``tail -f``: new turns for ever, whichever process hosts the store."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from neverforget.runtime.cli_render import errors
from neverforget.runtime.cli_store import is_hosted
from neverforget.runtime.store_path import is_refusal
from neverforget.storage.errors import NeverforgetError, StoreLocked, Unavailable

if TYPE_CHECKING:
    from neverforget.runtime.values import Turn

HOST_POLL_S = 0.25


def follow_session(
    path: Path, where: tuple[str, ...], session: str, *, after: int
) -> Iterator[Turn]:
    """New turns for ever, whichever process hosts the store. Never inline: that would lock out
    everybody who could append."""
    import neverforget as nf

    while True:
        try:
            if is_hosted(path):
                with nf.open(path, host="never") as store:
                    chat = store.session(session, namespace=where)
                    for turn in chat.follow(after=after):
                        after = turn.seq
                        yield turn
        except (Unavailable, StoreLocked) as error:
            # The host went away, or somebody has the store for himself: look again.
            if is_refusal(error):
                raise
        time.sleep(HOST_POLL_S)


@contextmanager
def host_watched(path: Path, news: Iterator[Turn]) -> Iterator[Iterator[Turn]]:
    """``news``, and word each time that nobody hosts the store any more. A thread of its own looks,
    since whoever waits for turns waits for the next host too, and would say so only after that."""
    ended = threading.Event()
    heard = threading.Event()  # a turn came, so there was a host, however short it lived

    def passed_on() -> Iterator[Turn]:
        for turn in news:
            heard.set()
            yield turn

    def watch() -> None:
        told = False
        while not ended.is_set():
            if heard.is_set():
                heard.clear()
                told = False
            hosted = _is_hosted_now(path)
            if not hosted and not told:
                text = "nobody hosts this store now; waiting for a host"
                errors().print(text, style="bright_black")
            told = not hosted
            ended.wait(HOST_POLL_S)

    thread = threading.Thread(target=watch, name="host-watch", daemon=True)
    thread.start()
    try:
        yield passed_on()
    finally:
        ended.set()
        thread.join()


def _is_hosted_now(path: Path) -> bool:
    try:
        return is_hosted(path)
    except NeverforgetError:  # the follower meets it too, and tells
        return False
