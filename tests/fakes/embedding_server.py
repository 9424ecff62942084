"""A real HTTP server on loopback that speaks ``POST /v1/embeddings``, well or badly as told; told
to, it answers chat completions.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from neverforget.runtime.embedder_hash import HashEmbedder

Behaviour = Callable[["Handler", list[str]], None]


class Handler(BaseHTTPRequestHandler):
    """Connections are kept open, as real servers do; those that stay silent end after 20 s."""

    protocol_version = "HTTP/1.1"
    timeout = 20
    disable_nagle_algorithm = True  # or a body waits 40 ms for the receipt of its headers

    @property
    def owner(self) -> EmbeddingServer:
        assert isinstance(self.server, EmbeddingServer)
        return self.server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        asked = json.loads(body)
        self.owner.requests.append((self.path, dict(self.headers.items()), asked))
        behaviour = self.owner.script.popleft() if self.owner.script else self.owner.usual
        told = asked["input"] if "input" in asked else [m["content"] for m in asked["messages"]]
        behaviour(self, told)

    def send(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self, rows: list[Any], **headers: str) -> None:
        """Status 200 with these embeddings, numbered in order."""
        data = [{"object": "embedding", "index": i, "embedding": r} for i, r in enumerate(rows)]
        self.send(200, json.dumps({"object": "list", "data": data}).encode(), **headers)

    def rows(self, texts: list[str]) -> list[list[float]]:
        return [[float(x) for x in row] for row in HashEmbedder(self.owner.dimension).embed(texts)]

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class EmbeddingServer(ThreadingHTTPServer):
    """``script`` holds what the next requests meet, one each; after it ``usual``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.script: deque[Behaviour] = deque()
        self.usual: Behaviour = well
        self.dimension = 16
        self.release = threading.Event()  # ends what hangs

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in mid-answer is what some tests are about."""

    @property
    def name(self) -> str:
        return f"openai:test-model@http://127.0.0.1:{self.server_address[1]}/v1"

    @property
    def asked(self) -> list[list[str]]:
        return [request["input"] for _, _, request in self.requests]


@contextmanager
def serving() -> Iterator[EmbeddingServer]:
    with EmbeddingServer() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.release.set()
            server.shutdown()
            thread.join()


# ---- behaviours ----------------------------------------------------------------------------------


def well(handler: Handler, texts: list[str]) -> None:
    handler.answer(handler.rows(texts))


def status(number: int, code: str | None = None, **headers: str) -> Behaviour:
    """An error as OpenAI sends it; its prose quotes the key and the first text, as some do."""

    def behave(handler: Handler, texts: list[str]) -> None:
        said = f"no: {handler.headers.get('authorization')} for {texts[0]}"
        error = {"error": {"message": said, "type": "some_error", "code": code}}
        handler.send(number, json.dumps(error).encode(), **headers)

    return behave


def raw(body: bytes, number: int = 200, **headers: str) -> Behaviour:
    return lambda handler, texts: handler.send(number, body, **headers)


def embeddings(make: Callable[[list[list[float]]], list[Any]]) -> Behaviour:
    """Status 200 with what ``make`` makes of the right rows. NaN is written as Python writes it."""
    return lambda handler, texts: handler.answer(make(handler.rows(texts)))


def numbered(order: Callable[[int], list[int | None]]) -> Behaviour:
    """The right rows, sent in another order or with other numbers."""

    def behave(handler: Handler, texts: list[str]) -> None:
        rows = handler.rows(texts)
        data = [
            {"embedding": rows[i if i is not None and i < len(rows) else k]}
            | ({} if i is None else {"index": i})
            for k, i in enumerate(order(len(rows)))
        ]
        handler.send(200, json.dumps({"data": data}).encode())

    return behave


def hang(handler: Handler, texts: list[str]) -> None:
    handler.owner.release.wait()
    handler.close_connection = True


def drip(handler: Handler, texts: list[str]) -> None:
    """A byte now and then, for ever: no single wait is long."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    handler.close_connection = True
    while not handler.owner.release.wait(0.01):
        handler.wfile.write(b" ")


def cut(handler: Handler, texts: list[str]) -> None:
    """The connection ends in the middle of the answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"data": [')
    handler.close_connection = True


def close(handler: Handler, texts: list[str]) -> None:
    handler.close_connection = True


def poisoned(word: str, bad: Behaviour) -> Behaviour:
    """``bad`` where a text holds ``word``."""
    return lambda handler, texts: (bad if any(word in t for t in texts) else well)(handler, texts)


def says(make: Callable[[str], str]) -> Behaviour:
    """A chat completion: what ``make`` makes of the last message."""

    def behave(handler: Handler, texts: list[str]) -> None:
        choice = {"index": 0, "message": {"role": "assistant", "content": make(texts[-1])}}
        handler.send(200, json.dumps({"choices": [choice]}).encode())

    return behave
