"""Methods with compressors for a few rounds of digits on a device, against the same on the CPU.

    python -m benchmarks.devices file=devices.jsonl                         on a GPU, 20 rounds
    python -m benchmarks.devices file=devices.jsonl all=true                every method with every compressor
    python -m benchmarks.devices file=devices.jsonl device=cpu rounds=8     other keys go to the runs

Without all=true each method has its own compressor, and naive compression every one: a twentieth of all.

Twenty rounds have a warm-up, the switch and what follows; methods with a period exchange in every fifth. The
difference is that of the parameters after the last round, ‖x − x'‖₂ over ‖x − x₁‖₂ on the CPU: sums in another order
change a sign near zero, and the methods go on from there. A line of the file is a combination, an error, or why the
configuration refuses it. A combination that is in the file is not done again.
"""

import json
import math
import sys
import traceback
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from algorithms.utils.layout import Layout
from common.errors import RunError, UsageError, exit_with_message
from experiments.cluster.ranks import Ranks
from experiments.config.compose import CONF
from experiments.config.run import load_run
from experiments.config.schema import RunConfig
from experiments.tasks.task import layout_of
from experiments.training.build import build_algorithm, build_task, build_trainer
from experiments.training.trainer import Trainer

COMMON = (
    "task=digits task.model.width=8 task.precision=float32 cluster.workers=4 lr=0.003 rounds=20 epochs=null "
    "device=cuda threads=1"
)

PERIOD = 5
"""Rounds from one exchange to the next; by their own periods some methods would not exchange at all."""


def main(arguments: list[str] | None = None) -> None:
    """The command line above."""
    with exit_with_message():
        given = sys.argv[1:] if arguments is None else arguments
        [file] = [Path(word.removeprefix("file=")) for word in given if word.startswith("file=")] or [None]
        if file is None:
            raise UsageError("file: where are the results kept? file=devices.jsonl, say")
        overrides = [word for word in given if word != "all=true" and not word.startswith("file=")]
        layout = network([*COMMON.split(), *overrides])  # what is wrong with all of them is told once
        rows = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
        file.parent.mkdir(parents=True, exist_ok=True)
        for name in _names("all=true" in given):
            if name in {row["of"] for row in rows}:
                continue
            rows.append(_row(name, overrides, layout))
            with file.open("a") as lines:
                lines.write(json.dumps(rows[-1]) + "\n")
            if torch.cuda.is_initialized():
                torch.cuda.synchronize()  # an assertion in a kernel ends the command here; the next call goes on
        compared = {row["of"]: row for row in rows if "refused" not in row}
        if failed := [name for name, row in compared.items() if "error" in row]:
            raise RunError(f"{len(failed)} of {len(compared)} failed, tracebacks in {file}: {', '.join(failed)}")
        worst = max(compared.values(), key=lambda row: row["difference"])
        print(f"{len(compared)} combinations; the largest difference is {worst['difference']:.3g}, of {worst['of']}")


def _names(every: bool) -> Iterator[str]:
    """What could be combined: methods with their own compressor, and naive compression with each; with `every` all
    methods with each, and layer by layer."""
    methods, compressors = (
        sorted(path.stem for path in (CONF / group).glob("*.yaml")) for group in ("algorithm", "compressor")
    )
    yield from (f"algorithm={method}" for method in methods)
    for method in methods if every else ["naive"]:
        yield from (f"algorithm={method} compressor={name}" for name in compressors)
    if every:
        yield from (f"algorithm={method} partition=layer" for method in methods)


def network(words: list[str]) -> Layout:
    """The parameter tensors of the network that all combinations train. Raises UsageError."""
    return layout_of(build_task(replace(load_run(words), device="cpu")))


def combined(name: str, overrides: list[str], layout: Layout) -> RunConfig:
    """The run of a combination. Raises UsageError where the configuration refuses it."""
    run = load_run([*COMMON.split(), *name.split(), *overrides])
    if "period" in run.algorithm.options:
        run = replace(run, algorithm=replace(run.algorithm, options={**run.algorithm.options, "period": PERIOD}))
    try:
        build_algorithm(run, layout).check(sum(block.size for block in layout))
    except ValueError as error:
        raise UsageError(str(error)) from error
    return run


def _row(name: str, overrides: list[str], layout: Layout) -> dict[str, object]:
    try:
        run = combined(name, overrides, layout)
    except UsageError as error:
        return {"of": name, "refused": str(error)}
    try:
        there, here = (_trained(one) for one in (run, replace(run, device="cpu")))
        x = here.state.replica.x
        moved = float((x - here.task.start()).norm())
        apart = float((there.state.replica.x.to("cpu") - x).norm())
        if not (moved > 0 and math.isfinite(apart / moved)):
            raise RunError(f"nothing to compare: on the CPU x moved by {moved}, the two are {apart} apart")
        return {
            "of": name,
            "device": str(there.task.device),
            "difference": apart / moved,
            "train_loss": there.evaluate()[0]["train_loss"],
            "train_loss_on_cpu": here.evaluate()[0]["train_loss"],
        }
    except Exception:
        return {"of": name, "error": traceback.format_exc()}


def _trained(run: RunConfig) -> Trainer:
    """A trainer of the run after its rounds."""
    trainer = build_trainer(run, Ranks())
    for t in range(1, run.rounds + 1):
        trainer.step(diagnose=t == run.rounds)
    return trainer


if __name__ == "__main__":
    main()
