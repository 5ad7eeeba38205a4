"""Checkpoints with damaged files, by the hundred: a run goes on with the right numbers, or says what is wrong."""

import contextlib
import io
import random
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from cluster_support import RUNS, interrupt
from run_support import before_round, bring, configuration, timeless

from common.errors import RunError
from experiments.config.identity import folder
from experiments.config.schema import RunConfig

FAULTS = ("a bit", "cut", "removed", "workers exchanged", "of another round")
CASES = 1500
COMMON = ("rounds=9", "eval_every=3", "checkpoint_every=3", "lr=[0.003,0.01]", "cluster.workers=4", "threads=1")


def hurt(rng: random.Random, folder: Path, fault: str) -> Path:
    """Damage a checkpoint's folder <round>/; the file, or one of several."""
    file = rng.choice(sorted(folder.iterdir()))
    whole = file.read_bytes()
    at = rng.randrange(len(whole))
    match fault:
        case "a bit":
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
        case "cut":
            file.write_bytes(whole[:at])
        case "removed":
            file.unlink()
        case "workers exchanged":
            file, other = rng.sample(sorted(folder.glob("worker-*")), 2)
            one, two = file.read_bytes(), other.read_bytes()
            file.write_bytes(two)
            other.write_bytes(one)
        case "of another round":
            other = rng.choice([other for other in folder.parent.glob("*/") if other != folder])
            shutil.copy(other / file.name, file)
    return file


def damaged(run: RunConfig, stopped: Path, expected: list, rng: random.Random, fault: str, twice: bool) -> str:
    """What becomes of a run whose checkpoint of round 7, or with `twice` that of round 6 too, has a fault."""
    path = folder(run)
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(stopped, path)
    hit = [hurt(rng, path / "checkpoint" / "7", fault)]
    if twice:
        hit.append(hurt(rng, path / "checkpoint" / "6", rng.choice(FAULTS)))
    before = (path / "metrics.jsonl").read_bytes()
    said, refused = io.StringIO(), ""
    try:
        with contextlib.redirect_stderr(said):
            bring(run)
    except RunError as error:
        refused = str(error)
    if refused:
        assert f"{path / 'checkpoint'}: cannot be resumed" in refused
        assert f"delete {path} to begin anew" in refused
        assert (path / "metrics.jsonl").read_bytes() == before
        return "named"
    assert timeless(path) == expected, (fault, hit)
    lost = fault == "removed" and hit[0].name == "shared.pt"  # without which it is a half of one, as a kill leaves it
    assert lost or f"{hit[0].parent}: " in said.getvalue(), (fault, hit, said.getvalue())
    return "right"


@pytest.mark.parametrize(
    ("name", "cases"),
    [("logreg", len(FAULTS)), *(pytest.param(name, CASES, marks=pytest.mark.soak) for name in ("logreg", "digits"))],
)
def test_a_damaged_checkpoint_never_spoils_a_run_in_silence(name: str, cases: int, seed: int, tmp_path: Path) -> None:
    run = configuration(*COMMON, *RUNS[name])
    whole, stopped, again = (replace(run, results_dir=str(tmp_path / part)) for part in ("whole", "stopped", "again"))
    bring(whole)
    with before_round(7, interrupt), pytest.raises(KeyboardInterrupt):
        bring(stopped)
    rng, outcomes = random.Random(seed), Counter()
    for case in range(cases):
        fault, twice = FAULTS[case % len(FAULTS)], rng.random() < 0.2
        outcomes[damaged(again, folder(stopped), timeless(folder(whole)), rng, fault, twice), twice] += 1
    assert outcomes["right", False] + outcomes["right", True] + outcomes["named", True] == cases
