"""Methods with compressors for a few rounds of digits on a device, against the same on the CPU.

    python -m benchmarks.devices                          on a GPU, 20 rounds
    python -m benchmarks.devices device=cpu rounds=8      further keys go to the runs

Each method has its own compressor, and naive compression every one. Twenty rounds have a warm-up, the switch and what
follows; methods with a period exchange in every fifth. A line a combination: an error, why the configuration refuses
it, or the difference of the parameters after the last round, ‖x − x'‖₂ over ‖x − x₁‖₂ on the CPU. Sums in another
order change a sign near zero, and the methods go on from there.
"""

import math
import sys
import traceback
from dataclasses import replace

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
        overrides = sys.argv[1:] if arguments is None else arguments
        run = load_run([*COMMON.split(), *overrides])  # what is wrong with all of them is told once
        layout = layout_of(build_task(replace(run, device="cpu")))
        found, failed = {}, []
        for name in names():
            try:
                found[name] = _difference(_combined(name, overrides, layout))
                print(f"{name}: {found[name]:.3g}", flush=True)
            except UsageError as error:
                print(f"{name}: refused: {error}", flush=True)
            except Exception:
                failed.append(name)
                print(f"{name}: {traceback.format_exc()}", flush=True)
        if failed:
            raise RunError(f"{len(failed)} failed: {', '.join(failed)}")
        worst = max(found, key=lambda name: found[name])
        print(f"{len(found)} combinations; the largest difference is {found[worst]:.3g}, of {worst}")


def names() -> list[str]:
    """What is compared."""
    return [
        f"{prefix}={path.stem}"
        for group, prefix in (("algorithm", "algorithm"), ("compressor", "algorithm=naive compressor"))
        for path in sorted((CONF / group).glob("*.yaml"))
    ]


def _combined(name: str, overrides: list[str], layout: Layout) -> RunConfig:
    """The run of a combination. Raises UsageError where the configuration refuses it."""
    run = load_run([*COMMON.split(), *name.split(), *overrides])
    if "period" in run.algorithm.options:
        run = replace(run, algorithm=replace(run.algorithm, options={**run.algorithm.options, "period": PERIOD}))
    try:
        build_algorithm(run, layout).check(sum(block.size for block in layout))
    except ValueError as error:
        raise UsageError(str(error)) from error
    return run


def _difference(run: RunConfig) -> float:
    there, here = (_trained(one) for one in (run, replace(run, device="cpu")))
    x = here.state.replica.x
    moved = float((x - here.task.start()).norm())
    apart = float((there.state.replica.x.to("cpu") - x).norm())
    if not (moved > 0 and math.isfinite(apart / moved)):
        raise RunError(f"nothing to compare: on the CPU x moved by {moved}, the two are {apart} apart")
    return apart / moved


def _trained(run: RunConfig) -> Trainer:
    """A trainer of the run after its rounds."""
    trainer = build_trainer(run, Ranks())
    for t in range(1, run.rounds + 1):
        trainer.step(diagnose=t == run.rounds)
    return trainer


if __name__ == "__main__":
    main()
