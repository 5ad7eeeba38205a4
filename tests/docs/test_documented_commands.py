"""Every command of the documentation does what it should; one that no rule knows fails.

A command is run in a folder with a few small runs in `results`. What follows `python -m` is called in this process,
with settings added that make it small. What starts processes of its own is planned here (`dry_run=true`) and run for
real by the slow tests.
"""

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from glob import glob
from importlib import import_module
from importlib.util import find_spec
from itertools import dropwhile
from pathlib import Path

import pytest
from docs_support import PAGES, ROOT, Command, commands, sessions
from hydra.utils import get_object
from place_support import OF_READERS, furnish, kind, lay_out, small, small_runs, with_files
from terminal_support import printed

from experiments.config.run import load_run
from experiments.external.record import check

SHOWN = [command for page in PAGES for command in commands(page)]
DIFFERENT = list({command.text: command for command in reversed(SHOWN)}.values())[::-1]

Words = list[str]
Act = Callable[[Words], None]

WITHOUT_DOWNLOAD = {"task=logreg/a9a": "task=logreg/breast_cancer", "task=cifar10/resnet18": "task=digits"}
"""For other processes, to which the stand-ins for data do not reach."""

IMAGE = "compressed-optimization"

# In this process.


def call(words: Words) -> None:
    """`python -m module …`, with paths expanded as a shell does."""
    _, _, module, *arguments = with_files(words)
    import_module(module).main([path for word in arguments for path in (glob(word) if "*" in word else [word])])


def call_small(words: Words) -> None:
    call(small(words))


def plan(words: Words) -> None:
    call([*small(words), "dry_run=true"])


def plan_one(words: Words) -> None:
    """Of a figure on logistic regression one run alone; of others all."""
    one = ["figure.grid=[['task=logreg/breast_cancer'],['algorithm=cd_adam']]", "figure.claims=[]"]
    plan([*words, *(one if kind(words) == "logreg" else [])])


def configure(words: Words) -> None:
    call([*words, "--cfg", "job"])


def configure_first(words: Words) -> None:
    """What Hydra composes of a sweep's first run, with the options of its launcher and sweeper."""
    searched = [re.sub(r"=tag\(.*", "=0.01", word) for word in words[3:] if word != "-m"]
    firsts = [word if "[" in word else word.partition(",")[0] for word in searched]
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


def fetch(words: Words) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words[2:])
        import_module("data.__main__").main()


def define(words: Words) -> None:
    call([*words, "out=page.json"])


def make(words: Words) -> None:
    for line in recipe(words):
        rule_of(line).act(line)


def make_for_real(words: Words) -> None:
    for line in recipe(words):
        (rule_of(line).for_real or nothing)(line)


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
    """A module, an example, an image's description."""
    module, file = re.search(r"-m ([\w.]+)|(\S+\.(?:py|sh)|Dockerfile)", " ".join([*words, "Dockerfile"])).groups()
    assert find_spec(module) if module else (ROOT / file).is_file()


def run_contained(words: Words) -> None:
    """What runs in the container."""
    inner = words[words.index(IMAGE) + 1 :]
    rule_of(inner).act(inner)


def is_a_command_of_wandb(words: Words) -> None:
    assert words[1] in import_module("wandb.cli.cli").cli.commands


def nothing(words: Words) -> None:
    pass


# In processes of their own.


def launch(words: Words) -> None:
    """The command with its runs made small, two ranks instead of more, and data that need no download."""
    words = [WITHOUT_DOWNLOAD.get(word, word) for word in words]
    words = [re.sub(r"((--nproc-per-node|--ntasks|ranks)=)\d+", r"\g<1>2", word) for word in words]
    if "-m" in words:
        words = [*small(words), "threads=1"]
    # A sweep's own process reads conf/, which here has the page's files too; its runs are processes all the same.
    (call if words[0] == "python" else execute)(words)


def launch_whole(words: Words) -> None:
    """The command with its run made small, of as many ranks as it has workers."""
    execute([*small(words), "threads=1"])


def launch_on_both(words: Words) -> None:
    """The first machine's command and the second's, both on this one."""
    port = free_port()
    here = {"--nproc-per-node=4": "--nproc-per-node=1", "--master-addr=node0": "--master-addr=127.0.0.1",
            "--master-port=29500": f"--master-port={port}"}  # fmt: skip
    with ThreadPoolExecutor() as machines:
        list(machines.map(lambda node: launch([here.get(word, word.replace("rank=0", node)) for word in words]),
                          ["rank=0", "rank=1"]))  # fmt: skip


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def execute(words: Words) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@dataclass(frozen=True)
class Rule:
    """What is done with commands that a pattern matches: in this process, and for real in the slow tests.

    `instead` says why the fast tests do not run the command as it stands, but for settings that make it small.
    """

    pattern: str
    act: Act
    instead: str = ""
    for_real: Act | None = None


