"""Step sizes chosen on a seed that is judged nowhere: from the command to the files."""

from operator import itemgetter
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from experiments import reproduce
from experiments.config.compose import compose, resolve
from experiments.figures import held_out
from experiments.figures.configuration import asked_of, read
from experiments.figures.runs import runs_of
from plots.runs.best import level

PUBLISHED = {"amsgrad": 0.003, "cd_adam": 0.001}  # the first of them beyond the grid
GRID = [0.001, 0.01, 0.1]
STUDY = [
    "figure=demo",
    'figure.grid=[["task=logreg/breast_cancer"],["algorithm=amsgrad","algorithm=cd_adam"]]',
    'figure.claims=[{number: 3, statement: As low, check: reaches_level, subject: cd_adam, reference: amsgrad, '
    'within: 2.0}]',
    "+figure.held_out=9",
    "+figure.trial_share=0.5",
    '+figure.trial_overrides=["eval_every=5"]',
    "+figure.published={amsgrad: 0.003, cd_adam: 0.001}",
    "figure.name=tuned",
    *("lr=[0.001,0.01,0.1]", "rounds=20", "eval_every=2", "task.batch_size=4", "cluster.workers=4", "seeds=[0,4]"),
]  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it has been reproduced."""
    place = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("plots.figure.curves.draw", lambda *_, **__: Figure())
        reproduce.main([*STUDY, f"results_dir={place}", "jobs=1"])
    return place


@pytest.fixture(scope="module")
def written(results: Path) -> Path:
    """The figure's folder."""
    [folder] = (results / "figures").iterdir()
    return folder


@pytest.fixture(scope="module")
def table(written: Path) -> pd.DataFrame:
    return pd.read_csv(written / "tuned.csv")


def best(table: pd.DataFrame, method: str) -> float:
    """The step size that ends lowest on the seed that is held out."""
    tried = table[(table["algorithm"] == method) & (table["seed"] == 9)]
    return min(GRID, key=lambda lr: level(tried[tried["lr"] == lr]))


@pytest.mark.slow
def test_every_step_size_is_tried_once_and_the_chosen_ones_on_every_seed(table: pd.DataFrame) -> None:
    for method, published in PUBLISHED.items():
        of_method = table[table["algorithm"] == method]
        runs = of_method.drop_duplicates("run")[["seed", "lr"]]
        wanted = {(9, lr) for lr in GRID} | {(seed, lr) for seed in (0, 4) for lr in (published, best(table, method))}
        assert sorted(runs.itertuples(index=False, name=None)) == sorted(wanted)
        assert of_method.groupby("seed")["round"].max().to_dict() == {9: 10, 0: 20, 4: 20}
        evaluated = of_method.groupby("seed")["round"].unique()
        assert [sorted(evaluated[seed]) for seed in (9, 4)] == [[0, 5, 10], [*range(0, 21, 2)]]
        assert of_method.loc[of_method["best"], "lr"].unique().tolist() == [best(table, method)]


@pytest.mark.slow
def test_nothing_is_judged_or_drawn_on_the_seed_that_is_held_out(table: pd.DataFrame, written: Path) -> None:
    assert set(table.loc[table["drawn"], "seed"]) == {0, 4}
    assert set(table.loc[table["drawn"], "lr"]) == {*PUBLISHED.values(), *(best(table, name) for name in PUBLISHED)}
    claims = pd.read_csv(written / "claims.csv").set_index("step_size")
    for protocol, chosen in (("paper's", PUBLISHED), ("best", {name: best(table, name) for name in PUBLISHED})):
        ends = {
            (name, seed): level(table[(table["algorithm"] == name) & (table["seed"] == seed) & (table["lr"] == lr)])
            for name, lr in chosen.items()
            for seed in (0, 4)
        }
        low, high = sorted(ends["cd_adam", seed] / ends["amsgrad", seed] for seed in (0, 4))
        assert f"({low:.2g}× to {high:.2g}×, 2 seeds)" in claims.loc[protocol, "measured"]
    text = (written / "report.md").read_text()
    assert "The paper's step sizes: AMSGrad 0.003, CD-Adam 0.001." in text
    assert "on seed 9 and 50% of the rounds alone, which is judged nowhere:" in text
    assert "seeds 0, 4." in text


