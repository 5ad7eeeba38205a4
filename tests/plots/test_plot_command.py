"""What `python -m plots.plot` draws, says and refuses."""

from pathlib import Path

import numpy as np
import pytest
from folder_support import folder
from matplotlib.figure import Figure

from plots.figure import curves
from plots.plot import main


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two methods with two step sizes and two seeds on one task, one of them on another."""
    place = tmp_path / "results"
    for seed in (0, 1):
        for algorithm in ("plain", "noisy"):
            folder(place, f"{algorithm}{seed}", algorithm=algorithm, seed=seed, lrs=(0.1, 0.2))
    folder(place, "other", task="other/task", lrs=(0.1,))
    return place


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that were drawn."""
    figures, draw = [], curves.draw
    monkeypatch.setattr(curves, "save", lambda figure, *targets: None)
    monkeypatch.setattr(curves, "draw", lambda *arguments: figures.append(draw(*arguments)) or figures[-1])
    return figures


def lines(figure: Figure) -> dict[str, tuple[list[float], list[float]]]:
    """x and y by label, of the first panel."""
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in figure.axes[0].get_lines()}


def test_the_picture_shows_the_means_over_seeds_of_the_best_step_sizes(results, drawn, capsys, tmp_path):
    target = tmp_path / "picture.pdf"
    main([f"results_dir={results}", "x=rounds", "y=grad_norm", "task=toy", f"out={target}"])
    rounds = np.arange(0, 101, 10)
    assert set(lines(drawn[0])) == {"Plain", "Noisy"}
    for x, y in lines(drawn[0]).values():  # seeds 0 and 1 have 0.8^t and 2 · 0.8^t
        assert x == rounds.tolist()
        assert y == pytest.approx((2**0.5 * 0.8**rounds).tolist())
    assert f"picture: {target}" in capsys.readouterr().out


def test_one_seed_one_method_one_step_size(results, drawn):
    request = ["task=toy", "algorithm=noisy", "seed=1", "lr=0.1", "y_scale=linear"]
    main([f"results_dir={results}", *request])
    [(x, y)] = lines(drawn[0]).values()
    assert x == [80.0 * t for t in range(10, 101, 10)]  # round 0 has no place on a logarithmic axis
    assert y == pytest.approx([2 * 0.9**t for t in range(10, 101, 10)])
    [axis] = drawn[0].axes
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "linear")
    assert drawn[0].get_supxlabel() == "100 rounds; one seed (1)."


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ("tusk=toy", "tusk: no such key; did you mean task? Valid: x, y, study, task,"),
        ("y=gard_norm", "did you mean grad_norm? Valid: bits_up,"),
        ("lr=0.3", "lr=0.3: no run has this step size; there are best, 0.1, 0.2"),
        ("network.topology=star", "network.topology=star: Input should be 'rank0', 'sharded'"),
        ("out=picture.doc", "out=.doc: no such choice; Valid: .pdf, .png, .svg,"),
    ],
)
def test_what_is_not_understood_is_refused_before_anything_is_drawn(results, capsys, request_, message):
    with pytest.raises(SystemExit, match=r"^2$"):
        main([f"results_dir={results}", request_])
    assert message in capsys.readouterr().err
    assert not (results / "plots").exists()
