"""Runs of one method that differ in settings are told apart, those that do not are one curve."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import pytest
from folder_support import folder

from common.errors import UsageError
from plots.figure.curves import draw
from plots.figure.spec import Panel
from plots.runs.find import find, select, with_rows
from plots.runs.variants import DASHES, settled, tell_apart


def labels(place: Path) -> dict[str, str]:
    """What each run's curve is called, by the folder's name."""
    return {variant.run.folder.name: variant.label for variant in tell_apart(with_rows(find(place)))}


def test_a_method_run_once_is_called_by_its_name(tmp_path):
    folder(tmp_path, "a")
    folder(tmp_path, "b", algorithm="noisy", compressor__ratio=0.1)
    assert labels(tmp_path) == {"a": "Plain", "b": "Noisy"}


def test_what_differs_between_methods_is_named_unless_it_is_of_the_methods(tmp_path):
    folder(tmp_path, "a", task__batch_size=None)
    folder(tmp_path, "b", task__batch_size=16, algorithm="noisy", compressor__norm="l2")
    assert labels(tmp_path) == {"a": "Plain, task.batch_size=null", "b": "Noisy, task.batch_size=16"}


def test_only_what_differs_is_named(tmp_path):
    folder(tmp_path, "a", compressor__ratio=0.05, rounds=100)
    folder(tmp_path, "b", compressor__ratio=0.016, rounds=100)
    folder(tmp_path, "c", compressor__ratio=0.05, rounds=200)
    assert labels(tmp_path) == {
        "a": "Plain, rounds=100, compressor.ratio=0.05",
        "b": "Plain, rounds=100, compressor.ratio=0.016",
        "c": "Plain, rounds=200, compressor.ratio=0.05",
    }


def test_each_task_and_method_is_looked_at_apart(tmp_path):
    folder(tmp_path, "a", rounds=100)
    folder(tmp_path, "b", compressor__norm="l2", algorithm="noisy")
    folder(tmp_path, "c", rounds=200, task="other")
    assert set(labels(tmp_path).values()) == {"Plain", "Noisy"}


def test_a_class_stands_for_its_group(tmp_path):
    folder(tmp_path, "a")
    folder(tmp_path, "b", compressor={"_target_": "algorithms.compressors.TopK", "ratio": 0.05})
    folder(tmp_path, "c", compressor={"_target_": "algorithms.compressors.TopK", "ratio": 0.1})
    assert labels(tmp_path) == {
        "a": "Plain, compressor=ScaledSign",
        "b": "Plain, compressor=TopK, compressor.ratio=0.05",
        "c": "Plain, compressor=TopK, compressor.ratio=0.1",
    }


@pytest.mark.parametrize(
    "settings",
    [
        {"lrs": (0.3,)},
        {"seed": 1},
        {"results_dir": "elsewhere", "task__data_dir": "elsewhere"},
        {"threads": 4, "device": "cuda", "checkpoint_every": 7, "study": "mine", "packages": ["mine"]},
        {"logger___target_": "experiments.loggers.Some", "logger__project": "mine"},
        {"cluster__timeout": 5},
        {"algorithm__display": {"label": "Plain", "color": "#00ff00", "marker": "x"}},
        {"epochs": 10.0},
        {"task__cuda_graphs": True},
        {"task__dataset__file": "moved", "seed": 1},
    ],
    ids=lambda settings: ",".join(settings),
)
def test_what_no_curve_depends_on_tells_none_apart(tmp_path, settings):
    data = {"task__dataset__sha256": "456", "task__dataset__file": "here"}
    folder(tmp_path, "a", **data, task__cuda_graphs=False)
    folder(tmp_path, "b", **data | settings)
    assert set(labels(tmp_path).values()) == {"Plain"}


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"cluster__workers": 8, "task__dataset__workers": 8}, "cluster.workers=8"),
        ({"task__dataset__seed": 7}, "task.dataset.seed=7"),
        ({"weight_decay": 0.5, "update__weight_decay": 0.5}, "weight_decay=0.5"),
        ({"update__weight_decay": 0.5}, "update.weight_decay=0.5"),
        ({"algorithm__uplink_only": True}, "algorithm.uplink_only=true"),
        ({"eval_every": None}, "eval_every=null"),
    ],
)
def test_copies_of_shared_settings_are_not_named_and_others_are(tmp_path, settings, name):
    folder(tmp_path, "a", update__weight_decay=0.0, algorithm__uplink_only=False)
    folder(tmp_path, "b", **{"update__weight_decay": 0.0} | settings)
    names = labels(tmp_path)
    assert names["b"] == f"Plain, {name}"
    assert names["a"] not in ("Plain", names["b"])


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        (
            {"compressor": {"_target_": "algorithms.compressors.TopK"}},
            {"compressor": {"_target_": "mine.top.TopK"}},
            {"Plain, compressor=algorithms.compressors.TopK", "Plain, compressor=mine.top.TopK"},
        ),
        (
            {"task__model": None},
            {"task__model": {"_target_": "mine.Net", "width": 8}},
            {"Plain, task.model=null", "Plain, task.model=Net"},
        ),
        ({}, {"compressor__groups": 2}, {"Plain", "Plain, compressor.groups=2"}),
        ({}, {"task__options": {"depth": 2}}, {"Plain", "Plain, task.options.depth=2"}),
        (
            {"task__dataset__file": "data", "task__dataset__sha256": "0123456789"},
            {"task__dataset__file": "data", "task__dataset__sha256": "9876543210"},
            {"Plain, task.dataset.sha256=01234567", "Plain, task.dataset.sha256=98765432"},
        ),
    ],
    ids=["classes of one name", "nothing and a group", "an option", "a group without a class", "a file's content"],
)
def test_what_differs_at_all_makes_curves_of_their_own(tmp_path, one, other, names):
    folder(tmp_path, "a", **one)
    folder(tmp_path, "b", **other)
    assert set(labels(tmp_path).values()) == names


def test_variants_share_a_colour_and_differ_in_dashes(tmp_path):
    for ratio in (0.01, 0.02, 0.03):
        folder(tmp_path, f"toy-{ratio}", compressor__ratio=ratio)
        folder(tmp_path, f"other-{ratio}", task="other", compressor__ratio=ratio)
    variants = tell_apart(find(tmp_path))
    dashes = {
        variant.label: {other.dash for other in variants if other.label == variant.label} for variant in variants
    }
    assert sorted(dashes.values()) == [{0}, {1}, {2}]  # on both tasks alike
    frame = pd.concat(variant.frame() for variant in variants if variant.run.task == "toy")
    figure = draw(frame, [Panel(x="bits", y="grad_norm")], "")
    lines = figure.axes[0].get_lines()
    assert {line.get_color() for line in lines} == {"#111111"}
    assert len({str(line._dash_pattern) for line in lines}) == 3
    plt.close(figure)
    assert len(set(DASHES)) == len(DASHES)


def test_a_method_without_variants_somewhere_has_a_whole_line_there(tmp_path):
    for ratio in (0.1, 0.2):
        folder(tmp_path, f"r{ratio}", task="a_first_task", compressor__ratio=ratio)
    folder(tmp_path, "alone", task="toy")
    assert {variant.label: variant.dash for variant in tell_apart(find(tmp_path))} == {
        "Plain": 0, "Plain, compressor.ratio=0.1": 1, "Plain, compressor.ratio=0.2": 2
    }  # fmt: skip


def test_the_last_run_with_the_same_settings_stands(tmp_path):
    folder(tmp_path, "a", time="2026-01-03T00:00:00+00:00")
    folder(tmp_path, "b", time="2026-01-02T00:00:00+00:00")
    folder(tmp_path, "c", time="2026-01-04T00:00:00+00:00", status="running", reached=50)
    assert list(labels(tmp_path)) == ["a"]


def test_step_sizes_of_several_runs_become_one_grid(tmp_path):
    early, late = "2026-01-02T00:00:00+00:00", "2026-01-03T00:00:00+00:00"
    folder(tmp_path, "a", lrs=(0.1, 0.2), time=early)
    folder(tmp_path, "b", lrs=(0.2, 0.3), time=late)
    stood = {variant.run.folder.name: variant for variant in tell_apart(find(tmp_path))}
    assert {name: variant.lrs for name, variant in stood.items()} == {"a": (0.1,), "b": (0.2, 0.3)}
    assert set(stood["a"].frame()["lr"]) == {0.1}
    assert set(stood["a"].frame()["trials"]) == {2}  # which the run's time was shared by


def test_finished_runs_are_drawn_and_where_none_is_the_one_that_came_furthest(tmp_path):
    folder(tmp_path, "a", seed=0)
    folder(tmp_path, "b", seed=1, status="running", reached=50)
    folder(tmp_path, "c", algorithm="noisy", seed=0, status="failed", reached=20)
    folder(tmp_path, "d", algorithm="noisy", seed=1, status="interrupted", reached=30)
    chosen = settled(tell_apart(find(tmp_path)))
    assert {variant.run.folder.name for variant in chosen} == {"a", "d"}


def test_what_is_not_a_run_is_not_found(tmp_path):
    folder(tmp_path, "a")
    (tmp_path / "figures" / "x").mkdir(parents=True)
    begun = folder(tmp_path, "begun")
    (begun / "metrics.jsonl").write_text('{"round": 0')
    assert list(labels(tmp_path)) == ["a"]
    assert find(tmp_path / "nowhere") == []


def test_a_row_that_is_being_written_is_left_out(tmp_path):
    path = folder(tmp_path, "a")
    whole = find(tmp_path)[0].rows
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"round": 110, "tr')
    assert find(tmp_path)[0].rows.equals(whole)


@pytest.mark.parametrize(
    ("name", "text"),
    [("environment.json", "{"), ("environment.json", "[]"), ("config.yaml", ""), ("status.json", "1")],
)
def test_a_damaged_folder_is_named_and_left_out(tmp_path, capsys, name, text):
    folder(tmp_path, "whole")
    path = folder(tmp_path, "damaged")
    (path / name).write_text(text)
    assert {run.id: run.state for run in find(tmp_path)} == {"whole": "finished", "damaged": "damaged"}
    assert [run.id for run in with_rows(find(tmp_path))] == ["whole"]
    assert f"left out: {path}: not a whole run folder" in capsys.readouterr().err


def test_a_task_need_not_say_how_many_parameters_it_has(tmp_path):
    path = folder(tmp_path, "a")
    (path / "environment.json").write_text("{}")
    [run] = find(tmp_path)
    assert run.frame()["d"].isna().all()


def test_a_column_with_a_name_of_dates_holds_numbers(tmp_path):
    path = folder(tmp_path, "a")
    (path / "metrics.jsonl").write_text('{"round": 0, "wall_time": 1700000000.5}\n')
    [run] = find(tmp_path)
    assert run.rows["wall_time"].tolist() == [1700000000.5]


def test_damaged_rows_are_named(tmp_path):
    path = folder(tmp_path, "a")
    (path / "metrics.jsonl").write_text('{"round": 0\n{"round": 10}\n')
    [run] = find(tmp_path)
    with pytest.raises(ValueError, match=rf"{path}/metrics.jsonl: not rows of JSON"):
        _ = run.rows


def test_runs_are_selected_by_name(tmp_path):
    for algorithm in ("plain", "noisy"):
        for seed in (0, 1):
            folder(tmp_path, f"{algorithm}{seed}", algorithm=algorithm, seed=seed)
    runs = find(tmp_path)
    assert len(select(runs, tmp_path)) == 4
    assert {run.folder.name for run in select(runs, tmp_path, algorithm="noisy", seed="0,1")} == {"noisy0", "noisy1"}
    with pytest.raises(UsageError, match=r"algorithm=niosy: .*did you mean noisy\? Valid: noisy, plain"):
        select(runs, tmp_path, algorithm="niosy,plain")
    with pytest.raises(UsageError, match=r"task=tyo: .*did you mean toy"):
        select(runs, tmp_path, task="tyo")


def test_a_study_has_its_runs_and_those_that_its_sweep_found_finished(tmp_path):
    for name, study in (("a", "mine"), ("b", "other"), ("c", None)):
        folder(tmp_path, name, study=study)
    cells = tmp_path / "sweeps" / "my" / "sweep" / "cells.txt"
    cells.parent.mkdir(parents=True)
    cells.write_text("c\nnot-begun\n")
    runs = find(tmp_path)
    assert [run.folder.name for run in select(runs, tmp_path, study="mine")] == ["a"]
    assert [run.folder.name for run in select(runs, tmp_path, study="my/sweep")] == ["c"]
    with pytest.raises(UsageError, match=r"study=min: no run has it; did you mean mine\? Valid: mine, my/sweep"):
        select(runs, tmp_path, study="min")
