"""What tests of wandb share: no login, a stand-in for the package, a server of its kind, and the names in it."""

import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from threading import Thread
from types import ModuleType, SimpleNamespace

import pytest

GROUPS = {
    "comm": ("bits", "bits_up", "bits_down", "payload_bytes"),
    "progress": ("round", "epoch"),
    "time": ("seconds",),
    "compression": ("mean_norm", "aggregate_error", "signal_error", "second_moment"),
}
NAMES = {column: f"{group}/{column}" for group, columns in GROUPS.items() for column in columns}
NAMES |= {f"{part}_{what}": f"{what}/{part}" for part in ("train", "test") for what in ("loss", "accuracy")}
NAMES["grad_norm"] = "gradient/norm"
"""The name in wandb of each column of metrics.jsonl."""


def expected(rows: list[dict], trial: int = 0) -> list[dict]:
    """A trial's rows of metrics.jsonl under wandb's names."""
    mine = [row for row in rows if row["trial"] == trial]
    return [{NAMES[column]: row[column] for column in row.keys() & NAMES.keys()} for row in mine]


def logged(rows: list[dict]) -> list[dict]:
    """Rows that a server has, without what wandb adds itself; its steps must count them."""
    assert [row["_step"] for row in rows] == list(range(len(rows)))
    return [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows]


class Curve:
    """A run of the stand-in: what it was told."""

    url, starting_step = None, 0

    def __init__(self, **told: object) -> None:
        self.told, self.id = told, told["id"]
        self.rows: list[dict] = []
        self.summary: dict = {}
        self.step_of: dict = {}
        self.exit_code: int | None = None

    def define_metric(self, name: str, step_metric: str | None = None) -> None:
        self.step_of[name] = step_metric

    def log(self, row: dict) -> None:
        self.rows.append(row)

    def finish(self, exit_code: int) -> None:
        self.exit_code = exit_code


class StandIn(ModuleType):
    """The package wandb without a service process or a network. `curves` are the runs that were begun."""

    Error, Settings = RuntimeError, dict

    def __init__(self) -> None:
        super().__init__("wandb")
        self.__spec__ = find_spec("wandb")
        self.curves: list[Curve] = []

    def setup(self, settings: dict) -> SimpleNamespace:
        return SimpleNamespace(settings=SimpleNamespace(mode=os.environ.get("WANDB_MODE", "online")))

    def login(self, **options: object) -> bool:
        return "WANDB_API_KEY" in os.environ

    def init(self, **told: object) -> Curve:
        if told["mode"] == "online":
            raise RuntimeError("no network")
        self.curves.append(Curve(**told))
        return self.curves[-1]

    def teardown(self) -> None:
        self.curves.clear()


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> Iterator[pytest.MonkeyPatch]:
    """Nobody is logged in, whoever runs the tests, and wandb is offline unless the test says otherwise."""
    for name in [*os.environ]:
        if name.startswith("WANDB_") or name == "NETRC":
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", f"{tmp_path}/home")
    monkeypatch.setenv("WANDB_MODE", "offline")
    yield monkeypatch
    if wandb := sys.modules.get("wandb"):  # whose settings are those of the process
        wandb.teardown()


@pytest.fixture
def stand_in(nobody: pytest.MonkeyPatch) -> StandIn:
    """The stand-in in the place of wandb."""
    wandb = StandIn()
    nobody.setitem(sys.modules, "wandb", wandb)
    return wandb


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
    """Remembers runs by id."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.runs: dict[str, Run] = {}

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
        return {}

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that has gone is none of ours."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
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
