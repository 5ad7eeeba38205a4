"""The planner: made-up entries with known answers, one row by hand, its messages, and what it refuses."""

from dataclasses import replace

import pandas as pd
import pytest
from leaderboard_support import D, entry

from common.errors import UsageError
from experiments import plan
from experiments.entries.track import Track, read_track
from experiments.leaderboard import entries, goals_of, rows
from plots.leaderboard.ranking import needs_by_level
from plots.leaderboard.statistics import needs
from plots.runs.network import Network

SLOW, FAST = (Network(bandwidth=bandwidth, latency=1, workers=4, computing=10) for bandwidth in (0.01, 1e5))
FLOATS = {"adds": True, "is_whole": True}


def runs(*entries: tuple[pd.DataFrame, dict[str, bool]]) -> pd.DataFrame:
    """What `contenders` returns of such entries, for a model of D parameters."""
    parts = [needs(rows, "train_loss", 0.1).assign(**known) for rows, known in entries]
    found = pd.concat(parts).assign(stages=1.0, period=1.0, how="", entry_d=D, batch_size=32)
    found.attrs = {"goal": "0.1", "missed": []}
    return found


DENSE = entry("dense"), FLOATS
SIGNS = entry("signs", rate=0.7, up=1.0, down=1.0), {"adds": False, "is_whole": False}
NEAR = entry("near", rate=1.1, up=1.0, down=1.0), SIGNS[1]
HALVES = entry("halves", rate=0.95, up=16.0, down=16.0), FLOATS
ODD = entry("odd", rate=0.6, up=1.0, down=1.0, noise=lambda seed: 1.03 if seed > 2 else 1.8), SIGNS[1]
FEW, ONE = ([(rows[rows["seed"] < seeds], known) for rows, known in (DENSE, SIGNS)] for seeds in (3, 1))


@pytest.mark.parametrize(
    ("found", "links", "verdicts"),
    [
        (runs(DENSE, SIGNS), SLOW, {"signs": "recommended", "dense": "slower"}),
        (runs(DENSE, SIGNS), FAST, {"signs": "slower", "dense": "recommended"}),
        # 5 and 16 % more rounds: too close to call, and the narrowest floats are preferred.
        (runs(DENSE, HALVES, NEAR), FAST, {"near": "tie", "dense": "tie", "halves": "recommended"}),
        # Seven of ten seeds take half as long again, which the leaderboard's test cannot tell from a tie.
        (runs(DENSE, ODD), FAST, {"odd": "slower", "dense": "recommended"}),
        # One seed has no interval.
        (runs(*FEW), SLOW, {"signs": "recommended", "dense": "slower"}),
        (runs(*ONE), SLOW, {"signs": "tie", "dense": "recommended"}),
    ],
)
def test_who_is_recommended(found: pd.DataFrame, links: Network, verdicts: dict[str, str]):
    table = plan.advise(plan.times(found, links))
    assert dict(zip(table["entry"], table["verdict"], strict=True)) == verdicts
    said = "Too close to call: Near; Dense. The recommended one sends all floats in every round."
    assert (said in table.attrs["advice"]) == ("near" in verdicts)


def test_the_advice_changes_at_the_stated_cost_of_compressing():
    counted = 0.0  # milliseconds a parameter
    for _ in range(2):
        said = plan.advise(plan.times(runs(DENSE, SIGNS), SLOW, counted)).attrs["advice"][-1]
        assert said.startswith("Dense takes ")
        more = 1e3 * float(said.split()[-5]) / D
        costs = (counted + share * more for share in (0.99, 1.01))
        tables = [plan.advise(plan.times(runs(DENSE, SIGNS), SLOW, cost)) for cost in costs]
        assert [table["entry"][0] for table in tables] == ["signs", "dense"]
        counted = more / 2


def test_a_row_by_hand():
    """Ten rounds with an exchange in five of them, 8 servers at most, and two gradients a round."""
    row = {"bits_up": 4e6, "bits_down": 2e6, "round": 10, "gradient_calls": 20, "stages": 0.5, "d": 1e6}
    row |= {"workers": 20, "servers": 8, "exchanges": 3, "adds": True, "is_whole": False}
    links = Network(bandwidth=10, latency=5, workers=16, computing=100)
    found = plan.times(pd.DataFrame([row]), links, compressing=2e-6).set_index("form")["seconds"]
    computing = 20 * 0.1 + 5 * 2e-3
    assert found.to_dict() == pytest.approx({
        "rank0": computing + 15 * 0.4 + 10 * 0.2 + 6 * 0.005 * 5,
        "sharded": computing + 15 / 8 * 0.6 + 6 * 0.005 * 5,
        "ring": computing + 15 / 16 * 0.6 + 30 * 0.005 * 5,
        "tree": computing + 4 * 0.6 + 8 * 0.005 * 5,
    })  # fmt: skip


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("adamw", "loco", "muloco")
    monkeypatch.setattr(plan, "entries", lambda *at: {name: entries(*at)[name] for name in names})


