"""What nodes are asked, each on a thread of its own: one that does not answer holds up no other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future, wait
from typing import Generic, TypeVar

T = TypeVar("T")


class NodeLooks(Generic[T]):
    """``look``: asked of a node, by its id; it may take long, and raise. Used by one thread."""

    def __init__(self, look: Callable[[str], T]) -> None:
        self._look = look
        self._asked: dict[str, Future[T]] = {}

    def ask(self, nodes: Collection[str], wait_s: float) -> None:
        """Ask those that are not being asked already, forget all others; wait so long at most."""
        self._asked = {node: asked for node, asked in self._asked.items() if node in nodes}
        for node in nodes:
            if node not in self._asked:
                self._asked[node] = self._begin(node)
        wait(self._asked.values(), wait_s)

    def answer(self, node: str) -> T | None:
        """What it told; None: nothing yet. Raises what ``look`` raised. Asked for once."""
        if not self._asked[node].done():
            return None
        return self._asked.pop(node).result()

    def _begin(self, node: str) -> Future[T]:
        future: Future[T] = Future()

        def work() -> None:
            try:
                told = self._look(node)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(told)

        threading.Thread(target=work, name=f"look-{node[:8]}", daemon=True).start()
        return future
