"""Every command of the documentation does what it should; one that no rule knows fails.

A command is run in a folder with a few small runs in `results`. What follows `python -m` is called in this process,
with settings added that make it small. What trains is composed (`--cfg job`); the slow tests run it, but for sweeps
and ranks, whose commands tests/experiments and tests/cluster run.
"""

import fcntl
import gzip
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import termios
from collections.abc import Callable, Iterator
from functools import partial
from glob import glob
from importlib import import_module
from importlib.util import find_spec
from itertools import dropwhile
from pathlib import Path

import pytest
from docs_support import PAGES, ROOT, Command, blocks, commands, sessions
from hydra.utils import get_object
from waiting import exit_status

from experiments import enter
from experiments.config import compose
from experiments.config.run import load_run
from experiments.external.record import check
from experiments.run import main
from plots.request import parse

SHOWN = [command for page in PAGES for command in commands(page)]
DIFFERENT = list({command.text: command for command in reversed(SHOWN)}.values())[::-1]

Words = list[str]
Act = Callable[[Words], None]

SMALLER = {
    "logreg": ["rounds=20", "eval_every=5"],
    "digits": ["rounds=8", "eval_every=4", "task.rows=64", "task.batch_size=4"],
    "text": [
        *("rounds=8", "eval_every=4", "warmup_rounds=2", "task.batch_size=2", "task.model.width=8"),
        *("task.model.heads=2", "task.evaluation_windows=4"),
    ],
}
"""What makes runs small, by the first part of their task's name."""

IMAGE = "compressed-optimization"

IN_CONF = """
import sys
from importlib import import_module
from experiments.config import compose

compose.OURS += ("command-line",)
import_module(sys.argv.pop(1)).main()
"""
"""Calls a command in a process of its own, which takes the files of --config-dir for the project's."""


def small(words: list[str]) -> list[str]:
    """The words and what makes their runs small."""
    task = re.search(r"\btask=(\w+)", " ".join(words))
    return [*words, *SMALLER.get(task[1] if task else "", SMALLER["logreg"])]


def lay_out(page: Path, place: Path) -> None:
    """Write the files that a page shows."""
    for block in blocks(page):
        if block.file:
            target = place / block.file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(block.body)


def with_files(words: list[str]) -> list[str]:
    """The command, with choices looked for in conf/ here too, where a page has put files into it."""
    composes = words[2] in ("experiments.run", "experiments.reproduce") and Path("conf").is_dir()
    return [*words, "--config-dir=conf"] if composes else words


def call(words: Words) -> None:
    """`python -m module …`, with paths expanded as a shell does."""
    _, _, module, *arguments = with_files(words)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compose, "OURS", (*compose.OURS, "command-line"))  # pages put their files into the own conf/
        import_module(module).main([path for word in arguments for path in (glob(word) if "*" in word else [word])])


def call_one(words: Words) -> None:
    """One run of a figure alone."""
    call([*small(words), "figure.grid=[['task=logreg/breast_cancer'],['algorithm=cd_adam']]", "figure.claims=[]"])


def configure(words: Words) -> None:
    call([*words, "--cfg", "job"])


def configure_first(words: Words) -> None:
    """What Hydra composes of a sweep's first run, with the options of its launcher and sweeper, without functions."""
    plain = [word for word in words[3:] if word != "-m" and "(" not in word]
    firsts = [word if "[" in word else word.partition(",")[0] for word in plain]
    call([*words[:3], *firsts, "--cfg", "all"])


def configure_launched(words: Words) -> None:
    """The run that a launcher is to start."""
    configure(["python", "-m", *words[words.index("experiments.run") :]])


def check_strategy(words: Words) -> None:
    """An external strategy, as far as one process can tell."""
    check(load_run(words[words.index("experiments.external") + 1 :]))


def find(words: Words) -> None:
    """A class or function that is to be checked, or a folder."""
    assert Path(words[3]).is_dir() or callable(get_object(words[3]))


