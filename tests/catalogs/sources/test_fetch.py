"""Reading a file of a catalog from servers that have a bad day."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from catalogs.errors import CatalogError
from catalogs.sources.fetch import fetch

CONTENT = b"InstanceType,Price\n" + b"p5.48xlarge,98.32\n" * 50
AT_ONCE = (0.0, 0.0)


class Handler(BaseHTTPRequestHandler):
    """Answers each request by the next of the server's ``answers``, the last one for ever."""

    def do_GET(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        server.request_count += 1
        answer = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
        answer(self)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - likewise
        pass


Answer = Callable[[Handler], None]


class Server(ThreadingHTTPServer):
    """Counts its requests."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers = list(answers)
        self.request_count = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/aws/vms.csv"


@contextmanager
def serving(*answers: Answer) -> Iterator[Server]:
    server = Server(*answers)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def whole(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(CONTENT)))
    handler.end_headers()
    handler.wfile.write(CONTENT)


def cut_off(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(CONTENT)))
    handler.end_headers()
    handler.wfile.write(CONTENT[:300])


def cut_off_in_a_chunk(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"100\r\n" + CONTENT[:20])


def silent(handler: Handler) -> None:
    handler.close_connection = True


def answering(code: int) -> Answer:
    return lambda handler: handler.send_error(code)


@pytest.mark.parametrize("trouble", [answering(503), answering(429), cut_off, cut_off_in_a_chunk, silent])
def test_a_trouble_that_passes_is_tried_again(trouble: Answer) -> None:
    with serving(trouble, trouble, whole) as server:
        assert fetch(server.address, pauses_s=AT_ONCE).content == CONTENT
        assert server.request_count == 3


@pytest.mark.parametrize(
    ("trouble", "words"),
    [
        (answering(503), "the server answers 503 Service Unavailable, 3 times in a row"),
        (cut_off, "broke off after 300 of 919 bytes, 3 times in a row"),
        (cut_off_in_a_chunk, "the connection broke off .*, 3 times in a row"),
        (silent, "the connection broke off .*, 3 times in a row"),
    ],
)
def test_a_trouble_that_lasts_is_named_and_half_a_list_is_none(trouble: Answer, words: str) -> None:
    with serving(trouble) as server, pytest.raises(CatalogError, match=rf"/aws/vms\.csv: .*{words}"):
        fetch(server.address, pauses_s=AT_ONCE)


def test_what_will_not_pass_is_asked_for_once() -> None:
    with serving(answering(404)) as server:
        with pytest.raises(CatalogError, match="the server answers 404"):
            fetch(server.address, pauses_s=AT_ONCE)
        assert server.request_count == 1
