"""What every task keeps."""

from __future__ import annotations

import inspect
import json

import torch

from algorithms.compressors import Identity, ScaledSign
from experiments.config.classes import parameter_types
from experiments.conformance.findings import demand, expect, expect_close, expect_same, given
from experiments.conformance.probes import (
    ROUNDS,
    SEED,
    TRIALS,
    WORKERS,
    BuildTask,
    all_of,
    differences,
    expect_form,
    is_exact,
    loss_after,
    moved,
    points,
    takes_differences,
)

_TOO_MUCH = "differences take float64 and at most 256 coordinates"


def check_task(build: BuildTask) -> None:
    """Raise Violation with every promise of a task (experiments/tasks/task.py) that these tasks break.

        check_task(partial(MyTask, dataset=my_data(), regularization=0.1))

    `build` is called with `workers`, `seed` and `ids`, for four workers, for whom the data must be enough.
    """
    demand(CHECKS, build)


def says_what_it_is(build: BuildTask) -> None:
    """It has d, sizes that sum to d, workers, dtype, device, and `devices` to choose from."""
    task = all_of(build)
    expect(type(task.d) is int and task.d > 0, "d to be a positive whole number", repr(task.d))
    expect(sum(task.sizes) == task.d, f"sizes of {task.d} coordinates", task.sizes)
    expect(task.workers == WORKERS, f"workers = {WORKERS}", task.workers)
    expect(task.dtype in (torch.float32, torch.float64), "dtype float32 or float64", task.dtype)
    expect(isinstance(task.device, torch.device), "device to be a torch.device", repr(task.device))
    devices = getattr(type(task), "devices", None)
    expect(devices and set(devices) <= {"cpu", "cuda"}, "the class's devices to be of cpu and cuda", devices)


def has_typed_options(build: BuildTask) -> None:
    """Every parameter has an annotation, by which configurations are checked; workers, seed and ids are some."""
    kind = type(all_of(build))
    names = list(inspect.signature(kind).parameters)
    bare = [name for name in names if name not in parameter_types(kind)]
    expect(not bare, "annotations", f"none at {', '.join(bare)}")
    missing = {"workers", "seed", "ids"} - set(names)
    expect(not missing, "parameters workers, seed and ids", f"no {', '.join(sorted(missing))}")
    if hasattr(kind, "check_options"):
        extra = set(inspect.signature(kind.check_options).parameters) - set(names)
        expect(not extra, "check_options to take options of the class", f"{', '.join(sorted(extra))} besides")


def starts_somewhere(build: BuildTask) -> None:
    """start() is finite, [d]; start_statistics() is [W, b]; both are the same at every call."""
    task = all_of(build)
    x, statistics = task.start().clone(), task.start_statistics().clone()
    expect_form(x, (task.d,), task, "start()")
    expect_form(statistics, (WORKERS, statistics.shape[-1]), task, "start_statistics()")
    moved(task, 3)
    expect_same(task.start(), x, "start() as at the first call")
    expect_same(task.start_statistics(), statistics, "start_statistics() as at the first call")


def gives_gradients(build: BuildTask) -> None:
    """gradients() is finite, [T, W, d], in the dtype of x, and the statistics keep their form."""
    task = all_of(build)
    x, statistics = points(task)
    for t in ROUNDS:
        with given(f"round {t}"):
            gradients, after = task.gradients(x, statistics, t)
            expect_form(gradients, (TRIALS, WORKERS, task.d), task, "gradients")
            expect_form(after, statistics.shape, task, "statistics")


def gives_measurements(build: BuildTask) -> None:
    """evaluate() has train_loss, grad_norm and whatever else, each finite, [T]."""
    task = all_of(build)
    x, statistics = points(task)
    measured = task.evaluate(x, statistics[..., 0, :])
    missing = {"train_loss", "grad_norm"} - set(measured)
    expect(not missing, "train_loss and grad_norm", f"only {', '.join(measured)}")
    for name, values in measured.items():
        expect(values.shape == (TRIALS,), f"{name} of shape [{TRIALS}]", list(values.shape))
        expect(values.isfinite().all(), f"{name} to be finite", values.tolist())
    expect((measured["grad_norm"] >= 0).all(), "grad_norm ≥ 0", measured["grad_norm"].tolist())


def measures_its_gradient(build: BuildTask) -> str | None:
    """grad_norm is the norm of train_loss's gradient, by differences."""
    task = all_of(build)
    if not takes_differences(task):
        return _TOO_MUCH
    x, statistics = points(task)
    norms = task.evaluate(x, statistics[..., 0, :])["grad_norm"]
    wanted = torch.linalg.vector_norm(differences(task, x, statistics[..., 0, :]), dim=-1)
    expect_close(norms.to(wanted.dtype), wanted, 1e-5, "grad_norm")
    return None


def averages_to_its_gradient(build: BuildTask) -> str | None:
    """Gradients over all rows have train_loss's gradient as their mean over workers, by differences."""
    task = all_of(build)
    x, statistics = points(task)
    if not takes_differences(task):
        return _TOO_MUCH
    if not is_exact(task):
        return "gradients are over batches, or depend on statistics"
    mean = task.gradients(x, statistics, 1)[0].mean(-2)
    expect_close(mean, differences(task, x, statistics[..., 0, :]), 1e-5, "mean_i ∇f_i(x) = ∇f(x)")
    return None


