"""A figure whose runs are those of a whole launch."""

from functools import partial
from pathlib import Path

import pytest
from cluster_support import fine, launched

from experiments import reproduce
from plots.runs.find import find

FIGURE = [
    "figure=demo",
    'figure.grid=[["task=logreg/breast_cancer cluster.workers=4 rounds=20 eval_every=10"],["algorithm=cd_adam"]]',
    "figure.claims=[]",
    "seeds=[0,1]",
]


@pytest.mark.slow
def test_a_figure_by_two_ranks(tmp_path: Path) -> None:
    fine(launched(tmp_path, 2, partial(reproduce.main, [*FIGURE, f"results_dir={tmp_path / 'results'}"])))
    assert sorted((run.seed, run.state) for run in find(tmp_path / "results")) == [(0, "finished"), (1, "finished")]
