"""What processes have in common that work in the background, for who waits for something else."""

from __future__ import annotations

import os
import pickle
from typing import Any, Final

from neverforget.storage.errors import Unavailable

NICE: Final = 10  # it gives way to owners; with a processor to spare it costs nothing


def give_way() -> None:
    """From now on this process gives way to owners."""
    os.nice(NICE)


def unpickled(pickled: bytes, what: str) -> Any:
    """An object that a host was given. Unavailable where it cannot be loaded here: ``what``, as
    "the embedder object:mine", is named.
    """
    try:
        return pickle.loads(pickled)
    except Exception as error:
        raise Unavailable(
            f"{what} cannot be loaded in its own process ({type(error).__name__}: {error}); define "
            "its class in a module that can be imported there",
            outcome="not_applied",
        ) from error
