"""What the README shows works."""

from __future__ import annotations

import gzip
import re
import shlex
from pathlib import Path

import pytest
import torch

from experiments.run import main

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text()


def _blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


COMMANDS = [
    line.partition("#")[0].strip()
    for block in _blocks("sh")
    for line in block.splitlines()
    if line.startswith("python -m experiments.run")
]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_are_valid(command, monkeypatch, tmp_path, capsys):
    with gzip.open(tmp_path / "my.svm.gz", "wb") as file:
        file.write(b"+1 1:0.5\n-1 2:1\n")
    monkeypatch.chdir(tmp_path)
    arguments = shlex.split(command)[3:]
    main(arguments if "--cfg" in arguments else [*arguments, "--cfg", "job"])
    assert "_target_: algorithms." in capsys.readouterr().out


def test_there_are_commands_and_targets_to_check():
    assert len(COMMANDS) >= 5
    targets = re.findall(r"^([a-z0-9%-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = set(re.findall(r"\bmake ([a-z0-9-]+)", README)) - {"alone", "and"}
    assert {"demo", "test"} <= named
    for name in named:
        assert name in targets or (name.startswith("reproduce-") and "reproduce-%" in targets)


def test_links_point_at_files():
    for link in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / link).exists(), link


def test_the_example_compressor_keeps_the_contract():
    [code] = [block for block in _blocks("python") if "class Top1" in block]
    namespace: dict = {"__name__": "example"}
    exec(compile(code, "README.md", "exec", dont_inherit=True), namespace)
    compressor = namespace["Top1"]()
    x = torch.tensor([[0.5, -3.0, 1.0], [0.0, 0.0, 0.0]])
    assert compressor(x).tolist() == [[0.0, -3.0, 0.0], [0.0, 0.0, 0.0]]
    assert 8 * sum(tensor.nbytes for tensor in compressor.encode(x[0])) == compressor.bits(3) == 64


def test_the_lines_for_a_training_loop_of_your_own_run():
    [code] = [block for block in _blocks("python") if "CompressedOptimizer" in block]
    namespace = {"model": torch.nn.Linear(3, 2)}
    exec(compile(code, "README.md", "exec", dont_inherit=True), namespace)
    namespace["model"](torch.ones(1, 3)).sum().backward()
    namespace["optimizer"].step()
    assert namespace["optimizer"].meter.bits == 2 * (8 + 32)


@pytest.mark.parametrize("group", ["algorithm", "compressor", "update"])
def test_the_choices_in_the_table_of_keys_exist(group):
    [row] = [line for line in README.splitlines() if line.startswith(f"| `{group}` |")]
    names = re.findall(r"`(\w+)`", row.partition("|")[2].partition("|")[2])
    assert len(names) >= 4
    for name in names:
        assert (ROOT / "conf" / group / f"{name}.yaml").exists(), name
