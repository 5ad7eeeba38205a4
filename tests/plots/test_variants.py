"""Runs of one method that differ in settings are told apart, those that do not are one curve."""

import colorsys
from pathlib import Path

import pytest
from folder_support import folder, rewrite
from matplotlib.colors import to_rgb
from renewing import renew

from common.errors import UsageError
from plots.runs.find import choose_runs, find, select
from plots.runs.read import table
from plots.runs.variants import DASHES, distinguish, keep_ended, variant_rows


def labels(place: Path) -> dict[str, str]:
    """What each run's curve is called, by the folder's name."""
    return {variant.run.folder.name: variant.label for variant in distinguish(choose_runs(place))}


TOP_K = {"_target_": "algorithms.compressors.TopK"}
COPIES = {"update__weight_decay": 0.0, "algorithm__uplink_only": False}


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        ([{}, {"algorithm": "noisy", "compressor__ratio": 0.1}], ["Plain", "Noisy"]),
        (
            [{"task__batch_size": None}, {"task__batch_size": 16, "algorithm": "noisy", "compressor__norm": "l2"}],
            ["Plain, task.batch_size=null", "Noisy, task.batch_size=16"],
        ),
        (
            [{"compressor__ratio": 0.05}, {"compressor__ratio": 0.016}, {"compressor__ratio": 0.05, "rounds": 200}],
            ["Plain, rounds=100, compressor.ratio=0.05", "Plain, rounds=100, compressor.ratio=0.016",
             "Plain, rounds=200, compressor.ratio=0.05"],
        ),
        ([{}, {"compressor__norm": "l2", "algorithm": "noisy"}, {"rounds": 200, "task": "other"}],
         ["Plain", "Noisy", "Plain"]),
        (
            [{}, {"compressor": TOP_K | {"ratio": 0.05}}, {"compressor": TOP_K | {"ratio": 0.1}}],
            ["Plain, compressor=ScaledSign", "Plain, compressor=TopK, compressor.ratio=0.05",
             "Plain, compressor=TopK, compressor.ratio=0.1"],
        ),
        (
            [{"compressor": TOP_K}, {"compressor": {"_target_": "mine.top.TopK"}}],
            ["Plain, compressor=algorithms.compressors.TopK", "Plain, compressor=mine.top.TopK"],
        ),
        (
            [{"task__model": None}, {"task__model": {"_target_": "mine.Net", "width": 8}}],
            ["Plain, task.model=null", "Plain, task.model=Net"],
        ),
        ([{}, {"task__options": {"depth": 2}}], ["Plain", "Plain, task.options.depth=2"]),
        (
            [{"task__dataset": {"file": "data", "sha256": digits}} for digits in ("0123456789", "9876543210")],
            ["Plain, task.dataset.sha256=01234567", "Plain, task.dataset.sha256=98765432"],
        ),
        ([{}, {"cluster__workers": 8, "task__dataset__workers": 8}],
         ["Plain, cluster.workers=4", "Plain, cluster.workers=8"]),
        ([COPIES, COPIES | {"weight_decay": 0.5, "update__weight_decay": 0.5}],
         ["Plain, weight_decay=0", "Plain, weight_decay=0.5"]),
        ([COPIES, COPIES | {"update__weight_decay": 0.5}],
         ["Plain, update.weight_decay=0", "Plain, update.weight_decay=0.5"]),
        ([COPIES, COPIES | {"algorithm__uplink_only": True}],
         ["Plain, algorithm.uplink_only=false", "Plain, algorithm.uplink_only=true"]),
        ([{}, {"eval_every": None}], ["Plain, eval_every=10", "Plain, eval_every=null"]),
    ],
    ids=["methods", "between methods", "what differs", "tasks apart", "classes", "classes of one name",
         "nothing and a group", "a group without a class", "a file's content", "workers",
         "a copy", "no copy", "true and false", "null"],
)  # fmt: skip
def test_names_say_what_differs(tmp_path, runs, names):
    for letter, settings in zip("abc", runs, strict=False):
        folder(tmp_path, letter, **settings)
    assert [name for _, name in sorted(labels(tmp_path).items())] == names


