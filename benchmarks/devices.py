"""Every method with every compressor for a few rounds of digits on a device, against the same on the CPU.

    python -m benchmarks.devices file=devices.jsonl                         on a GPU, 20 rounds
    python -m benchmarks.devices file=devices.jsonl device=cpu rounds=8     other keys go to the runs

Twenty rounds have a warm-up, the switch and what follows. The difference is that of the parameters after the last
round, ‖x − x'‖₂ over ‖x − x₁‖₂ on the CPU: sums in another order change a sign near zero, and the methods go on from
there. A line of the file is a combination; those that are there without an error are not done again, and where one
fails its traceback is kept and the others are done. Combinations that the configuration refuses are left out.
"""

import json
import sys
import traceback
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from algorithms.layout import of_vectors
from common.errors import RunError, UsageError, exit_with_message
from experiments.cluster.ranks import Ranks
from experiments.config.compose import CONF
from experiments.config.run import load_run
from experiments.config.schema import Run
from experiments.training.build import build_algorithm, build_trainer
from experiments.training.trainer import Trainer

COMMON = (
    "task=digits task.model.width=8 task.precision=float32 cluster.workers=4 lr=0.003 rounds=20 epochs=null "
    "device=cuda threads=1"
)


D = 1 << 12
"""As many coordinates as every compressor takes."""


def main(arguments: list[str] | None = None) -> None:
    """The command line above."""
    with exit_with_message():
        given = sys.argv[1:] if arguments is None else arguments
        [file] = [Path(word.removeprefix("file=")) for word in given if word.startswith("file=")] or [None]
        if file is None:
            raise UsageError("file: where are the results kept? file=devices.jsonl, say")
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        found = {row["of"]: row for row in rows if "error" not in row}
        file.parent.mkdir(parents=True, exist_ok=True)
        for name, run in _combinations([word for word in given if not word.startswith("file=")]):
            if name not in found:
                found[name] = _row(name, run)
                with file.open("a") as lines:
                    lines.write(json.dumps(found[name]) + "\n")
            row = found[name]
            print(f"{name:<60} {'failed' if 'error' in row else format(row['difference'], '.3g')}", flush=True)
        if failed := [name for name, row in found.items() if "error" in row]:
            raise RunError(f"{len(failed)} of {len(found)} failed, tracebacks in {file}: {', '.join(failed)}")
        worst = max(found.values(), key=lambda row: row["difference"])
        print(f"{len(found)} combinations; the largest difference is {worst['difference']:.3g}, of {worst['of']}")


def _combinations(overrides: list[str]) -> Iterator[tuple[str, Run]]:
    """By name, what the configuration lets be combined; every method's own compressor layer by layer too."""
    methods, compressors = (
        sorted(path.stem for path in (CONF / group).glob("*.yaml")) for group in ("algorithm", "compressor")
    )
    for method in methods:
        for part in (*(f"compressor={name}" for name in compressors), "partition=layer"):
            name = f"algorithm={method} {part}"
            with suppress(UsageError):
                run = load_run([*COMMON.split(), *name.split(), *overrides])
                require_fit(run)
                yield name, run


def require_fit(run: Run) -> None:
    """Raise UsageError where the method does not take the compressor."""
    try:
        build_algorithm(run, of_vectors([D])).check(D)
    except ValueError as error:
        raise UsageError(str(error)) from error


def _row(name: str, run: Run) -> dict[str, object]:
    try:
        there, here = (_trained(one) for one in (run, replace(run, device="cpu")))
        x = here.state.replica.x
        moved = (x - here.task.start()).norm()
        return {
            "of": name,
            "device": str(there.task.device),
            "difference": float((there.state.replica.x.to("cpu") - x).norm() / moved),
            "train_loss": there.evaluate()[0]["train_loss"],
            "train_loss_on_cpu": here.evaluate()[0]["train_loss"],
        }
    except Exception:
        return {"of": name, "error": traceback.format_exc()}


def _trained(run: Run) -> Trainer:
    """A trainer of the run after its rounds."""
    trainer = build_trainer(run, Ranks())
    for t in range(1, run.rounds + 1):
        trainer.step(diagnose=t == run.rounds)
    return trainer


if __name__ == "__main__":
    main()