def test_messages_are_those_that_runs_of_this_model_recorded(three: None):
    track = read_track("digits")
    *_, (_, recorded) = needs_by_level(rows(track, entries(track, "")), goals_of(track))
    found = plan.contenders("digits", "3", plan.layout_of("digits", ""), workers=8).loc["digits"]
    old = recorded["digits"].loc["digits"].loc[found.index]
    for column in ("bits_up", "bits_down", "servers", "exchanges", "round", "d"):
        assert found[column].tolist() == old[column].tolist(), column
    assert found.groupby("algorithm")["period"].first().to_dict() == {"adamw": 1, "loco": 1, "muloco": 30}


def test_the_command_says_what_it_extrapolates(three: None, capsys: pytest.CaptureFixture):
    plan.main(["d=2e6", "workers=16", "bandwidth=0.01Gbit/s", "step=80"])
    said = capsys.readouterr().out
    assert "Take MuLoCo (algorithm=muloco), sharded server: " in said
    assert "Your model has 2,000,000 parameters, theirs have 5,178 to 5,210." in said
    assert "They were trained by 8 workers, you have 16." in said


def test_rounds_of_dense_floats_are_not_combined_with_smaller_messages(monkeypatch: pytest.MonkeyPatch):
    """On logreg a parameter is a vector, which PowerSGD sends whole. A model of one vector is sent so too."""
    names = ("sgd", "local_sgd", "powersgd", "error_feedback-update-sgd-compressor-int4")
    monkeypatch.setattr(plan, "entries", lambda *at: {name: entries(*at)[name] for name in names})
    request = {"workers": 64, "bandwidth": "10Gbit", "step": "200ms", "track": "logreg", "level": 2}
    found = plan.plan(d="25e6", **request)
    assert {*found["entry"]} == {*names} - {"powersgd"}
    said = "Left out, because their runs sent all floats, and would send fewer for your model: powersgd."
    assert said in found.attrs["extrapolates"]
    vector = plan.contenders("logreg", "2", plan.layout_of("", "1000"), 64)
    assert {*vector.index.unique("algorithm")} == {*names}


def test_part_of_a_parameter_is_one():
    sizes = [[block.size for block in plan.layout_of("", d)] for d in ("0.5", "3e6")]
    assert sizes == [[1], [2**20, 2**20, 881 * 1024, 704]]
    assert [block.shape for block in plan.layout_of("", "1048576")] == [(1024, 1024)]


def test_groups_of_codes_cannot_be_added_and_too_many_workers_are_left_out(monkeypatch: pytest.MonkeyPatch):
    changes = {"adamw": {}, "loco": {"algorithm": "int_sgd"}}
    changes["adamw-compressor-bf16"] = {"overrides": ["compressor=fp8"]}

    def changed(track: Track, place: str) -> dict:
        there = entries(track, place)
        return {name: (replace(there[name][0], **new), there[name][1]) for name, new in changes.items()}

    monkeypatch.setattr(plan, "entries", changed)
    found = plan.contenders("digits", "1", plan.layout_of("", "5178"), workers=200)
    assert found.groupby("algorithm")["adds"].all().to_dict() == {"adamw": True, "adamw-compressor-bf16": False}
    assert list(found.attrs["refused"]) == ["loco"]
    said = plan.plan(d="5178", workers=200, bandwidth="1Gbit", step="80ms", level=1).attrs["extrapolates"]
    assert "because it does not fit: loco (algorithm: workers=200: 8 bits cannot hold" in " ".join(said)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"bandwidth": "1GB"}, "bandwidth=1GB: must be a number and one of the units kbit, mbit, gbit"),
        ({"step": "80Mbit"}, "step=80Mbit: must be a number and one of the units ns, us, ms, s"),
        ({"step": ""}, "step=: not given"),
        ({"workers": "2.5"}, "workers=2.5: Input should be a valid integer"),
        ({"bandwidth": "0"}, "bandwidth=0.0: Input should be greater than 0"),
        ({"latncy": "1ms"}, "latncy: no such key; did you mean latency?"),
        ({"model": "resnet19", "d": ""}, "model=resnet19: no such task; give d="),
        ({"model": "logreg/digits", "d": ""}, "model=logreg/digits: this task has no network; give d="),
        ({"model": "resnet18"}, "model=, d=: give one of them"),
        ({"level": "4"}, "level=4: no such choice; Valid: 1, 2, 3"),
        ({"results_dir": "nowhere"}, "results_dir=nowhere: no such folder"),
        ({"track": "digit"}, "track=digit: no such track; did you mean digits?"),
    ],
)
def test_what_is_refused(words: dict[str, str], message: str):
    with pytest.raises(UsageError) as error:
        plan.plan(**{"d": "2e6", "workers": 16, "bandwidth": "1Gbit", "step": "80ms", **words})
    assert str(error.value).startswith(message)


def test_one_entry_is_too_few(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(plan, "entries", lambda *at: {"adamw": entries(*at)["adamw"]})
    with pytest.raises(UsageError, match="fewer than two entries are left"):
        plan.contenders("digits", "1", (), workers=8)
