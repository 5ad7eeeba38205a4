"""What makes a run another run: its settings and its data."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from run_support import SMALL, SVMLIGHT, go, small

from experiments.config.compose import CONF
from experiments.config.identity import of as identity
from experiments.config.run import load_run


@pytest.mark.parametrize(
    "override",
    [
        "results_dir=elsewhere",
        "task.display.label=mine",
        "algorithm.display.color=red",
        "study=mine",
        "lr=[0.001]",
        "update.beta1=0.90",
    ],
)
def test_identity_does_not_depend_on(override: str) -> None:
    assert identity(small(override)) == identity(small())


RELEVANT = [
    "lr=0.002",
    "lr=[0.002,0.001]",
    "lr_schedule=step_decay",
    "clip_worker=1",
    "eval_every=6",
    "partition=layer",
    "seed=1",
    "cluster.workers=19",
    "algorithm=naive",
    "algorithm.uplink_only=true",
    "compressor=top_k",
    "update.beta1=0.8",
    "task=logreg/digits",
    "task.batch_size=4",
    "task.alpha=0.1",
]


def test_identity_depends_on_everything_that_matters() -> None:
    everything = [identity(small(override)) for override in RELEVANT] + [identity(small())]
    assert len(set(everything)) == len(RELEVANT) + 1


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("update.weight_decay=0", "update.weight_decay=0.0", True),
        ("task.regularization=1", "task.regularization=1.0", True),
        ("task=digits task.cuda_graphs=true", "task=digits task.cuda_graphs=false", True),
        ("task=digits task.precision=float32", "task=digits task.precision=bf16", False),
    ],
)
def test_settings_that_are_the_same(one: str, other: str, same: bool) -> None:
    assert (identity(small(*one.split())) == identity(small(*other.split()))) == same


def test_changed_content_of_a_file_is_another_run(file: Path) -> None:
    overrides = ["task=logreg/file", f"task.dataset.file={file}"]
    before = identity(load_run(overrides))
    assert identity(load_run(overrides)) == before
    file.write_text(SVMLIGHT.replace("0.5", "0.25", 1))
    assert identity(load_run(overrides)) != before


def test_where_a_class_of_this_project_is_defined_is_no_setting() -> None:
    run = small("compressor=top_k")
    elsewhere = replace(run, compressor=replace(run.compressor, target="algorithms.compressors.top_k.TopK"))
    assert identity(elsewhere) == identity(run)


def test_names_that_configurations_use_are_unique_within_their_package() -> None:
    """Since an id has these alone."""
    text = "".join(file.read_text() for file in CONF.rglob("*.yaml"))
    targets = set(re.findall(r"(?:_target_|/target@[\w.]+): ([\w.]+)", text))
    names = Counter((target.partition(".")[0], target.rpartition(".")[2]) for target in targets if "." in target)
    assert [name for name, count in names.items() if count > 1] == [("data", "load")]


def test_a_finished_run_gets_new_labels_and_stays_with_its_first_study(results: str) -> None:
    command = [*SMALL, results]
    path = go(*command, "study=first")
    assert go(*command, "study=second", "task.display.label=Mine") == path
    kept = yaml.safe_load((path / "config.yaml").read_text())
    assert (kept["study"], kept["task"]["display"]["label"]) == ("first", "Mine")
