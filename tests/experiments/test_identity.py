"""What makes a run another run: its settings, its data, and the code that its configuration names."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest
from run_support import SMALL, SVMLIGHT, small

import experiments.config.identity
from experiments.config.identity import folder, identity
from experiments.config.run import load_run

SOURCE = '''
from dataclasses import dataclass

from algorithms.compressors import Identity


@dataclass(frozen=True)
class Mine(Identity):
    """A docstring."""

    def bits(self, d):
        return 7 * d
'''


@pytest.fixture
def identity_with(tmp_path, monkeypatch):
    """The identity of a run whose compressor has the given source."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would be stale: same size, same second

    def of(source: str) -> str:
        (tmp_path / "mine_compressor.py").write_text(source)
        sys.modules.pop("mine_compressor", None)
        experiments.config.identity._code.cache_clear()
        config = load_run(SMALL)
        config["compressor"] = {"_target_": "mine_compressor.Mine"}
        return identity(config)

    yield of
    experiments.config.identity._code.cache_clear()


def test_an_edit_makes_another_run_and_a_comment_does_not(identity_with):
    before = identity_with(SOURCE)
    assert identity_with(SOURCE) == before
    assert identity_with(SOURCE.replace('"""A docstring."""', '"""Another."""  # and a comment')) == before
    assert identity_with(SOURCE.replace("7 * d", "8 * d")) != before


@pytest.mark.parametrize(
    ("module", "matters"),
    [("models.initial", True), ("models.flat", True), ("tasks.augmentation", True), ("models.vgg", False)],
)
def test_an_edit_of_what_a_task_is_built_from_makes_another_run(module, matters, monkeypatch):
    config = load_run(["task=digits"])
    before = identity(config)
    read = inspect.getsource
    edited = f"experiments.{module}"
    monkeypatch.setattr(inspect, "getsource", lambda of: read(of) + ("edited = 1\n" if of.__name__ == edited else ""))
    experiments.config.identity._code.cache_clear()
    assert (identity(config) != before) == matters
    monkeypatch.undo()
    experiments.config.identity._code.cache_clear()
    assert identity(config) == before


def test_how_a_gpu_launches_kernels_is_no_other_run():
    one, other = (load_run(["task=digits", f"task.cuda_graphs={graphs}"]) for graphs in ("true", "false"))
    assert identity(one) == identity(other)
    assert identity(load_run(["task=digits", "task.precision=bf16"])) != identity(one)


def test_the_folder_is_named_by_task_algorithm_and_identity() -> None:
    config = small("results_dir=here")
    assert folder(config) == Path("here/logreg/breast_cancer/cd_adam", identity(config))
    assert len(identity(config)) == 12


@pytest.mark.parametrize(
    "override",
    [
        "results_dir=elsewhere",
        "data_dir=elsewhere",
        "checkpoint_every=7",
        "task.display.label=mine",
        "algorithm.display.color=red",
        "lr=[0.001]",
        "lr=1e-3",
        "seed=0",
        "compressor=scaled_sign",
        "update.beta1=0.90",
    ],
)
def test_identity_does_not_depend_on(override: str) -> None:
    assert identity(small(override)) == identity(small())


def test_identity_does_not_depend_on_where_pinned_data_lies() -> None:
    assert identity(load_run(["data_dir=/one"])) == identity(load_run(["data_dir=/other"]))


RELEVANT = [
    "lr=0.002",
    "lr=[0.001,0.002]",
    "lr=[0.002,0.001]",
    "lr_schedule=step_decay",
    "rounds=21",
    "eval_every=6",
    "seed=1",
    "cluster.workers=19",
    "algorithm=naive",
    "algorithm=error_feedback",
    "algorithm.uplink_only=true",
    "algorithm.dense_start=true",
    "compressor=top_k",
    "compressor.norm=l2",
    "update.beta1=0.8",
    "update.beta2=0.999",
    "update.nu=1e-6",
    "update.form=torch",
    "update.weight_decay=0.1",
    "task=logreg/digits",
    "task.regularization=0.2",
    "task.batch_size=4",
    "task.partition=shuffled",
    "task.partition=dirichlet",
    "task.alpha=0.1",
]


def test_identity_depends_on_everything_that_matters() -> None:
    everything = [identity(small(override)) for override in RELEVANT] + [identity(small())]
    assert len(set(everything)) == len(RELEVANT) + 1


@pytest.mark.parametrize("same", ["update.weight_decay=0", "task.regularization=1 task.regularization=1.0"])
def test_identity_does_not_depend_on_how_a_number_is_written(same: str) -> None:
    *one, other = same.split()
    assert identity(small(*one)) == identity(small(other))


def test_changed_content_of_a_file_is_another_run(file: Path) -> None:
    overrides = ["task=logreg/file", f"task.dataset.file={file}"]
    before = load_run(overrides)
    assert identity(load_run(overrides)) == identity(before)
    file.write_text(SVMLIGHT.replace("0.5", "0.25", 1))
    after = load_run(overrides)
    assert identity(after) != identity(before)
    assert before["task"]["dataset"]["sha256"] != after["task"]["dataset"]["sha256"]


def test_a_given_hash_of_a_file_is_kept(file: Path) -> None:
    config = load_run(["task=logreg/file", f"task.dataset.file={file}", f"task.dataset.sha256={'0' * 63}1"])
    assert config["task"]["dataset"]["sha256"] == "0" * 63 + "1"