RULES = [
    Rule(r"python -m experiments\.run .*--cfg job", call),
    Rule(r"python -m experiments\.run .*hydra/launcher=submitit_slurm", configure_first, "there is no SLURM here"),
    Rule(r"python -m experiments\.run .*hydra/(launcher|sweeper)=", configure_first, "starts processes", launch),
    Rule(r"python -m experiments\.run .*dry_run=true", call),
    Rule(r"python -m experiments\.run (-m |.*(sweep|ranks)=)", plan, "starts processes", launch),
    Rule(r"python -m experiments\.run .*logger=wandb", configure, "wandb takes seconds", launch),
    Rule(r"python -m experiments\.run ", call_small),
    Rule(r"python -m experiments\.redraw ", is_there, "test_reference_reports.py redraws them"),
    Rule(r"python -m experiments\.reproduce .*jobs=", plan_one, "starts processes", launch),
    Rule(r"python -m experiments\.reproduce ", plan_one, "takes seconds", call_small),
    Rule(r"python -m experiments\.dashboard", define, "an account: the page is written to a file"),
    Rule(r"python -m experiments\.check ", find, "takes a second", call),
    Rule(r"python -m (experiments\.(status|report|network_time)|plots\.plot) ", call),
    Rule(r"python -m data ", fetch),
    Rule(r"python -m pytest ", is_there, "the tests themselves"),
    Rule(r"torchrun --nnodes=2 .*\.py ", is_there, "a second machine"),
    Rule(r"torchrun --nnodes=2 --node-rank=0", configure_launched, "a second machine", launch_on_both),
    Rule(r"torchrun --nnodes=2 --node-rank=1", configure_launched, "started by the slow test of the first machine's"),
    Rule(r"(torchrun|srun) .*-m experiments\.run ", configure_launched, "starts processes", launch),
    Rule(r"torchrun .*-m experiments\.external .*=exo_", check_strategy, "another program"),
    Rule(r"torchrun .*-m experiments\.external ", check_strategy, "starts processes", launch_whole),
    Rule(r"torchrun .*\.py ", is_there, "starts processes", launch),
    Rule(r"bash benchmarks/gpu\.sh ", is_there, "a GPU, or minutes: test_gpu_list.py rehearses it"),
    Rule(r"make ", make, "what it would run is tested in its place", make_for_real),
    Rule(r"wandb (login|sync|sweep|agent|artifact) ", is_a_command_of_wandb, "an account"),
    Rule(r"tensorboard ", nothing, "a page that waits for a browser"),
    Rule(r"docker build ", is_there, "minutes, and a network"),
    Rule(r"docker run ", run_contained, "there is no image: what is to run in it is run here"),
    Rule(r"source \.venv/bin/activate ", nothing, "what `make setup` leaves; the tests run in it"),
]


def rule_of(words: Words) -> Rule:
    """The first whose pattern the command matches. Fails for a command that no rule knows."""
    for rule in RULES:
        if re.match(rule.pattern, shlex.join(words) + " "):
            return rule
    raise AssertionError(f"no rule for {shlex.join(words)}")


@pytest.fixture(scope="session")
def small_results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A results folder with the runs that pages look at."""
    return small_runs(tmp_path_factory.mktemp("documented") / "results")


@pytest.fixture
def place(small_results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder in which a command is run."""
    known = set(sys.modules)
    furnish(tmp_path, small_results, monkeypatch)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.partition(".")[0] in OF_READERS:
            del sys.modules[name]


def follow(act: Act, command: Command, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what a rule says, and compare the exit status with what the page says of it."""
    lay_out(command.page, place)
    for name, value in command.variables.items():
        monkeypatch.setenv(name, value)
        if name == "PYTHONPATH":  # seen from the project's root
            monkeypatch.setenv(name, os.pathsep.join([value, str(place), str(ROOT)]))
            monkeypatch.syspath_prepend(value)
    status = 0
    try:
        act(command.words)
    except SystemExit as stop:
        status = stop.code or 0
    assert status == command.status, command.text


@pytest.mark.parametrize("command", DIFFERENT, ids=str)
def test_a_command_is_right(command, place, monkeypatch):
    follow(rule_of(command.words).act, command, place, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("command", [command for command in DIFFERENT if rule_of(command.words).for_real], ids=str)
def test_a_command_runs(command, place, monkeypatch):
    follow(rule_of(command.words).for_real, command, place, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if sessions(page)], ids=lambda page: page.name)
def test_what_a_page_shows_is_printed(page, place, monkeypatch):
    """Line by line, but for numbers, ids and what a page leaves out by an ellipsis."""
    shutil.rmtree(place / "results")
    lay_out(page, place)
    for block, shown in sessions(page):
        for command in block:
            words = recipe(command.words)[0] if command.words[0] == "make" else command.words
            said = [_plain(line) for line in printed([sys.executable, *with_files(words)[1:]], columns=110)]
        for line in shown.splitlines():
            pattern = ".*".join(map(re.escape, _plain(line).split("…")))
            assert any(re.fullmatch(pattern, other) for other in said), (str(command), line, said)


def _plain(line: str) -> str:
    """A line with every id and every number the same, and single spaces."""
    line = re.sub(r"\b[0-9a-f]{12}\b|\b\d[\d.]*(e-?\d+)?", "0", line)
    return " ".join(line.split())


def test_a_command_that_no_rule_knows_fails():
    with pytest.raises(AssertionError, match="no rule for rm"):
        rule_of(["rm", "-r", "results"])


def test_no_rule_is_idle():
    lines = [line for command in SHOWN if command.words[0] == "make" for line in recipe(command.words)]
    used = {rule_of(words).pattern for words in [*(command.words for command in SHOWN), *lines]}
    assert used == {rule.pattern for rule in RULES}
