"""Runs that differ in their seed alone, where nothing is drawn from it: one is trained, the others are its copies."""

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal, NoReturn

from common.errors import RunError
from common.progress import Display
from experiments.cluster.ranks import Ranks
from experiments.config import identity
from experiments.config.run import as_yaml
from experiments.config.schema import RunConfig
from experiments.planning.estimate import kind
from experiments.run_store.folder import RunFolder
from experiments.run_store.renamed import copy
from experiments.training.build import build_task, build_trainer
from experiments.training.runner import bring_to_end


def repeats(runs: Sequence[RunConfig]) -> dict[Path, RunConfig]:
    """By the folder of a run that was not begun the first one that is equal to it but for a seed that nothing is
    drawn from.

    Where runs differ in their seed alone, one of them is built and does a few rounds with a seed that cannot be read;
    data are fetched for that. A run with a user's packages is never a copy: what these read in other rounds is not
    known.
    """
    alike: dict[str, list[RunConfig]] = {}
    for run in runs:
        alike.setdefault(identity.of(replace(run, seed=0)), []).append(run)
    found: dict[Path, RunConfig] = {}
    found_out: dict[str, str | None] = {}  # by what is the same for all step sizes
    drawing: set[str] = set()  # kinds of runs whose task draws, whatever the method
    for first, *others in alike.values():
        new = [folder for run in others if run.seed != first.seed and not (folder := identity.folder(run)).exists()]
        if new and not first.packages and kind(first) not in drawing:
            method = identity.of(replace(first, seed=0, lr=(1.0,)))
            if method not in found_out:
                found_out[method] = draws(first)
            what = found_out[method]
            if what is None:
                found |= dict.fromkeys(new, first)
            elif what == "task":
                drawing.add(kind(first))
    return found


def take_over(run: RunConfig, original: RunConfig) -> bool:
    """Make the folder of a run from that of the one it repeats, if that is over and this one is not begun.

    Returns whether it did. Its environment.json says whose rows they are, under `repeats_seed`. Raises RunError where
    that one is damaged.
    """
    source, target = identity.folder(original), identity.folder(run)
    try:
        if target.exists() or not RunFolder.of(original).is_over():
            return False
    except RunError:
        return False  # which its own run says

    def change(copied: Path) -> None:
        for mirror in ("wandb", "tensorboard"):  # they show the other run
            shutil.rmtree(copied / mirror, ignore_errors=True)
        (copied / "config.yaml").write_text(as_yaml(run))
        about = copied / "environment.json"
        about.write_text(json.dumps({**json.loads(about.read_text()), "repeats_seed": original.seed}))

    try:
        copy(source, target, change)
    except (OSError, ValueError) as error:
        if target.exists():  # another process has begun it
            return False
        raise RunError(
            f"{source}: cannot be copied for seed {run.seed} ({error}); delete it to train it anew"
        ) from error
    return True


def brought_to_end(
    runs: Iterable[RunConfig], copies: Mapping[Path, RunConfig], display: Display, ranks: Ranks | None = None
) -> Iterator[RunFolder]:
    """The folders of runs, each brought to its end in this process, by a copy where `copies`, as `repeats` gives
    them, has what it repeats. Raises as `bring_to_end`."""
    for run in runs:
        if original := copies.get(identity.folder(run)):
            take_over(run, original)
        yield bring_to_end(run, display, ranks)


def draws(run: RunConfig) -> Literal["task", "method"] | None:
    """What of a run reads its seed: its task, whatever the method, or its method alone; None where nothing does.

    One of the two also where that could not be found out.
    """
    small = tuple(lr * 1e-9 for lr in run.lr)  # a step that diverges would say nothing of the seed
    unread = replace(run, lr=small, device="cpu", seed=_Unread())  # pyright: ignore[reportArgumentType]
    rounds = sorted({*(2**power for power in range(run.rounds.bit_length())), run.rounds})
    with suppress(Exception):  # whatever is wrong with it, its run says
        task = build_task(unread)
        x, statistics = task.start().expand(1, -1).clone(), task.start_statistics().expand(1, -1, -1).clone()
        for t in rounds:
            task.gradients(x, statistics, t)
        task.evaluate(x, statistics[..., 0, :])
        with suppress(Exception):
            trainer = build_trainer(unread, Ranks())
            for t in rounds:
                trainer.t = t - 1
                trainer.step()
            return None
        return "method"
    return "task"


class _Unread:
    """Stands for a seed, and raises LookupError when it is written, compared or hashed; it is no number."""

    def _refuse(self, *_: object) -> NoReturn:
        raise LookupError("the seed was read")

    __str__ = __repr__ = __format__ = __hash__ = __eq__ = __bool__ = _refuse  # pyright: ignore[reportAssignmentType]
