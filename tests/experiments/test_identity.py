"""What makes a run another run: its settings, its data, and the code that its configuration names."""

from pathlib import Path

import pytest
import yaml
from run_support import SMALL, SVMLIGHT, go, small

from experiments.config.compose import CONF
from experiments.config.identity import changed, code, folder, settings
from experiments.config.identity import identity as of_settings
from experiments.config.identity import of as identity
from experiments.config.run import load_run


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
        "study=mine",
        "lr=[0.001]",
        "lr=1e-3",
        "compressor=scaled_sign",
        "update.beta1=0.90",
    ],
)
def test_identity_does_not_depend_on(override: str) -> None:
    assert identity(small(override)) == identity(small())


RELEVANT = [
    "lr=0.002",
    "lr=[0.001,0.002]",
    "lr=[0.002,0.001]",
    "lr_schedule=step_decay",
    "lr_final=0.2",
    "warmup_rounds=2",
    "clip_worker=1",
    "clip_aggregate=1",
    "rounds=21",
    "eval_every=6",
    "eval_early=true",
    "partition=layer",
    "seed=1",
    "cluster.workers=19",
    "algorithm=naive",
    "algorithm.uplink_only=true",
    "compressor=top_k",
    "update.beta1=0.8",
    "update.form=torch",
    "update.weight_decay=0.1",
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


def test_a_given_hash_of_a_file_is_kept(file: Path) -> None:
    run = load_run(["task=logreg/file", f"task.dataset.file={file}", f"task.dataset.sha256={'0' * 63}1"])
    assert run.task.options["dataset"]["sha256"] == "0" * 63 + "1"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1, "b": [2]}, {"b": [2.0], "a": 1.0}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": {"b": 1}}, {"a": {"b": 1.5}}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": 1}, {"a": "1"}, False),
        ({"a": None}, {}, False),
        ({"seed": 2**60}, {"seed": 2**60 + 1}, False),
        ({"a": 1e400}, {"a": 1e300}, False),
    ],
    ids=["written-otherwise", "order", "within", "flag", "text", "null", "large", "infinite"],
)
def test_settings_are_compared_by_value(one, other, same):
    assert (of_settings(one, {}) == of_settings(other, {})) == same


def test_code_is_part_of_the_identity_by_module_and_digest():
    before = {"algorithms.frozen": "1", "data.partition": "2"}
    assert of_settings({"a": 1}, before) == of_settings({"a": 1}, dict(reversed(before.items())))
    for after in ({**before, "algorithms.frozen": "3"}, {"algorithms.frozen": "1"}, {**before, "data.keyed": "1"}):
        assert of_settings({"a": 1}, after) != of_settings({"a": 1}, before)


def test_methods_from_elsewhere_have_rounds_of_their_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(CONF.parent / "examples"))
    ours = code(small("algorithm=cd_adam"))
    theirs = code(load_run(["packages=[strategies]", "algorithm=torch_powersgd", *SMALL]))
    own = {"experiments.elsewhere.record", "experiments.elsewhere.collectives", "experiments.elsewhere.strategy"}
    assert own <= set(theirs)
    assert not own & set(ours)
    assert "experiments.cluster.rank0" in ours
    assert "experiments.config.evaluations" in ours.keys() & theirs.keys()


def test_what_changed_is_said_in_words():
    old = {"algorithms.frozen": "1", "data.partition": "1", "experiments.training.__init__": "1", "data.keyed": "1"}
    new = {"algorithms.frozen": "2", "data.partition": "1", "experiments.training.__init__": "2", "data.digest": "1"}
    assert changed(old, new) == [
        "algorithms/frozen.py changed",
        "data/digest.py is new",
        "data/keyed.py is gone",
        "experiments/training/__init__.py changed",
    ]
    assert changed(old, old) == []


def test_a_run_is_its_settings_and_its_code():
    config = small()
    assert identity(config) == of_settings(settings(config), code(config))
    assert {"algorithms.channels", "experiments.training.trainer", "data.embedded"} <= set(code(config))


def test_a_finished_run_gets_new_labels_and_stays_with_its_first_study(results: str) -> None:
    command = [*SMALL, results]
    path = go(*command, "study=first")
    assert go(*command, "study=second", "task.display.label=Mine") == path
    kept = yaml.safe_load((path / "config.yaml").read_text())
    assert (kept["study"], kept["task"]["display"]["label"]) == ("first", "Mine")
