"""A process that has imported what others need and forks them, so that none of them has to.

    python -m common.template MODULE [MODULE ...]

imports the modules, and then answers requests, a JSON object a line. Not for use by hand.
"""

import gc
import json
import os
import runpy
import signal
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from common.parent import end_with_parent, named

WORKS = sys.platform == "linux"
"""Elsewhere libraries do not bear to be forked."""


class Forked:
    """A process of a template, with what `subprocess.Popen` has of these names."""

    def __init__(self, template: "Template", pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._template = template

    def poll(self) -> int | None:
        """Its exit status once it has ended, −s where signal s killed it."""
        if self.returncode is None:
            self.returncode = self._template.code(self.pid)
        return self.returncode

    def terminate(self) -> None:
        """Ask it to end."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGTERM)


class Template:
    """Starts what `python -m common.parent MODULE ARGUMENT ...` does, with these modules imported already.

    Every process has a session of its own, and ends when the template does, as that does with the one that made it.
    """

    def __init__(self, modules: list[str], environment: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "common.template", *modules],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def start(self, command: list[str], environment: dict[str, str], log: Path) -> Forked:
        """Fork a process for a command line, which adds what it says to `log`.

        environment: what it finds besides what the template has. Raises OSError where the template is gone or cannot
        fork.
        """
        words = command[command.index("common.parent") + 1 :]
        pid = self._ask({"words": words, "environment": environment, "log": str(log.absolute())})
        if pid is None:
            raise OSError("no process can be forked")
        return Forked(self, pid)

    def code(self, pid: int) -> int | None:
        """The exit status of a process that has ended; where the template is gone, so are those that it forked."""
        try:
            return self._ask({"pid": pid})
        except BrokenPipeError:
            return -signal.SIGKILL

    def close(self) -> None:
        """End it, if it has not; whatever it has started ends too."""
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(BrokenPipeError):
                self._process.communicate()

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise BrokenPipeError("the process that forks others is gone")
        return json.loads(answer)


def _next(answers: int) -> dict[str, Any] | None:
    """Answer requests until there are no more; in a process that one of them forked return that one."""
    own = os.getpid()
    for line in sys.stdin:
        request = json.loads(line)
        if "pid" in request:
            pid, status = os.waitpid(request["pid"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            try:
                answer = os.fork()
            except OSError:
                answer = None
            if answer == 0:
                os.setsid()
                os.close(answers)
                end_with_parent(own)
                return request
        os.write(answers, json.dumps(answer).encode() + b"\n")
    return None


def _become(words: list[str], environment: dict[str, str], log: str) -> None:
    """Be the process that was asked for."""
    for number, file, flags in ((0, os.devnull, os.O_RDONLY), (1, log, os.O_WRONLY | os.O_APPEND)):
        descriptor = os.open(file, flags)
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.dup2(1, 2)
    os.environ.update(environment | named())
    sys.argv = words
    runpy.run_module(words[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    answers = os.dup(1)
    os.dup2(2, 1)  # or what a module prints would be taken for an answer
    for module in sys.argv[1:]:
        with suppress(Exception):  # which the process that needs it says better
            import_module(module)
    gc.freeze()  # or every process, when it collects garbage, copies all that was imported
    if asked := _next(answers):
        _become(**asked)