def define(words: Words) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("experiments.dashboard._create", lambda figure, runs, logger: "an address")
        call(words)


def make(words: Words) -> None:
    for line in recipe(words):
        RULES[rule_of(line)][0](line)


def recipe(words: Words) -> list[Words]:
    """What make would run, the virtual environment being there."""
    there = ["-o", ".venv/.ready", "-o", ".venv/.ready-to-develop"]
    command = ["make", "--no-print-directory", "-n", *there, *words[1:]]
    outside = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(command, cwd=ROOT, env=outside, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    lines = [shlex.split(line.replace(".venv/bin/", "")) for line in done.stdout.splitlines()]
    return [list(dropwhile(lambda word: re.match(r"[A-Z_]+=", word), words)) for words in lines]


def is_there(words: Words) -> None:
    module, file = re.search(r"-m ([\w.]+)|(\S+\.(?:py|sh|sbatch))", " ".join(words)).groups()
    assert find_spec(module) if module else (ROOT / file).is_file()


def run_contained(words: Words) -> None:
    """What runs in the container."""
    inner = words[words.index(IMAGE) + 1 :]
    RULES[rule_of(inner)][0](inner)


def enter_later(words: Words) -> None:
    for candidate in enter.read(words[3:])[0]:
        candidate.trials()


def parse_keys(words: Words) -> None:
    parse(words[3:], import_module(words[2]).DEFAULTS)


RULES: dict[str, tuple[Act, Act | None]] = {
    r"python -m experiments\.run .*(--cfg job|dry_run=true)": (call, None),
    r"python -m experiments\.run (-m |.*sweep=)": (configure_first, None),
    r"python -m experiments\.run .*(ranks|logger)=": (configure, None),
    r"python -m experiments\.run .*task=(logreg/a9a|cifar10/|text/shakespeare)": (configure, None),  # a download
    r"python -m experiments\.run ": (configure, lambda words: call(small(words))),
    r"python -m experiments\.redraw ": (is_there, None),  # test_reference_reports.py redraws them
    r"python -m experiments\.reproduce .*(jobs=|figure_3)": (configure, None),
    r"python -m experiments\.reproduce ": (configure, call_one),
    r"python -m experiments\.dashboard": (define, None),  # an account: the page is written to a file
    r"python -m experiments\.enter ": (enter_later, None),  # tests/experiments/test_entries.py
    r"python -m experiments\.(leaderboard|plan) ": (parse_keys, None),  # tests/experiments has tests of both
    r"python -m experiments\.check ": (find, call),
    r"python -m (experiments\.(status|report|network_time)|plots\.plot) ": (call, None),
    r"(torchrun|srun) .*-m experiments\.run ": (configure_launched, None),
    r"torchrun .*-m experiments\.external ": (check_strategy, None),
    r"torchrun --nnodes=2 .*\.py ": (is_there, None),
    r"torchrun .*\.py ": (is_there, partial(subprocess.run, check=True, timeout=300)),
    r"sbatch .*\.sbatch ": (is_there, None),  # test_slurm_script.py runs it
    r"bash benchmarks/gpu\.sh ": (is_there, None),  # test_gpu_list.py rehearses it
    r"make ": (make, None),
    r"docker run ": (run_contained, None),  # what is to run in it is run here
    r"(python -m (pytest|data)|wandb|tensorboard|docker build|mkdir -p|rsync) ": (bool, None),
    r"source \.venv/bin/activate": (bool, None),
}
"""How to check a command that matches a pattern, by default and in the slow tests. `bool` does nothing."""


def rule_of(words: Words) -> str:
    """The first pattern that the command matches. Fails for a command that no rule knows."""
    for pattern in RULES:
        if re.match(pattern, shlex.join(words) + " "):
            return pattern
    raise AssertionError(f"no rule for {shlex.join(words)}")


@pytest.fixture(scope="session")
def small_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with the runs that pages look at."""
    folder = tmp_path_factory.mktemp("documented") / "results"
    runs = [(f"logreg/{data}", name) for data in ("breast_cancer", "digits") for name in ("cd_adam", "ef21")]
    for task, algorithm in [*runs, ("digits", "cd_adam")]:
        about = [f"task={task}", f"algorithm={algorithm}", "lr=[0.003,0.01]", "study=first", f"results_dir={folder}"]
        main(small([*about, "checkpoint_every=100"]))
    return folder


@pytest.fixture
def place(small_results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder, in which a command is run, with these results, a data file and the examples."""
    known = set(sys.modules)
    shutil.copytree(small_results, tmp_path / "results")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    with gzip.open(tmp_path / "my.svm.gz", "wt") as file:
        file.writelines(f"{row % 2} 1:{row} {2 + row % 3}:0.5\n" for row in range(40))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.partition(".")[0] in ("mine", "my_package", "strategies"):  # that pages have their readers write
            del sys.modules[name]


def follow(act: Act, command: Command, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what a rule says, and compare the exit status with what the page says of it."""
    lay_out(command.page, place)
    for name, value in command.variables.items():
        monkeypatch.setenv(name, value)
        if name == "PYTHONPATH":  # seen from the project's root
            monkeypatch.setenv(name, os.pathsep.join([value, str(place), str(ROOT)]))
            monkeypatch.syspath_prepend(value)
    assert exit_status(lambda: act(command.words)) == command.status, command.text


@pytest.mark.parametrize("command", DIFFERENT, ids=str)
def test_a_command_is_right(command, place, monkeypatch):
    follow(RULES[rule_of(command.words)][0], command, place, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("command", [command for command in DIFFERENT if RULES[rule_of(command.words)][1]], ids=str)
def test_a_command_runs(command, place, monkeypatch):
    follow(RULES[rule_of(command.words)][1], command, place, monkeypatch)


def printed(words: list[str], columns: int) -> list[str]:
    """The lines that stay on a terminal of so many columns once the command has ended."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen(
        words, stdin=its, stdout=its, stderr=its, env=os.environ | {"COLUMNS": str(columns), "TERM": "xterm"}
    )
    os.close(its)
    said = b""
    try:
        while part := os.read(ours, 1 << 16):
            said += part
    except OSError:  # how Linux tells that nobody writes to the terminal any more
        pass
    os.close(ours)
    process.wait()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode().replace("\r\n", "\n"))
    return [line.rpartition("\r")[2].rstrip() for line in text.split("\n")]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if sessions(page)], ids=lambda page: page.name)
