"""A server of wandb's kind, as far as runs, their rows and pages go, and one that accepts and never answers."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread

KEY = "0" * 40
"""An API key of valid form."""


class Run:
    """What the server has of a run. `rows` are the lines of its history, `posts` how many came with each request."""

    def __init__(self) -> None:
        self.rows: list[dict] = []
        self.posts: list[int] = []
        self.summary: dict = {}
        self.fields: dict = {}

    def stream(self, files: dict) -> None:
        """Lines for a file begin at a line, and replace what is there from it on."""
        if history := files.get("wandb-history.jsonl"):
            self.rows[history["offset"] :] = map(json.loads, history["content"])
            self.posts.append(len(history["content"]))
        if summary := files.get("wandb-summary.json"):
            self.summary = json.loads(summary["content"][-1])

    def bucket(self) -> dict:
        """What the server says of it to one who wants to go on with it."""
        tail = [json.dumps(row) for row in self.rows[-1:]]
        return {
            "id": "bucket",
            "name": self.fields["name"],
            "displayName": self.fields.get("displayName"),
            "summaryMetrics": json.dumps(self.summary),
            "config": self.fields["config"],
            "historyLineCount": len(self.rows),
            "historyTail": json.dumps(tail),
            "eventsLineCount": 0,
            "eventsTail": "[]",
            "logLineCount": 0,
            "tags": self.fields.get("tags", []),
            "notes": "",
            "wandbConfig": '{"t": 1}',  # without it the run would count as never begun
        }


class Server(ThreadingHTTPServer):
    """Remembers runs by id. While `silent` is set it answers nothing."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.runs: dict[str, Run] = {}
        self.views: list[dict] = []
        self.silent = Event()

    def answer(self, operation: str, given: dict) -> dict:
        """The answer to a query, which is known by its name."""
        me = {"id": "entity", "name": "me"}
        if operation == "RunResumeStatus":
            run = self.runs.get(given["name"])
            return {"model": {"id": "p", "name": "p", "entity": me, "bucket": run and run.bucket()}}
        if operation == "UpsertBucket":
            new = given["name"] not in self.runs
            run = self.runs.setdefault(given["name"], Run())
            run.fields |= {name: value for name, value in given.items() if value is not None}
            project = {"id": "p", "name": given["project"], "entity": me}
            bucket = {**run.bucket(), "description": "", "sweepName": None, "project": project}
            return {"upsertBucket": {"bucket": bucket, "inserted": new}}
        if operation == "CreateRunFiles":
            files = [{"name": name, "uploadUrl": f"{self.url}/upload"} for name in given["files"]]
            return {"createRunFiles": {"runID": "bucket", "uploadHeaders": [], "files": files}}
        if operation in ("Viewer", "GetDefaultEntity"):
            names = {"entity": "me", "username": "me", "name": "me", "email": ""}
            return {"viewer": {"id": "user", **names, "flags": "{}", "admin": False, "teams": {"edges": []}}}
        if operation == "ProjectInternalId":
            return {"project": {"internalId": "p"}}
        if operation == "GetProjects":
            return {"models": {"edges": [], "pageInfo": {"endCursor": None, "hasNextPage": False}}}
        if operation == "upsertView":
            self.views.append(given)
            project = {"name": given["projectName"], "entityName": given["entityName"]}
            made = {name: given[name] for name in ("name", "displayName", "description", "spec")}
            times = dict.fromkeys(("createdAt", "updatedAt"), "2026-01-01T00:00:00Z")
            return {"upsertView": {"view": {"id": "view", "project": project, **made, **times}, "inserted": True}}
        return {}

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is none of ours."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.silent.is_set():
            Event().wait()
        answer = {}
        if self.path == "/graphql":
            query = json.loads(content)
            operation = re.search(r"(?:query|mutation)\s+(\w+)", query["query"])[1]
            answer = {"data": self.server.answer(operation, query.get("variables") or {})}
        elif self.path.endswith("/file_stream"):
            self.server.runs[self.path.split("/")[-2]].stream(json.loads(content).get("files") or {})
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_GET = do_POST

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing on the terminal."""


@contextmanager
def serving() -> Iterator[Server]:
    """A server for as long as the with-block lasts."""
    server = Server()
    Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()
