"""An S3 server that misbehaves when told: a proxy in front of the one in ``object_stores``."""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import urlsplit

Fault = Literal["none", "fail", "slow", "lose", "late", "cut"]
_DROPPED = {"connection", "transfer-encoding", "content-length", "date", "server"}


class ObjectProxy:
    """``fault``, for whoever does not answer well from now on:

    fail: 503, nothing was done
    slow: done after ``delay_s``
    lose: a put is done and the connection closed without an answer
    late: a put is refused with 503 at once and done all the same, after ``delay_s``
    cut:  the connection is closed, nothing was done
    ``share``: of the requests; every so-manieth. ``hits``: by fault.
    """

    def __init__(self, behind: str) -> None:
        self.fault: Fault = "none"
        self.delay_s = 1.0
        self.every = 1
        self.hits: Counter[str] = Counter()
        self._seen = 0
        self._late: list[threading.Timer] = []
        self._lock = threading.Lock()
        self._behind = urlsplit(behind).netloc
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self.settle()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def settle(self) -> None:
        """Every late put has been done."""
        with self._lock:
            late, self._late = self._late, []
        for timer in late:
            timer.join()

    def has_hit(self, fault: str, times: int) -> bool:
        return self.hits[fault] >= times

    @contextmanager
    def faulty(self, fault: Fault, *, every: int = 1, delay_s: float = 1.0) -> Iterator[None]:
        self.every, self.delay_s, self.fault = every, delay_s, fault
        try:
            yield
        finally:
            self.fault = "none"

    def chosen(self, method: str) -> Fault:
        """What becomes of the next request."""
        fault = self.fault
        if fault in ("lose", "late") and method != "PUT":
            return "none"
        with self._lock:
            self._seen += 1
            if fault == "none" or self._seen % self.every:
                return "none"
            self.hits[fault] += 1
        return fault

    def forward(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self._behind, timeout=60)
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def forward_late(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        timer = threading.Timer(self.delay_s, self.forward, (method, path, headers, body))
        timer.daemon = True
        with self._lock:
            self._late.append(timer)
        timer.start()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle(self) -> None:
                try:
                    super().handle()
                except ConnectionError:
                    self.close_connection = True  # of a client that was killed, or gave up

            def _any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                headers = {k: v for k, v in self.headers.items() if k.lower() not in _DROPPED}
                request = (self.command, self.path, headers, body)
                fault = proxy.chosen(self.command)
                if fault == "cut":
                    self.close_connection = True
                    return
                if fault in ("fail", "late"):
                    if fault == "late":
                        proxy.forward_late(*request)
                    self._answer(503, [], b"<Error><Code>SlowDown</Code></Error>")
                    return
                if fault == "slow":
                    time.sleep(proxy.delay_s)
                status, found, data = proxy.forward(*request)
                if fault == "lose":
                    self.close_connection = True
                    return
                self._answer(status, found, data)

            def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
                self.send_response(status)
                length = dict(headers).get("Content-Length", "0")
                for name, value in headers:
                    if name.lower() not in _DROPPED:
                        self.send_header(name, value)
                is_head = self.command == "HEAD"
                self.send_header("Content-Length", length if is_head else str(len(data)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _any

            def log_message(self, format: str, *args: object) -> None:
                """Nothing is printed."""

        return Handler