def descends(build: BuildTask) -> None:
    """Some step size reduces train_loss in 20 rounds of gradient descent."""
    task = all_of(build)
    losses = {lr: loss_after(task, lr) for lr in (0.0, 1.0, 0.1, 0.01, 0.001)}
    first = losses.pop(0.0)
    expect(min(losses.values()) < first, f"train_loss below {first:.6g}", f"by step size {losses}")


def gives_ranks_what_it_gives_all(build: BuildTask) -> None:
    """For some of the workers alone it gives what it gives them among all, bit for bit."""
    task = all_of(build)
    x, statistics = points(task)
    wanted, measured = task.gradients(x, statistics, 2), task.evaluate(x, statistics[..., 0, :])
    at_first = all_of(build)
    for ids in (range(2), range(2, 4), range(3, 4)):
        with given(f"the workers {list(ids)} of {WORKERS}"):
            part = build(workers=WORKERS, seed=SEED, ids=ids)
            expect_same(part.start(), at_first.start(), "start()")
            expect_same(part.start_statistics(), at_first.start_statistics()[list(ids)], "start_statistics()")
            found = part.gradients(x, statistics[:, list(ids)].contiguous(), 2)
            expect_same(found[0], wanted[0][:, list(ids)], "gradients")
            expect_same(found[1], wanted[1][:, list(ids)], "statistics")
            for name, values in part.evaluate(x, statistics[..., 0, :]).items():
                expect_same(values, measured[name], name)


def takes_trials_apart(build: BuildTask) -> None:
    """A trial does not depend on the others, and alone is the same up to rounding."""
    task = all_of(build)
    x, statistics = points(task)
    gradients, after = task.gradients(x, statistics, 2)
    measured = task.evaluate(x, statistics[..., 0, :])
    rtol = 1e4 * torch.finfo(task.dtype).eps
    for trial in range(TRIALS):
        with given(f"trial {trial}"):
            others = torch.where(torch.arange(TRIALS)[:, None].to(x.device) == trial, x, x * 0.5 - 0.1)
            expect_same(task.gradients(others, statistics, 2)[0][trial], gradients[trial], "gradients among others")
            own, theirs = x[trial, None], statistics[trial, None]
            alone, statistics_alone = task.gradients(own, theirs, 2)
            expect_close(alone[0], gradients[trial], rtol, "gradients alone")
            expect_close(statistics_alone[0], after[trial], rtol, "statistics alone")
            for name, values in task.evaluate(own, theirs[:, 0]).items():
                expect_close(values[0], measured[name][trial], rtol, f"{name} alone")


def depends_on_seed_and_round_alone(build: BuildTask) -> None:
    """A round's gradients are the same in a new process, after other rounds, and at every call."""
    task = all_of(build)
    x, statistics = points(task)
    torch.manual_seed(0)
    wanted = {t: task.gradients(x, statistics, t)[0].clone() for t in ROUNDS}
    torch.manual_seed(1)
    fresh = all_of(build)
    expect_same(fresh.start(), task.start(), "start()")
    for t in reversed(ROUNDS):
        with given(f"round {t}"):
            expect_same(fresh.gradients(x, statistics, t)[0], wanted[t], "gradients as of rounds in order")


def leaves_what_it_is_given(build: BuildTask) -> None:
    """Neither x and statistics, nor what was returned before, is changed in place."""
    task = all_of(build)
    x, statistics = points(task)
    kept = {"x": x, "statistics": statistics}
    before = {name: tensor.clone() for name, tensor in kept.items()}
    kept["gradients of the round before"], kept["statistics of the round before"] = task.gradients(x, statistics, 1)
    before |= {name: tensor.clone() for name, tensor in kept.items() if name not in before}
    task.gradients(x * 0.5 + 0.1, statistics, 2)
    task.evaluate(x, statistics[..., 0, :])
    for name, tensor in kept.items():
        expect_same(tensor, before[name], f"{name} as before")


def counts_epochs(build: BuildTask) -> None:
    """epoch(t) is 0 at first, and grows."""
    task = all_of(build)
    epochs = [task.epoch(t) for t in (0, 1, 2, 10, 1000)]
    expect(epochs[0] == 0, "epoch(0) = 0", epochs[0])
    expect(epochs == sorted(epochs) and epochs[-1] > 0, "growing epochs of rounds 0, 1, 2, 10 and 1000", epochs)


def keeps_a_record(build: BuildTask) -> None:
    """facts() is plain values that JSON can hold; step_unit() a positive number or a ValueError."""
    task = all_of(build)
    facts = task.facts()
    expect(json.loads(json.dumps(facts)) == facts, "facts that come back from JSON", facts)
    for compressor in (Identity(), ScaledSign()):
        try:
            unit = task.step_unit(compressor)
        except ValueError:
            continue
        expect(isinstance(unit, (int, float)) and 0 < unit < float("inf"), "a positive step_unit", repr(unit))


CHECKS = (
    says_what_it_is,
    has_typed_options,
    starts_somewhere,
    gives_gradients,
    gives_measurements,
    measures_its_gradient,
    averages_to_its_gradient,
    descends,
    gives_ranks_what_it_gives_all,
    takes_trials_apart,
    depends_on_seed_and_round_alone,
    leaves_what_it_is_given,
    counts_epochs,
    keeps_a_record,
)
"""In the order in which they are reported."""
