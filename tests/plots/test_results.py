"""Rows of runs as one table: its columns, best step sizes and bits to levels, against plain loops and the docs."""

import json
import math
import pickle
import re
from dataclasses import asdict
from pathlib import Path

import pytest
from folder_support import folder, rewrite

from common.errors import UsageError
from plots.runs import columns
from plots.runs.columns import Column, declare, default_metric, higher_is_better, in_words
from plots.runs.find import find
from plots.runs.results import Results, results

RATIOS = {"coarse": 0.25, "fine": 0.0625}


@pytest.fixture
def rows(tmp_path: Path) -> Results:
    """Two variants of one method with two step sizes and two seeds, and another method."""
    for name, ratio in RATIOS.items():
        for seed in (0, 1):
            folder(tmp_path, f"{name}{seed}", seed=seed, lrs=(0.1, 0.2), compressor__ratio=ratio)
    lrs = (0.1, 0.2, 0.3)
    folder(tmp_path, "other", algorithm="noisy", lrs=lrs, norm=lambda t, lr, seed: abs(lr - 0.2) + 1 / (1 + t))
    return results(find(tmp_path))


def written(place: Path) -> list[dict]:
    return [json.loads(line) for line in (place / "metrics.jsonl").read_text().splitlines()]


def test_every_row_has_the_settings_that_differ(rows: Results, tmp_path: Path) -> None:
    assert rows.settings == pickle.loads(pickle.dumps(rows)).settings == ["compressor.ratio"]
    assert list(rows)[:6] == ["task", "algorithm", "compressor", "seed", "compressor.ratio", "round"]
    for name in (*(f"{name}{seed}" for name in RATIOS for seed in (0, 1)), "other"):
        [place] = tmp_path.rglob(name)
        mine = rows[rows["run"] == name]
        assert mine["grad_norm"].tolist() == [row["grad_norm"] for row in written(place)]
        ratio = mine["compressor.ratio"].unique()
        assert math.isnan(ratio[0]) if name == "other" else ratio == RATIOS[name[:-1]]
    assert set(rows["algorithm"]) == {"plain", "noisy"}
    assert "plain, compressor.ratio=0.25" in set(rows["method"])


def test_the_best_step_sizes_and_what_they_came_to(rows: Results) -> None:
    best = rows.best().set_index("method")
    names = {"noisy", *(f"plain, compressor.ratio={ratio}" for ratio in RATIOS.values())}
    assert best["lr"].to_dict() == dict.fromkeys(names, 0.2)
    assert best["edge"].to_dict() == {name: name != "noisy" for name in best.index}
    assert set(best["compressor.ratio"].dropna()) == set(RATIOS.values())
    one = best.loc["plain, compressor.ratio=0.25"]
    ends = [0.8**100, 2 * 0.8**100]
    assert (one["final_low"], one["final_high"], one["seeds"]) == (ends[0], ends[1], 2)
    assert one["final"] == pytest.approx(math.sqrt(ends[0] * ends[1]))
    tenth = [seed * 0.8**t for seed in (1, 2) for t in (100,)]  # the one evaluation in the last tenth
    assert one["value"] == pytest.approx(math.exp(sum(map(math.log, tenth)) / len(tenth)))
    assert rows.best("train_accuracy")["final"].tolist() == pytest.approx([0.9] * 3)
    with pytest.raises(ValueError, match="gard_norm: no run has this metric"):
        rows.best("gard_norm")


