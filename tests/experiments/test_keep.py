"""Finished runs of older code, kept where the golden trajectories show that the numbers are the same."""

import json
import shutil
import subprocess
from contextlib import contextmanager
from functools import reduce
from operator import getitem
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from common.errors import RunError
from experiments import keep as command
from experiments.config import identity
from experiments.config.run import load_run, plain
from plots.runs.checksums import renew
from plots.runs.find import find
from plots.runs.read import open_run, verified

OLD = "0" * 16


@pytest.fixture
def golden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Golden trajectories that pass and are those of every commit, and use algorithms.channels."""
    monkeypatch.setattr(command, "check_golden", lambda: None)
    monkeypatch.setattr(command, "golden_code", lambda commit: {"algorithms.channels"})


@pytest.fixture
def finished(tmp_path: Path):
    """A finished run that was begun when the given modules were other ones."""

    def make(*modules: str, override: str = "seed=0", unknown: tuple[str, ...] = (), **environment: object) -> Path:
        """`unknown`: keys that there were none of then."""
        run = load_run(["task=logreg/breast_cancer", "rounds=20", f"results_dir={tmp_path}", *override.split()])
        code = identity.code(run) | dict.fromkeys(modules, OLD)
        config, settings = plain(run), identity.settings(run)
        for key in unknown:
            *inside, last = key.split(".")
            for node in (config, settings):
                del reduce(getitem, inside, node)[last]
        folder = identity.folder(run).with_name(identity.identity(settings, code))
        folder.mkdir(parents=True)
        (folder / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
        row = {
            "round": 20,
            "epoch": 20,
            "bits": 1,
            "bits_up": 1,
            "bits_down": 0,
            "seconds": 0.1,
            "lr": 0.001,
            "trial": 0,
        }
        (folder / "metrics.jsonl").write_text(json.dumps(row) + "\n")
        facts = {"commit": "abc", "uncommitted_changes": False, **environment}
        contents = {"environment": facts, "code": code, "summary": {}, "status": {"status": "finished"}}
        for name, content in contents.items():
            (folder / f"{name}.json").write_text(json.dumps(content))
        renew(folder)
        return folder

    return make


def test_a_run_of_older_code_gets_its_new_id_and_says_where_from(golden, finished, tmp_path, capsys):
    folder = finished("algorithms.channels")
    cells = tmp_path / "sweeps" / "mine" / "cells.txt"
    (cells.parent / "jobs").mkdir(parents=True)
    cells.write_text(f"{folder.name}\nfffffffffff0\n")
    shutil.copy(folder / "config.yaml", cells.parent / "jobs" / f"{folder.name}.yaml")
    before = open_run(folder).code
    command.main([str(tmp_path), "dry_run=true"])
    assert folder.exists()
    assert "would be kept as" in capsys.readouterr().out
    command.main([str(tmp_path)])
    [kept] = folder.parent.iterdir()
    assert f"{folder}: kept as {kept.name} (algorithms/channels.py changed)" in capsys.readouterr().out
    run = load_run(["task=logreg/breast_cancer", "rounds=20", f"results_dir={tmp_path}"])
    assert kept == identity.folder(run)
    assert verified(kept).code == identity.code(run)
    [entry] = json.loads((kept / "code.json").read_text())["kept"]
    assert (entry["from"], entry["code"]) == (folder.name, before)
    assert cells.read_text().split() == [kept.name, "fffffffffff0"]
    assert [one.folder for one in find(tmp_path)] == [kept]
    command.main([str(tmp_path)])
    assert kept.exists()
    assert "every finished run is of today's code" in capsys.readouterr().out


def test_what_golden_runs_do_not_show_is_not_kept(golden, finished):
    folder = finished("data.partition")
    assert "no golden run uses data.partition" in command.keep(open_run(folder), folder.parents[3])
    assert folder.exists()
    folder = finished("algorithms.channels", uncommitted_changes=True, override="seed=1")
    assert "commit abc is not here" in command.keep(open_run(folder), folder.parents[3])
    assert folder.exists()


@pytest.mark.parametrize("was_edited", [False, True])
def test_of_a_run_begun_beside_edits_its_own_modules_count(was_edited, golden, finished, monkeypatch):
    """The commit that it names has the code of `finished` but for the module that is another one today."""
    folder = finished("algorithms.channels", uncommitted_changes=True)
    run = open_run(folder)
    committed = run.code | ({"algorithms.protocol": OLD} if was_edited else {})

    @contextmanager
    def checked_out(commit: str):
        assert commit == "abc"
        yield Path()

    def python(root: Path, option: str, script: str, config: str) -> SimpleNamespace:
        assert json.loads(config) == run.config
        return SimpleNamespace(stdout=json.dumps(committed, sort_keys=True))

    monkeypatch.setattr(command, "_checked_out", checked_out)
    monkeypatch.setattr(command, "_python", python)
    said = command.keep(run, folder.parents[3])
    assert ("not kept: it was begun with code that was not committed" in said) == was_edited
    assert folder.exists() == was_edited


def test_a_run_from_before_golden_numbers_were_changed_is_not_kept(golden, finished, monkeypatch):
    def other(commit: str) -> frozenset[str]:
        raise RunError(f"commit {commit} gives other golden trajectories")

    monkeypatch.setattr(command, "golden_code", other)
    folder = finished("algorithms.channels")
    assert "not kept: commit abc gives other golden" in command.keep(open_run(folder), folder.parents[3])
    assert folder.exists()


def test_todays_trajectories_are_trained_with_the_code_of_a_commit(tmp_path, monkeypatch):
    """A project of one number: it changes, then stands under another name, then a second number is added."""
    golden = tmp_path / "tests" / "golden"
    golden.mkdir(parents=True)
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(command, "GOLDEN", golden)
    monkeypatch.setattr(command, "load_run", lambda case: case)
    monkeypatch.setattr(command.identity, "code", lambda case: {f"module.{case}": "1"})

    def git(*words: str) -> str:
        identity = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
        done = subprocess.run(["git", *identity, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    def commit(name: str, **numbers: int) -> str:
        (tmp_path / "numbers_of.py").write_text(f"{name} = {numbers}\n")
        (golden / "trained.py").write_text(f"from numbers_of import {name} as trained\n")
        (golden / "cases.py").write_text(f"CASES = {{'group': {dict(zip(numbers, numbers, strict=True))}}}\n")
        (golden / "test_golden.py").write_text(
            "from tests.golden.cases import CASES\nfrom tests.golden.trained import trained\n"
            f"def test_the_steps_are_those_recorded(group, name):\n    assert trained[name] == {numbers}[name]\n"
        )
        git("add", ".")
        git("commit", "-q", "-m", "numbers")
        return git("rev-parse", "HEAD")

    git("init", "-q")
    other, first, second, third = commit("A", x=2), commit("A", x=1), commit("B", x=1), commit("B", x=1, y=3)
    assert command.golden_code(first) == command.golden_code(second) == {"module.x"}
    assert command.golden_code(third) == {"module.x", "module.y"}
    with pytest.raises(RunError, match=f"commit {other} gives other golden trajectories than today's code"):
        command.golden_code(other)
    with pytest.raises(RunError, match="commit abc is not here"):
        command.golden_code("abc")


def test_a_run_of_other_settings_or_whose_place_is_taken_is_not_kept(golden, finished):
    folder = finished("algorithms.channels")
    other = folder.rename(folder.with_name("f" * 12))
    renew(other)
    assert "its settings give another id too" in command.keep(open_run(other), folder.parents[3])
    finished()
    renew(other.rename(folder))
    assert "is there" in command.keep(open_run(folder), folder.parents[3])


NEW = ("warmup_rounds", "clip_worker", "task.batch_size", "update.nu")


@pytest.mark.parametrize(("keys", "modules"), [(NEW, ("algorithms.channels",)), (NEW[:1], ())])
def test_a_run_from_before_there_was_a_key_is_kept_as_the_run_with_its_default(keys, modules, golden, finished):
    folder = finished(*modules, unknown=keys)
    today = identity.folder(load_run(["task=logreg/breast_cancer", "rounds=20"]))
    assert f"kept as {today.name}" in command.keep(open_run(folder), folder.parents[3])
    assert [kept.name for kept in folder.parent.iterdir()] == [today.name]
    assert command.keep(open_run(folder.with_name(today.name)), folder.parents[3]) == ""


def test_a_run_that_had_another_value_of_a_new_key_is_not_kept_as_the_default(golden, finished):
    """One in whose configuration the key was left out afterwards, and one that has it, of an id without."""
    folder = finished("algorithms.channels", override="warmup_rounds=3")
    config = yaml.safe_load((folder / "config.yaml").read_text())
    del config["warmup_rounds"]
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    renew(folder)
    assert "its settings give another id too" in command.keep(open_run(folder), folder.parents[3])
    older = finished("algorithms.channels", unknown=("warmup_rounds",), override="seed=1")
    config = yaml.safe_load((older / "config.yaml").read_text())
    (older / "config.yaml").write_text(yaml.safe_dump(config | {"warmup_rounds": 3}))
    renew(older)
    assert "its settings give another id too" in command.keep(open_run(older), older.parents[3])
    assert folder.exists()
    assert older.exists()


def test_a_run_of_another_value_is_kept_as_the_run_with_that_value(golden, finished):
    folder = finished("algorithms.channels", override="warmup_rounds=3 task.batch_size=5", unknown=("clip_worker",))
    run = load_run(["task=logreg/breast_cancer", "rounds=20", "warmup_rounds=3", "task.batch_size=5"])
    assert f"kept as {identity.of(run)}" in command.keep(open_run(folder), folder.parents[3])


@pytest.mark.parametrize(
    ("changes", "status", "message"),
    [
        (" M tests/golden/methods.json", 0, "not as it was committed"),
        (None, 0, "not as it"),
        ("", 1, "does not pass"),
    ],
    ids=["edited", "no-git", "failing"],
)
def test_without_golden_trajectories_nothing_is_kept(changes, status, message, finished, monkeypatch):
    monkeypatch.setattr(command, "git", lambda *words: changes)
    monkeypatch.setattr(
        subprocess, "run", lambda words, **how: subprocess.CompletedProcess(words, status, "1 failed")
    )
    command.check_golden.cache_clear()
    folder = finished("algorithms.channels")
    with pytest.raises(RunError, match=message):
        command.keep(open_run(folder), folder.parents[3])
    assert folder.exists()