def test_what_a_page_shows_is_printed(page, place, monkeypatch):
    """Line by line, but for numbers, ids and what a page leaves out by an ellipsis."""
    shutil.rmtree(place / "results")
    lay_out(page, place)
    for block, shown in sessions(page):
        for command in block:
            words = recipe(command.words)[0] if command.words[0] == "make" else command.words
            _, *rest = with_files(words)
            command = [sys.executable, *(rest if rest[1:] == words[2:] else ["-c", IN_CONF, *rest[1:]])]
            said = [_plain(line) for line in printed(command, columns=110)]
        for line in shown.splitlines():
            pattern = ".*".join(map(re.escape, _plain(line).split("…")))
            assert any(re.fullmatch(pattern, other) for other in said), (str(command), line, said)


def _plain(line: str) -> str:
    """A line with every id, every number and every unit of time the same, and single spaces."""
    line = re.sub(r"(\d) (min|h)\b", r"\1 s", line)
    line = re.sub(r"\b[0-9a-f]{12}\b|\b\d[\d.]*(e-?\d+)?", "0", line)
    return " ".join(line.split())


def test_no_rule_is_idle():
    lines = [line for command in SHOWN if command.words[0] == "make" for line in recipe(command.words)]
    assert {rule_of(words) for words in [*(command.words for command in SHOWN), *lines]} == {*RULES}
