"""Shared by the loaders' tests: a web server on this machine and a tiny set."""

import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

TINY_TEXT = b"2 1:0.5 3:-1.25\n1 2:4\n2\n"

# Lists the files below a folder of the test.
Leftovers = Callable[[str], list[str]]


class Web:
    """A server of `files` (path: bytes). `hits` are the requested paths.

    It answers after `delay` seconds, and hangs up before the last `missing` bytes.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.hits: list[str] = []
        self.delay, self.missing = 0.0, 0
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.hits.append(self.path)
                time.sleep(web.delay)
                body = web.files.get(self.path)
                if body is None:
                    self.send_error(404)
                    return
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body[: len(body) - web.missing])

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()
