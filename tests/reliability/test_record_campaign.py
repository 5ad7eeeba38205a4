"""Files of run folders damaged at random: nothing is silent, nothing ends in a traceback, nothing is trained on."""

import io
import random
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from cluster_support import interrupt
from run_support import SMALL, before_round, before_rounds, exit_code, go, run_folder
from waiting import exit_status

from common.errors import exit_with_message
from experiments import check, load, status
from plots.page.page import page_data
from plots.runs.best import choose_step_sizes
from plots.runs.find import choose_runs, drop_damaged, find

FILES = ("config.yaml", "code.json", "environment.json", "status.json", "summary.json", "metrics.jsonl")

OF_THE_RUN = (*SMALL, "lr=[0.001,0.01]", "rounds=20", "eval_every=5", "checkpoint_every=10", "cluster.workers=2")
"""The run that is damaged; it has others beside it."""


WAYS: dict[str, Callable[[bytes, int], bytes]] = {
    "bit": lambda whole, place: whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :],
    "inserted": lambda whole, place: whole[:place] + b"\n" + whole[place:],
    "cut": lambda whole, place: whole[:place],
    "cut at a line": lambda whole, place: whole[: whole.rfind(b"\n", 0, place) + 1],
}
"""What can happen to a file's bytes at a place."""

HARMS = (*WAYS, "gone", "foreign")
"""The same, and that the file is lost or another run's."""

READERS: dict[str, Callable[[Path], object]] = {
    "status": lambda folder: status.main([str(folder)]),
    "page": lambda folder: page_data(choose_runs(folder), [], ""),
    "selection": lambda folder: choose_step_sizes(drop_damaged(find(folder))),
    "load": lambda folder: load(folder).to_csv(),
}
"""What shows a results folder."""


class Place:
    """A results folder with a run and two others, whose files are damaged one after the other."""

    def __init__(self, folder: Path, prepare: Callable[[Path], None]) -> None:
        """prepare: leaves the run with OF_THE_RUN in the folder that it is given."""
        results = f"results_dir={folder}"
        self.folder, self.command = folder, [*OF_THE_RUN, results]
        prepare(folder)
        self.run = run_folder(*self.command)
        self.other = go(*OF_THE_RUN, results, "seed=1")
        go(*OF_THE_RUN, results, "algorithm=ef21")
        self.kept = shutil.copytree(self.run, folder.parent / f"{folder.name}-kept")
        self.truth = {reader: self.said(reader)[0] for reader in READERS}

    @property
    def files(self) -> list[str]:
        """Those that the run has: an interrupted one has no summary."""
        return [name for name in FILES if (self.run / name).exists()]

    def damage(self, name: str, way: str, dice: random.Random) -> str:
        """Do something to a file; what, in words, or "" where it has the same bytes afterwards."""
        file = self.run / name
        before = file.read_bytes()
        if way == "gone":
            file.unlink()
        elif way == "foreign":
            shutil.copy(self.other / name, file)
        else:
            file.write_bytes(WAYS[way](before, dice.randrange(len(before))))
        if file.exists() and file.read_bytes() == before:
            return ""
        return f"{name}: {way}"

    def restore(self) -> None:
        """Undo that, and what a command did then."""
        shutil.rmtree(self.run)
        shutil.copytree(self.kept, self.run)

    def said(self, reader: str) -> tuple[str, str]:
        """What one of READERS gives, and what it says."""
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            answer = READERS[reader](self.folder)
        return f"{answer}{out.getvalue()}", out.getvalue() + err.getvalue()

    def verdict(self) -> str:
        """What `experiments.check` prints, and its exit status."""
        return _printed(lambda: check.main([str(self.folder)]))

    def again(self) -> tuple[str, int]:
        """What the run's command prints given again, and how many rounds it trained."""
        trained = []
        with before_rounds(trained.append):
            return _printed(lambda: go(*self.command)), len(trained)


def _printed(act: Callable[[], object]) -> str:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = exit_status(exit_with_message()(act))
    return f"{out.getvalue()}exit status {code}"


def faults(place: Place, seed: int, times: int) -> tuple[int, list[str]]:
    """Damage a file so many times; how often it was, and what was silent, wrong or raised an exception."""
    dice, tried, found = random.Random(seed), 0, []
    for number in range(times):
        what = place.damage(dice.choice(place.files), dice.choice(HARMS), dice)
        if what:
            tried += 1
            try:
                found += [f"{seed}.{number} {what}: {fault}" for fault in _faults(place)]
            except Exception as error:
                found.append(f"{seed}.{number} {what}: {error!r}")
        place.restore()
    return tried, found


def _faults(place: Place) -> list[str]:
    name, found = str(place.run), []
    for reader, truth in place.truth.items():
        answer, told = place.said(reader)
        if answer != truth and f"{name}: " not in told:
            found.append(f"{reader} is silent")
        if reader in ("status", "page", "load") and place.other.name not in answer:
            found.append(f"{reader} leaves out what is whole")
    checked, (again, rounds) = place.verdict(), place.again()
    if f"damaged   {name}: " not in checked or not checked.endswith("exit status 1"):
        found.append("check says nothing")
    if f"error: {name}" not in again or not again.endswith("exit status 1") or rounds:
        found.append(f"the run goes on, {rounds} rounds: {again[-200:]}")
    return found


def finished(folder: Path) -> None:
    go(*OF_THE_RUN, f"results_dir={folder}")


def interrupted(folder: Path) -> None:
    with before_round(12, interrupt):
        assert exit_code([*OF_THE_RUN, f"results_dir={folder}"]) == 130


@pytest.mark.slow
@pytest.mark.parametrize("prepare", [finished, interrupted])
@pytest.mark.parametrize("times", [30, pytest.param(800, marks=pytest.mark.soak)])
def test_damage_is_named_and_all_else_shown(
    prepare: Callable[[Path], None], times: int, seed: int, tmp_path: Path
) -> None:
    place = Place(tmp_path / "results", prepare)
    tried, found = faults(place, seed=seed, times=times)
    assert tried >= times / 2  # the rest changed nothing
    assert not found, "\n".join(found)
