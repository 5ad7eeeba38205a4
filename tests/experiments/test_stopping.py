"""Runs that are stopped, killed or crash, and go on as if they had not."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest
from run_support import RANDOM, SMALL, go, rows, run_exit_code, run_folder, status, timeless

from common.signals import stop_signals

SHORT = {
    "random": (*SMALL, *RANDOM, "rounds=23", "checkpoint_every=7"),
    "formed": (*SMALL, "rounds=23", "checkpoint_every=7", "lr_schedule=wsd", "warmup_rounds=3", "clip_worker=0.1"),
}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict]]:
    """The rows of SHORT."""
    place = tmp_path_factory.mktemp("uninterrupted")
    return {name: timeless(go(*command, f"results_dir={place}")) for name, command in SHORT.items()}


@pytest.mark.parametrize(
    ("which", "how", "round"),
    [
        ("random", signal.SIGINT, 1),
        ("formed", signal.SIGTERM, 8),
        pytest.param("random", signal.SIGINT, 23, marks=pytest.mark.slow),
    ],
)
def test_stopped_then_resumed_is_as_if_never_stopped(which, how, round, uninterrupted, results, at_round, capsys):
    at_round(round, lambda: signal.raise_signal(how))
    halves = [*SHORT[which], results]
    path = run_folder(*halves)
    assert run_exit_code(halves) == 130
    if round < 23:
        assert (status(path)["status"], status(path)["round"]) == ("interrupted", round)
        assert f"stopped after round {round}; the same command goes on: {path}" in capsys.readouterr().err
        assert max(row["round"] for row in rows(path)) == round - round % 5
        assert not (path / "summary.json").exists()
    else:  # the run is done, but whatever was to come after it is not
        assert "this run was just finished" in capsys.readouterr().err
    go(*halves)
    assert status(path)["status"] == "finished"
    assert timeless(path) == uninterrupted[which]


def test_a_run_in_a_thread_of_its_own_takes_no_signals(results: str) -> None:
    parts, handlers = [*SHORT["random"], results], [signal.getsignal(number) for number in stop_signals()]
    with ThreadPoolExecutor(1) as threads:
        rows = threads.submit(go, *parts).result()
    assert timeless(rows)[-1]["round"] > 0
    assert [signal.getsignal(number) for number in stop_signals()] == handlers


@pytest.mark.slow
def test_stopped_again_and_again_within_a_round_too(uninterrupted, results, at_round):
    parts = [*SHORT["random"], results]
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    def twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    for round in (3, 4, 9, 20):
        at_round(round, twice if round == 9 else lambda: signal.raise_signal(signal.SIGINT))
        assert run_exit_code(parts) == 130
        done = 8 if round == 9 else round  # a second signal stops in the middle of a round
        assert (status(run_folder(*parts))["status"], status(run_folder(*parts))["round"]) == ("interrupted", done)
    assert timeless(go(*parts)) == uninterrupted["random"]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_crash_is_recorded_and_can_be_resumed(uninterrupted, results, at_round):
    halves = [*SHORT["random"], results]

    def crash() -> None:
        raise ZeroDivisionError("by what?")

    at_round(13, crash)
    with pytest.raises(ZeroDivisionError):
        go(*halves)
    found = status(run_folder(*halves))
    assert (found["status"], found["round"], found["error"]) == ("failed", 12, "by what?")
    assert timeless(go(*halves)) == uninterrupted["random"]
