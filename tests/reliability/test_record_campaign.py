"""Files of run folders damaged at random: nothing is silent, nothing ends in a traceback, nothing is trained on."""

import random
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from record_support import HARMS, OF_THE_RUN, Place, faults
from run_support import go, stopped

from experiments.training.trainer import Trainer
from plots.runs.find import find, whole


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


@pytest.mark.parametrize("prepare", [finished, interrupted])
def test_every_harm_to_every_file_is_found(prepare: Callable[[Path], None], tmp_path: Path) -> None:
    """By the command that verifies, by the one that reads the least, and where all rows are read."""
    place, dice = Place(tmp_path / "results", prepare), random.Random(0)
    for name in place.files:
        for harm in HARMS:
            if place.damage(name, harm, dice):
                assert f"damaged   {place.run}: " in place.verdict(), (name, harm)
                answer, told = place.said("status")
                assert answer == place.truth["status"] or f"{place.run}: " in told, (name, harm)
                if name == "metrics.jsonl":
                    assert not whole(find(place.run)), harm
            place.restore()


@pytest.mark.parametrize("prepare", [finished, interrupted])
@pytest.mark.parametrize("times", [4, pytest.param(800, marks=pytest.mark.soak)])
def test_damage_is_named_and_all_else_shown(
    prepare: Callable[[Path], None], times: int, seed: int, tmp_path: Path
) -> None:
    place = Place(tmp_path / "results", prepare)
    tried, found = faults(place, seed=seed, times=times)
    assert tried >= times / 2  # the rest changed nothing
    assert not found, "\n".join(found)