def test_the_runs_of_both_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 2 methods 3 trials each on seed 9, then on 2 seeds the published and the best step size."""
    asked = asked_of(resolve(compose(reproduce.move_overrides(STUDY), "reproduce")))
    best = {("logreg/breast_cancer", "amsgrad"): 0.1, ("logreg/breast_cancer", "cd_adam"): 0.001}
    monkeypatch.setattr(held_out, "best_step_sizes", lambda *_: best)
    both, known = held_out.both_steps(read(asked, itemgetter(0)), asked.overrides, ())
    found = sorted((run.algorithm.name, run.seed, *run.lr, run.rounds, run.eval_every) for run in runs_of(both, ()))
    tried = [(name, 9, lr, 10, 5) for name in PUBLISHED for lr in GRID]
    judged = {(name, seed, lr, 20, 2) for name in PUBLISHED for seed in (0, 4)
              for lr in (PUBLISHED[name], best["logreg/breast_cancer", name])}  # fmt: skip
    assert known
    assert found == sorted([*tried, *judged])


@pytest.mark.slow
def test_a_dry_run_tells_what_is_known(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    reproduce.main([*STUDY, f"results_dir={tmp_path / 'results'}", "dry_run=true"])
    said = capsys.readouterr()
    assert "more runs follow, with the best step sizes by seed 9" in said.err
    assert "10 runs, 10 of them to do" in said.out  # 3 trials and 2 seeds with the published step size, of 2 methods
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("seeds=[0,9]", "seeds=[0, 9]: figure=tuned chooses step sizes on seed 9, so nothing is judged on it"),
        ("seed=3", "seed=3: this figure chooses step sizes on a seed of its own; set the others by seeds=[0,1]"),
    ],
)
def test_refusals(change: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    key = change.partition("=")[0]
    with pytest.raises(SystemExit) as stop:
        reproduce.main([*(text for text in STUDY if text.split("=")[0] != key), change, f"results_dir={tmp_path}"])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


STEEP = [  # 1e308 overflows at once with SGD, in the trials and in the runs that are judged
    "figure=demo",
    'figure.grid=[["task=logreg/breast_cancer"],["algorithm=sgd","algorithm=cd_adam"]]',
    "figure.claims=[{number: 3, statement: Low, check: reaches_level, subject: cd_adam, reference: sgd, within: 2}]",
    *("+figure.held_out=9", "+figure.published={sgd: 1e308, cd_adam: 0.001}", "figure.name=steep"),
    *("lr=[0.01,1e308]", "rounds=20", "eval_every=2", "task.batch_size=4", "cluster.workers=4", "seeds=[0,4]"),
]


def steep(place: Path, *more: str) -> pd.DataFrame:
    """The curves of the study, run in `place`, whose report says what diverged."""
    reproduce.main([*STEEP, f"results_dir={place}", *more])
    [written] = (place / "figures").iterdir()
    claims = pd.read_csv(written / "claims.csv").set_index("step_size")
    assert claims.loc["paper's", "verdict"] == "not decidable"
    assert claims.loc["paper's", "measured"] == "sgd ends at round 0 of 20 (2 seeds alike)"
    assert "×" in claims.loc["best", "measured"]
    report = (written / "report.md").read_text()
    assert "Diverged: SGD on breast cancer, paper's step sizes after round 0." in report
    table = pd.read_csv(written / "steep.csv")
    assert table.loc[(table["algorithm"] == "sgd") & table["best"], "lr"].unique().tolist() == [0.01]
    assert table.loc[table["lr"] == 1e308, "round"].max() == 0
    return table[["algorithm", "seed", "lr", "round", "train_loss", "best", "drawn"]]


@pytest.mark.slow
def test_a_step_size_that_diverges_is_never_the_best_and_is_drawn_as_far_as_it_came(tmp_path: Path) -> None:
    steep(tmp_path, "jobs=1")


@pytest.mark.slow
def test_on_several_ranks_too(tmp_path: Path) -> None:
    several, one = steep(tmp_path / "2", "ranks=2", "jobs=1"), steep(tmp_path / "1", "jobs=1")
    pd.testing.assert_frame_equal(several, one)
