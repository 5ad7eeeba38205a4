"""Processes that are forked rather than started: what they find, say and leave, and how they end."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common.template import WORKS, Forked, Template

pytestmark = pytest.mark.skipif(not WORKS, reason="forks on Linux alone")

COMMAND = [sys.executable, "-m", "common.parent"]
SCRIPT = """
import json, os, sys, time
seen = [sys.argv[1:], os.environ["WORD"], "colorsys" in sys.modules, os.getpid() == os.getsid(0)]
print(json.dumps(seen), flush=True)
exec(sys.argv[1])
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """One in which the module `script` is found, which runs its argument."""
    (tmp_path / "script.py").write_text(SCRIPT)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()]), "WORD": "of the template"}


@pytest.fixture
def template(environment: dict[str, str]) -> Iterator[Template]:
    made = Template(["colorsys", "no_such_module"], environment)
    yield made
    made.close()


def started(template: Template, log: Path, code: str) -> Forked:
    log.touch()
    return template.start([*COMMAND, "script", code], {"WORD": "its own"}, log)


def until(holds: Callable[[], object]) -> None:
    """Wait for something that is bound to come."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def code_of(process: Forked) -> int | None:
    """Its exit status, once it has ended."""
    until(lambda: process.poll() is not None)
    return process.returncode


def is_gone(pid: int) -> bool:
    """Whether a process that nobody here can wait for has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_it_is_the_process_of_its_command_line(template: Template, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert code_of(started(template, log, "")) == 0
    assert json.loads(log.read_text()) == [[""], "its own", True, True]


def test_several_run_at_once(template: Template, tmp_path: Path) -> None:
    """Each of the two waits for the other's file."""
    code = "open('{1}/{0}', 'w').close()\nwhile not os.path.exists('{1}/{2}'): time.sleep(0.02)"
    both = [started(template, tmp_path / f"log-{a}", code.format(a, tmp_path, b)) for a, b in ("ab", "ba")]
    assert [code_of(process) for process in both] == [0, 0]


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [("sys.exit(3)", 3, ""), ("sys.exit('because')", 1, "because"), ("1/0", 1, "ZeroDivisionError"),
     ("os.kill(os.getpid(), 9)", -9, "")],
)  # fmt: skip
def test_how_it_ended(code: str, status: int, said: str, template: Template, tmp_path: Path) -> None:
    assert code_of(started(template, tmp_path / "log", code)) == status
    assert said in (tmp_path / "log").read_text()
    assert code_of(started(template, tmp_path / "next", "")) == 0


def test_what_a_module_prints_is_no_answer(environment: dict[str, str], tmp_path: Path) -> None:
    loud = Template(["this"], environment)  # which prints a poem
    try:
        assert code_of(started(loud, tmp_path / "log", "")) == 0
    finally:
        loud.close()


def test_it_can_be_asked_to_end(template: Template, tmp_path: Path) -> None:
    asked = started(template, tmp_path / "log", "time.sleep(60)")
    until((tmp_path / "log").read_text)
    asked.terminate()
    assert code_of(asked) == -signal.SIGTERM
    asked.terminate()  # of one that has ended


def test_none_outlives_the_template(template: Template, tmp_path: Path) -> None:
    left = started(template, tmp_path / "log", "time.sleep(60)")
    until((tmp_path / "log").read_text)
    template._process.kill()
    template._process.wait()
    assert left.poll() == -signal.SIGKILL
    with pytest.raises(BrokenPipeError):
        started(template, tmp_path / "next", "")
    until(lambda: is_gone(left.pid))


def test_none_outlives_who_made_the_template(environment: dict[str, str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    command = [*COMMAND, "script", "time.sleep(60)"]
    maker = f"""
import os, time
from pathlib import Path
from common.template import Template
template = Template([], dict(os.environ))
print(template.start({command}, {{}}, Path({str(log)!r})).pid, flush=True)
time.sleep(60)
"""
    process = subprocess.Popen([sys.executable, "-c", maker], env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    left = int(process.stdout.readline())
    until(log.read_text)
    process.kill()
    process.communicate()
    until(lambda: is_gone(left))
