"""The example of a user's package: every command of its README runs, and leaves what it should."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from experiments.check import main as check
from experiments.run import main as run

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
README = (EXAMPLES / "my_package" / "README.md").read_text()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


COMMANDS = [line for block in _blocks("sh") for line in block.splitlines()]


def _commands(start: str) -> list[str]:
    """What follows `start` in the commands that start with it."""
    begin = f"PYTHONPATH=examples {start} "
    return [line.removeprefix(begin) for line in COMMANDS if line.startswith(begin)]


CHECKS = _commands("python -m experiments.check")
RUNS = [command for command in _commands("python -m experiments.run") if not command.startswith("-m")]
SWEEPS = [command.removeprefix("-m ") for command in _commands("python -m experiments.run") if command not in RUNS]
TOGETHER = _commands("torchrun")


@pytest.fixture
def my_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As PYTHONPATH=examples has it, in this process."""
    threads = torch.get_num_threads()
    monkeypatch.syspath_prepend(EXAMPLES)
    yield
    torch.set_num_threads(threads)


def _finished(results: Path) -> dict[str, list[dict]]:
    """The rows of every run, all of which are finished, by task and algorithm."""
    found = {}
    for file in results.rglob("status.json"):
        assert json.loads(file.read_text())["status"] == "finished"
        name = str(file.parent.parent.relative_to(results))
        found[name] = [json.loads(line) for line in (file.parent / "metrics.jsonl").read_text().splitlines()]
    return found


def _started(*command: str) -> None:
    """A command in a process of its own, as in a shell."""
    ended = subprocess.run(
        command, cwd=ROOT, env=os.environ | {"PYTHONPATH": "examples"}, capture_output=True, text=True
    )
    assert ended.returncode == 0, ended.stderr


def test_every_command_is_of_a_kind_that_is_tried() -> None:
    assert len(CHECKS) + len(RUNS) + len(SWEEPS) + len(TOGETHER) == len(COMMANDS)
    assert all((CHECKS, RUNS, SWEEPS, TOGETHER))


@pytest.mark.parametrize("command", CHECKS)
def test_it_conforms(command: str, my_package: None, capsys: pytest.CaptureFixture) -> None:
    check(shlex.split(command))
    assert re.fullmatch(r"none of \d+ checks failed", capsys.readouterr().out.splitlines()[-1])


@pytest.mark.parametrize("command", RUNS)
def test_it_runs(command: str, my_package: None, tmp_path: Path) -> None:
    run([*shlex.split(command), f"results_dir={tmp_path}"])
    [(name, rows)] = _finished(tmp_path).items()
    chosen = dict(option.split("=", 1) for option in shlex.split(command))
    assert name == f"{chosen['task']}/{chosen.get('algorithm', 'cd_adam')}"
    assert rows[-1]["round"] == int(chosen["rounds"])
    assert rows[-1]["train_loss"] < rows[0]["train_loss"]


@pytest.mark.slow
@pytest.mark.parametrize("command", SWEEPS)
def test_it_is_swept(command: str, tmp_path: Path) -> None:
    options = [*shlex.split(command), f"results_dir={tmp_path}"]
    _started(sys.executable, "-m", "experiments.run", "-m", *options)
    assert set(_finished(tmp_path)) == {"robust_wine/ef21", "robust_wine/ef21_momentum"}


@pytest.mark.slow
@pytest.mark.parametrize("command", TOGETHER)
def test_two_ranks_run_it_as_one_process_does(command: str, tmp_path: Path, my_package: None) -> None:
    together, alone = tmp_path / "together", tmp_path / "alone"
    torchrun = str(Path(sys.executable).parent / "torchrun")
    _started(torchrun, *shlex.split(command), f"results_dir={together}")
    run([*shlex.split(command.partition("experiments.run ")[2]), "threads=1", f"results_dir={alone}"])
    without = [
        {name: [row | {"seconds": 0} for row in rows] for name, rows in _finished(place).items()}
        for place in (together, alone)
    ]
    assert without[0] == without[1]


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("compressor=block_sign", "compressor=block_sign: no such choice"),
        ("compressor._target_=my_package.compressor.BlockSign", "let in by packages=[my_package]"),
    ],
)
def test_without_being_let_in_it_is_refused(
    choice: str, message: str, my_package: None, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    with pytest.raises(SystemExit) as stop:
        run([choice, "task=logreg/breast_cancer", "rounds=5", f"results_dir={tmp_path}"])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_test_it_shows_passes(tmp_path: Path) -> None:
    [code] = _blocks("python")
    (tmp_path / "test_mine.py").write_text(code)
    _started(sys.executable, "-m", "pytest", "-c", os.devnull, "--strict-markers", str(tmp_path))


def test_links_point_at_files() -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", README):
        assert (EXAMPLES / "my_package" / link).exists(), link


# What the examples compute, by plain loops


def test_block_signs_are_scaled_signs_of_blocks(my_package: None) -> None:
    from my_package.compressor import BlockSign

    x = torch.randn(2, 11, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = torch.zeros_like(x)
    for row in range(2):
        for begin in (0, 4, 8):
            block = x[row, begin : begin + 4]
            expected[row, begin : begin + 4] = block.abs().mean() * block.sign()
    torch.testing.assert_close(BlockSign(block=4)(x), expected)
    assert BlockSign(block=4).bits(11) == 11 + 3 * 32
    with pytest.raises(ValueError, match="block=0"):
        BlockSign(block=0)


def test_workers_send_an_average_of_their_gradients(my_package: None) -> None:
    from my_package.algorithm import ef21_momentum

    from algorithms.compressors import Identity
    from algorithms.updates import SGD
    from experiments.cluster.simulated import Simulated

    cluster = Simulated(ef21_momentum(Identity(), SGD(), eta=0.25), 2, seed=0)
    x = torch.zeros(1, 3, dtype=torch.float64)
    state, m, expected = cluster.start(x), None, x[0]
    for t in range(1, 6):
        gradients = torch.randn(1, 2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(t))
        m = gradients[0] if m is None else 0.75 * m + 0.25 * gradients[0]
        expected = expected - 0.1 * m.mean(0)
        state = cluster.round(gradients, state, 0.1, t)
        torch.testing.assert_close(state.replica.x[0], expected)
    with pytest.raises(ValueError, match="eta=0"):
        ef21_momentum(Identity(), SGD(), eta=0)


def test_the_robust_loss_is_cauchys(my_package: None) -> None:
    from my_package.dataset import wine
    from my_package.task import RobustRegression

    dataset = wine()
    task = RobustRegression(dataset, workers=178, seed=0, scale=0.7)  # so many that each has one row
    x = torch.linspace(-1, 1, 13, dtype=torch.float64)
    residuals = torch.from_numpy(dataset.labels - dataset.features.toarray() @ x.numpy())
    expected = (0.7**2 / 2 * torch.log(1 + residuals**2 / 0.7**2)).mean()
    measured = task.evaluate(x[None], task.start_statistics()[None, 0])
    assert measured["train_loss"].item() == pytest.approx(expected.item(), rel=1e-12)
    assert (dataset.labels == 1).sum() == 71
