"""Importing neverforget is free: nothing heavy, no file, no socket, no logging."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from neverforget.runtime.config import Config
from tests.fakes.plain_host import PlainHost

HEAVY = (
    *("ray", "faiss", "pyarrow", "tantivy", "onnxruntime", "tokenizers"),
    *("numpy", "typer", "rich", "httpx", "pytest", "asyncio"),
)


def run(program: str, *arguments: str) -> str:
    # -B: whether Python itself writes __pycache__ while it imports is its own affair.
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_importing_loads_nothing_heavy() -> None:
    program = f"""
import sys, neverforget
loaded = [name for name in {HEAVY!r} if name in sys.modules]
assert not loaded, loaded
inner = sorted(name for name in sys.modules if name.startswith("neverforget."))
assert not inner, inner
"""
    run(program)


def test_importing_opens_no_file_or_socket_and_configures_no_logging() -> None:
    program = """
import importlib.abc, sys
seen = []
def hook(event, arguments):
    if event.startswith("socket.") or event == "subprocess.Popen":
        seen.append(event)
    if event == "open" and arguments[1] not in (None, "r", "rb"):
        seen.append((event, arguments[0]))
import logging
sys.addaudithook(hook)
import neverforget
for name in neverforget.__all__:
    if name not in ("import_file", "ImportReport", "testing"):
        getattr(neverforget, name)
assert not seen, seen
assert not logging.getLogger().handlers and not logging.getLogger("neverforget").handlers
import threading
assert threading.active_count() == 1
"""
    run(program)


def test_a_handle_loads_no_grammar_or_rules_before_they_are_needed() -> None:
    """Hundreds of tasks connect at once, each in a process of its own: what builds contexts brought
    the extractor's rules, which took as long to load as everything else together."""
    program = """
import sys, neverforget as nf
from neverforget.runtime import deployed_channel
nf.open, nf.connect, nf.aio.connect
late = ("neverforget.runtime.extractor_", "neverforget.runtime.timeframe.")
loaded = [name for name in sys.modules if name.startswith(late)]
assert not loaded, loaded
"""
    run(program)


def test_who_calls_owners_of_other_nodes_loads_none_of_their_storage() -> None:
    """Ray loads the class of an actor, with its module, where somebody gets a handle on it. Numpy
    and what reads logs came with it, 60 ms of a processor for each client."""
    program = """
import sys
from neverforget.actors import longterm_actor, partition_actor, reflector_actor
late = ("numpy", "neverforget.storage.log", "neverforget.storage.region")
assert not [name for name in late if name in sys.modules]
"""
    run(program)


def test_an_attached_client_loads_nothing_heavy(short_path: Path) -> None:
    host = PlainHost(short_path / "store", Config(partitions=1, embedder="none"))
    program = f"""
import sys, neverforget as nf
with nf.open(sys.argv[1], host="never") as store:
    chat = store.session("chat")
    chat.append("user", {{"a": 1}})
    chat.append_many([{{"role": "user", "content": "x"}}])
    list(chat), chat.tail(), chat.page(), chat.info(), store.sessions(), store.status()
    chat.hide(0); chat.fork("f", at=1)
    made = store.remember("Ada lives in Oslo", tags="geo", related_to=nf.TurnRef((), "chat", 0, 0))
    store.remember_many([{{"text": "x", "metadata": {{"n": 1}}}}])
    store.recall("Oslo", timeframe="today", where={{"metadata.n": {{"$lt": 5}}}})
    store.get(made.id), store.memories(), store.history(made.id), store.relations(made.id)
    store.revise(made.id, text="Ada lives in Paris"); store.tag(made.id, "x")
    store.forget(made.id, confirm=nf.CONFIRMED); store.undo_forget(made.id)
    store.forget_where(tags="x", dry_run=True); store.erase(made.id, confirm=nf.CONFIRMED)
    store.audit(), store.deletion_report("today"), store.namespaces()
    store.settle(), store.verify()
loaded = [name for name in {HEAVY!r} if name in sys.modules]
assert not loaded, loaded
"""
    try:
        run(program, str(short_path / "store"))
    finally:
        host.close()
