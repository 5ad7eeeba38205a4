"""Files of run folders damaged at random: nothing is silent, nothing ends in a traceback, nothing is trained on."""

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from record_support import OF_THE_RUN, Place, faults
from run_support import go, stopped

from experiments.training.trainer import Trainer


def finished(folder: Path) -> None:
    go(*OF_THE_RUN, f"results_dir={folder}")


def interrupted(folder: Path) -> None:
    step, rounds = Trainer.step, []

    def interrupting(trainer: Trainer, diagnose: bool = False) -> None:
        rounds.append(trainer.t)
        if len(rounds) == 12:
            signal.raise_signal(signal.SIGINT)
        step(trainer, diagnose)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "step", interrupting)
        assert stopped([*OF_THE_RUN, f"results_dir={folder}"]) == 130


@pytest.mark.parametrize(
    ("prepare", "times"),
    [
        (interrupted, 3),
        *(pytest.param(prepare, 30, marks=pytest.mark.slow) for prepare in (finished, interrupted)),
        *(pytest.param(prepare, 800, marks=pytest.mark.soak) for prepare in (finished, interrupted)),
    ],
)
def test_damage_is_named_and_all_else_shown(
    prepare: Callable[[Path], None], times: int, seed: int, tmp_path: Path
) -> None:
    place = Place(tmp_path / "results", prepare)
    tried, found = faults(place, seed=seed, times=times)
    assert tried >= times / 2  # the rest changed nothing
    assert not found, "\n".join(found)
