"""A figure whose runs are those of a whole launch."""

from functools import partial
from pathlib import Path

from cluster_support import fine, launched

from experiments import reproduce
from plots.runs.files import read_json
from plots.runs.find import find

FIGURE = [
    "figure=demo",
    'figure.grid=[["task=logreg/breast_cancer cluster.workers=4 rounds=20 eval_every=10"],["algorithm=cd_adam"],'
    '["task.batch_size=null task.name=whole","task.batch_size=4 task.name=batches"]]',
    "figure.claims=[]",
    "seeds=[0,1]",
]  # fmt: skip


def test_seeds_that_are_drawn_from_and_not(tmp_path: Path) -> None:
    """The first rank alone knows which runs are copies, and the others do not wait for them."""
    said = fine(launched(tmp_path, 2, partial(reproduce.main, [*FIGURE, f"results_dir={tmp_path / 'results'}"])))
    assert "3 of 4 runs to do" in said[0]
    assert "copied from another seed, since nothing is drawn at random: 1" in said[0]
    runs = find(tmp_path / "results")
    assert [(run.task, run.seed, run.state) for run in sorted(runs, key=lambda run: (run.task, run.seed))] == [
        (task, seed, "finished") for task in ("batches", "whole") for seed in (0, 1)
    ]
    copied = [run for run in runs if "repeats_seed" in read_json(run.folder / "environment.json")]
    assert [(run.task, run.seed) for run in copied] == [("whole", 1)]
