"""The embedders of a store, by name or as an object: the face of the ``embedder_*`` modules.

``"minilm"`` (the default) is a model on this machine, ``"openai:MODEL@https://host/v1"`` any
endpoint of that form, ``"none"`` leaves searching to words, and an object with the protocol brings
a model of its own. Importing this module loads neither a model nor numpy; ``made`` does.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from neverforget.runtime.embedder_names import MINILM, NONE, check_name
from neverforget.runtime.object_checks import OBJECT, check_object
from neverforget.storage.errors import InvalidArgument, NotFound

if TYPE_CHECKING:
    from neverforget.actors.embedder_checked import CheckedEmbedder
    from neverforget.actors.embedder_contract import Embedder


def check(embedder: object) -> None:
    """Raises InvalidArgument for what is no embedder. No I/O; loads nothing."""
    if isinstance(embedder, str):
        check_name(embedder)
        return
    needs = ("model_id", "dimension", "embed")
    check_object(embedder, "an embedder", needs, "model_id, dimension and embed(texts)")


def stored_name(embedder: str | Embedder) -> str:
    """What a store's settings keep of it: the name, or "object:MODEL_ID"."""
    check(embedder)
    return embedder if isinstance(embedder, str) else f"{OBJECT}{embedder.model_id}"


def made(embedder: str | Embedder) -> CheckedEmbedder | None:
    """The embedder that is meant, held to its contract; None for "none".

    Reads no model and asks no endpoint yet. Raises InvalidArgument for what is no embedder, and
    NotFound for the name of an object: that has to be passed itself.
    """
    if isinstance(embedder, str) and embedder.startswith(OBJECT):
        raise NotFound(
            f"this store has the embedder {embedder!r}, and its host was not given that object; "
            "pass embedder=... where the store is hosted, or change it with reindex"
        )
    check(embedder)
    if embedder == NONE:
        return None
    from neverforget.actors.embedder_checked import CheckedEmbedder

    if isinstance(embedder, CheckedEmbedder):
        return embedder
    if not isinstance(embedder, str):
        checked = CheckedEmbedder(embedder)
        _check_pickles(embedder)
        _ = checked.dimension
        return checked
    if embedder == MINILM:
        from neverforget.runtime.embedder_minilm import MiniLMEmbedder

        return CheckedEmbedder(MiniLMEmbedder())
    from neverforget.runtime.embedder_openai import OpenAIEmbedder

    return CheckedEmbedder(OpenAIEmbedder(embedder))


def _check_pickles(embedder: Any) -> None:
    try:
        pickle.dumps(embedder)
    except Exception as error:
        raise InvalidArgument(
            "an embedder runs in another process, and this one does not pickle "
            f"({type(error).__name__}: {error}); define its class in a module, and load models and "
            "connections at the first use instead of keeping them in what is pickled"
        ) from error
