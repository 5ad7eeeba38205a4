"""Which evaluations a page has of more than it has room for."""

import numpy as np
import pytest
from folder_support import folder

from plots.page import thin
from plots.page.page import content
from plots.runs.find import find
from plots.runs.variants import tell_apart


def wavy(t: int, lr: float, seed: int) -> float:
    """Curves with extremes at places of their own."""
    return 2 + np.sin(t * (1 + lr) + seed) + 5 * (t == 370 + 10 * seed)


@pytest.fixture
def results(tmp_path):
    """Two methods with two seeds and two step sizes, 101 evaluations each, one with fewer and one under way."""
    for algorithm, seed in (("plain", 0), ("plain", 1), ("noisy", 0), ("noisy", 1)):
        folder(tmp_path, f"{seed}", algorithm=algorithm, seed=seed, lrs=(0.1, 0.2), rounds=1000, norm=wavy)
    folder(tmp_path, "short", task="short", algorithm="short", rounds=100, norm=wavy)
    folder(tmp_path, "begun", seed=2, lrs=(0.1, 0.2), rounds=1000, status="running", reached=500, norm=wavy)
    return tmp_path


def test_a_page_has_all_evaluations_where_there_is_room(results):
    variants = tell_apart(find(results))
    assert all(list(places) == list(range(len(places))) for places in thin.kept(variants).values())
    assert content(find(results), [], "") == content(find(results), [], "", whole=True)


@pytest.mark.parametrize("room", [600, 900, 1500, 3000])
def test_as_many_are_kept_as_there_is_room_for(results, monkeypatch, room):
    monkeypatch.setattr(thin, "ROOM", room)
    variants = tell_apart(find(results))
    kept = thin.kept(variants)
    used = sum(len(kept[one.run.folder]) * (1 + len(one.lrs) * len(thin.measured(one.run))) for one in variants)
    assert room * 0.6 < used <= room
    for one in variants:
        places = kept[one.run.folder]
        assert places[0] == 0
        assert places[-1] == thin.evaluations(one.run) - 1
        assert (np.diff(places) > 0).all()
    assert len(kept[results / "short" / "short" / "short"]) == 11  # a short curve stays whole


@pytest.mark.parametrize("room", [1, 600, 1500])
def test_the_ends_and_extremes_of_a_method_are_kept_and_seeds_keep_the_same(results, monkeypatch, room):
    whole = content(find(results), [], "", whole=True)
    monkeypatch.setattr(thin, "ROOM", room)
    some = content(find(results), [], "")

    def values(found, method, name):
        runs = [run for run in found["runs"] if run["method"] == method and run["status"] == "finished"]
        return [value for run in runs for trial in run["trials"] for value in trial[name] if value is not None]

    for method in ("plain", "noisy", "short"):
        for name in ("grad_norm", "train_loss", "train_accuracy"):
            before, after = values(whole, method, name), values(some, method, name)
            assert (min(after), max(after)) == (min(before), max(before))
    for one, other in zip(whole["runs"], some["runs"], strict=True):
        rounds, fewer = (found["lists"][run["axes"]["round"]] for found, run in ((whole, one), (some, other)))
        assert (fewer[0], fewer[-1], other["evaluations"]) == (rounds[0], rounds[-1], len(rounds))
        assert set(fewer) <= set(rounds)
        assert len(fewer) < len(rounds) or len(rounds) == 11
        for trial, less in zip(one["trials"], other["trials"], strict=True):  # values stay with their rounds
            at = dict(zip(rounds, trial["grad_norm"], strict=True))
            assert less["grad_norm"] == [at[t] for t in fewer]
    places = {(run["method"], run["seed"]): run["axes"]["round"] for run in some["runs"]}
    assert places["plain", 0] == places["plain", 1]
    assert places["noisy", 0] == places["noisy", 1]


def test_early_rounds_are_not_lost_on_a_logarithmic_axis(tmp_path, monkeypatch):
    folder(tmp_path, "long", rounds=20_000)
    monkeypatch.setattr(thin, "ROOM", 400)
    [places] = thin.kept(tell_apart(find(tmp_path))).values()
    assert len(places) < 100
    decades = [((places >= low) & (places < 10 * low)).sum() for low in (1, 10, 100)]
    assert min(decades) > 4


def test_lists_that_runs_share_are_there_once(results):
    found = content(find(results), [], "")
    texts = [str(one) for one in found["lists"]]
    assert len(texts) == len(set(texts))
    assert len({run["axes"]["bits"] for run in found["runs"]}) == 3  # of the lengths