def test_bits_to_a_level_by_direction(rows: Results, tmp_path: Path) -> None:
    [place] = tmp_path.rglob("other")
    rewrite(place, lambda row: row | {"bits_up": 7 * row["round"], "bits": 47 * row["round"]})
    rows = results(find(tmp_path))
    first = min(row["round"] for row in written(place) if row["grad_norm"] <= 0.05)
    some = rows[rows["algorithm"] == "noisy"]
    assert isinstance(some, Results)
    for x, each in (("bits", 47), ("bits_up", 7), ("round", 1)):
        found = some.bits_to("grad_norm", 0.05, x=x)
        assert found[x].tolist() == [each * first]
        assert found["lr"].tolist() == [0.2]
    both = rows.bits_to("grad_norm", [1.5, 1e-300])
    assert both.loc[both["level"] == 1e-300, "bits"].isna().all()
    with pytest.raises(UsageError, match="x=rounds: no such column; did you mean round"):
        rows.bits_to("grad_norm", 1.0, x="rounds")
    with pytest.raises(ValueError, match="no rows"):
        rows[rows["seed"] == 9].bits_to("grad_norm", 1.0)


def test_settings_that_tasks_do_not_share_are_columns_too(tmp_path: Path) -> None:
    folder(tmp_path, "a", task="a", rounds=100)
    folder(tmp_path, "b", task="b", rounds=200, task__batch_size=8)
    rows = results(find(tmp_path))
    assert rows.settings == ["rounds"]  # the batch size follows from the task
    assert rows.groupby("task")["rounds"].unique().map(list).to_dict() == {"a": [100], "b": [200]}
    assert set(rows["method"]) == {"plain"}


def test_null_and_a_class_are_values_of_one_setting(tmp_path: Path) -> None:
    folder(tmp_path, "a", lr_schedule=None)
    folder(tmp_path, "b", lr_schedule___target_="experiments.training.schedules.step_decay")
    rows = results(find(tmp_path))
    assert rows.settings == ["lr_schedule"]
    assert rows.best()["lr_schedule"].dropna().tolist() == ["step_decay"]


def test_a_seed_that_ends_at_zero_makes_the_mean_zero_and_only_seeds_of_the_step_size_count(tmp_path: Path) -> None:
    for seed in (0, 1):
        folder(tmp_path, f"a{seed}", seed=seed, norm=lambda t, lr, seed: float(seed or t < 100))
    folder(tmp_path, "c", seed=2, lrs=(0.3,))
    best = results(find(tmp_path)).best().iloc[0]
    assert (best["lr"], best["final"], best["final_high"], best["seeds"]) == (0.1, 0.0, 1.0, 2)


DOCS = Path(__file__).resolve().parents[2] / "docs" / "results.md"


def documented() -> dict[str, str]:
    """The units of the columns of metrics.jsonl, as docs/results.md has them."""
    part = DOCS.read_text().partition("## Columns of")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (`.*?) \| (.*?) \| .* \|$", part, re.MULTILINE)
    units = {}
    for names, of_them in lines:
        found = re.findall(r"`(\w+)`", names)
        units |= dict(zip(found, of_them.split(", "), strict=True))
    return units


def test_the_documentation_has_them_all() -> None:
    assert documented() == {some.name: some.unit or "–" for some in columns.TABLE if some.filled_by != "figure"}


def test_what_a_task_declares_is_known_and_ours_keeps_its_meaning() -> None:
    declare([asdict(Column("margin", "least margin", better="higher")), {"name": "train_loss", "better": "higher"}])
    assert (in_words("margin"), higher_is_better("margin")) == ("least margin", True)
    assert not higher_is_better("train_loss")
    with pytest.raises(ValueError, match='better="highest"'):
        Column("margin", better="highest")


@pytest.mark.parametrize(
    ("measured", "declared", "metric"),
    [
        (("train_loss", "grad_norm"), (), "grad_norm"),
        (("train_loss", "grad_norm", "test_loss"), (), "train_loss"),
        (("train_loss", "an_accuracy"), ("an_accuracy",), "an_accuracy"),
        (("train_loss", "undeclared"), ("undeclared",), "train_loss"),
        (("train_loss",), ("margin",), "train_loss"),
        (("margin",), (), None),
    ],
)
def test_what_step_sizes_are_selected_by(measured, declared, metric):
    assert default_metric(measured, *declared) == metric