@pytest.mark.parametrize(
    "settings",
    [
        {"lrs": (0.3,)},
        {"seed": 1},
        {"results_dir": "elsewhere", "task__data_dir": "elsewhere"},
        {"threads": 4, "device": "cuda", "checkpoint_every": 7, "study": "mine", "packages": ["mine"]},
        {"logger___target_": "experiments.loggers.Some", "logger__project": "mine"},
        {"cluster__timeout": 5},
        {"cluster__groups": None},  # older runs have no such key
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


def test_variants_have_shades_of_their_method_in_order_of_value_and_differ_in_dashes(tmp_path):
    for ratio in (0.25, 1.0, 0.016, 0.0625):
        folder(tmp_path, f"toy-{ratio}", algorithm="noisy", compressor__ratio=ratio)
        folder(tmp_path, f"other-{ratio}", algorithm="noisy", task="other", compressor__ratio=ratio)
    looks = [(one.label.rpartition("=")[2], one.dash, one.color) for one in keep_ended(distinguish(find(tmp_path)))]
    assert looks[:4] == looks[4:]  # on both tasks alike
    assert [(ratio, dash) for ratio, dash, _ in looks[:4]] == [("0.016", 0), ("0.0625", 1), ("0.25", 2), ("1", 3)]
    shades = [colorsys.rgb_to_hls(*to_rgb(color)) for *_, color in looks[:4]]
    assert [light for _, light, _ in shades] == sorted({light for _, light, _ in shades}, reverse=True)
    assert {round(hue, 2) for hue, _, _ in shades} == {round(colorsys.rgb_to_hls(*to_rgb("#cc0000"))[0], 2)}
    assert len(set(DASHES)) == len(DASHES)


def test_the_last_run_with_the_same_settings_stands(tmp_path):
    folder(tmp_path, "a", time="2026-01-03T00:00:00+00:00")
    folder(tmp_path, "b", time="2026-01-02T00:00:00+00:00")
    folder(tmp_path, "c", time="2026-01-04T00:00:00+00:00", status="running", reached=50)
    assert list(labels(tmp_path)) == ["a"]


def test_step_sizes_of_several_runs_become_one_grid(tmp_path):
    early, late = "2026-01-02T00:00:00+00:00", "2026-01-03T00:00:00+00:00"
    folder(tmp_path, "a", lrs=(0.1, 0.2), time=early)
    folder(tmp_path, "b", lrs=(0.2, 0.3), time=late)
    stood = {variant.run.folder.name: variant for variant in distinguish(find(tmp_path))}
    assert {name: variant.lrs for name, variant in stood.items()} == {"a": (0.1,), "b": (0.2, 0.3)}
    assert set(variant_rows([stood["a"]])["lr"]) == {0.1}
    assert set(variant_rows([stood["a"]])["trials"]) == {2}  # which the run's time was shared by


def test_what_is_not_a_run_is_not_found(tmp_path):
    folder(tmp_path, "a")
    (tmp_path / "figures" / "x").mkdir(parents=True)
    begun = folder(tmp_path, "begun")
    (begun / "metrics.jsonl").write_text("")
    (begun / "status.json").write_text('{"status": "running"}')
    renew(begun)
    (begun / "metrics.jsonl").write_text('{"round": 0')
    assert list(labels(tmp_path)) == ["a"]
    assert find(tmp_path / "nowhere") == []


def test_the_rows_of_a_run(tmp_path):
    path = folder(tmp_path, "a", status="interrupted", reached=50)
    (path / "environment.json").write_text("{}")
    rewrite(path, lambda row: row | {"wall_time": 1700000000.5})
    [run] = find(tmp_path)
    assert table([run])["d"].isna().all()  # a task need not say how many parameters it has
    with (path / "metrics.jsonl").open("a") as file:
        file.write('{"round": 110, "wa')  # a row that is being written
    [run] = find(tmp_path)
    assert run.rows["wall_time"].tolist() == [1700000000.5] * 6  # a number, though its name is a date's
    assert "crc32" not in run.rows


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
