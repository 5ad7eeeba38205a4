"""The contract of tasks (experiments/tasks/task.py).

The fixture `build_task` is under test: a function of `workers`, `seed` and `ids` (None for all workers) that builds
the task anew at every call, from data that are enough for four workers.
"""

import json
from collections.abc import Callable
from contextlib import suppress

import pytest
import torch
from torch import Tensor

from algorithms.compressors import Identity, ScaledSign
from algorithms.core.algorithm import Algorithm
from algorithms.core.channels import Direct
from algorithms.core.update_rules import SGD
from experiments.contracts.assertions import (
    assert_close,
    assert_form,
    assert_pure,
    assert_same,
    assert_typed,
    note_input,
)
from experiments.tasks.task import Task, layout_of
from plots.runs.columns import TABLE, refuse_reserved_names

BuildTask = Callable[..., Task]
WORKERS, SEED, TRIALS = 4, 5, 3
ROUNDS = (1, 2, 3, 7)


class TestTask:
    def test_says_what_it_is(self, build_task: BuildTask) -> None:
        """It has d, sizes that sum to d, workers, dtype, device, `devices` to choose from, and epochs that grow."""
        task = build_whole(build_task)
        assert sum(task.sizes) == task.d > 0, f"sizes={task.sizes}: expected d={task.d} in all"
        sizes = tuple(block.size for block in layout_of(task))
        assert sizes == tuple(task.sizes), f"layout: expected blocks of {task.sizes}, saw {sizes}"
        assert task.workers == WORKERS, f"workers={task.workers}: expected {WORKERS}"
        assert task.dtype in (torch.float32, torch.float64), f"dtype={task.dtype}: expected float32 or float64"
        assert isinstance(task.device, torch.device), f"device={task.device!r}: expected a torch.device"
        devices = set(getattr(type(task), "devices", ()))
        assert set() < devices <= {"cpu", "cuda"}, f"devices={devices}: expected some of cpu and cuda"
        epochs = [task.epoch(t) for t in (0, 1, 2, 10, 1000)]
        grows = epochs == sorted(epochs) and epochs[-1] > epochs[0] == 0
        assert grows, f"expected growing epochs of rounds 0, 1, 2, 10 and 1000 from 0, saw {epochs}"

    def test_has_typed_options(self, build_task: BuildTask) -> None:
        """Every parameter has an annotation, by which configurations are checked; workers, seed and ids are some."""
        assert_typed(type(build_whole(build_task)), "workers", "seed", "ids")

    def test_keeps_a_record(self, build_task: BuildTask) -> None:
        """facts() is plain values that JSON can hold; step_unit() a positive number or a ValueError."""
        task = build_whole(build_task)
        facts = task.facts()
        assert json.loads(json.dumps(facts)) == facts, f"expected facts that come back from JSON, saw {facts}"
        for compressor in (Identity(), ScaledSign()):
            with suppress(ValueError):
                unit = task.step_unit(Algorithm.from_channel(Direct(compressor), SGD()))
                assert 0 < unit < float("inf"), f"expected a positive step_unit, saw {unit!r}"

    def test_starts_somewhere(self, build_task: BuildTask) -> None:
        """start() is finite, [d]; start_statistics() is [W, b]; both are the same at every call."""
        task = build_whole(build_task)
        x, statistics = task.start().clone(), task.start_statistics().clone()
        assert_form(x, (task.d,), task.dtype, "start()")
        assert_form(statistics, (WORKERS, statistics.shape[-1]), task.dtype, "start_statistics()")
        loss_after(task, 3, 0.1)
        assert_same(task.start(), x, "start() later and at first")
        assert_same(task.start_statistics(), statistics, "start_statistics() later and at first")

    def test_gives_gradients(self, build_task: BuildTask) -> None:
        """gradients() is finite, [T, W, d], in the dtype of x, and the statistics keep their form."""
        task, x, statistics = points(build_task)
        for t in ROUNDS:
            with note_input(f"round {t}"):
                found, after = task.gradients(x, statistics, t)
                assert_form(found, (TRIALS, WORKERS, task.d), task.dtype, "gradients")
                assert_form(after, statistics.shape, task.dtype, "statistics")

    def test_gives_gradients_at_models_of_workers_own(self, build_task: BuildTask) -> None:
        """gradients_at(), if there is one, takes each worker's model; at equal models it equals gradients()."""
        task, x, statistics = points(build_task)
        if not hasattr(task, "gradients_at"):
            return
        models = torch.stack([x * (1 - 0.1 * worker) for worker in range(WORKERS)], 1)
        rtol = 1e4 * torch.finfo(task.dtype).eps
        for t in ROUNDS[:2]:
            with note_input(f"round {t}"):
                alike = task.gradients_at(x.unsqueeze(1).expand_as(models), statistics, t)
                assert_close(alike, task.gradients(x, statistics, t), rtol, "at equal models")
                apart = task.gradients_at(models, statistics, t)
                for worker in range(WORKERS):
                    common, after = task.gradients(models[:, worker], statistics, t)
                    found = apart[0][:, worker], apart[1][:, worker]
                    assert_close(found, (common[:, worker], after[:, worker]), rtol, f"worker {worker}")

    def test_gives_measurements(self, build_task: BuildTask) -> None:
        """evaluate() has train_loss, grad_norm and the declared columns, each finite, [T], also at start()."""
        task, x, statistics = points(build_task)
        start = task.start().expand_as(x).clone(), task.start_statistics().expand_as(statistics)
        for place, at, own in (("at start()", *start), ("near start()", x, statistics)):
            with note_input(place):
                measured = task.evaluate(at, own[..., 0, :])
                for name, values in measured.items():
                    assert isinstance(values, Tensor), f"{name}: expected a tensor, saw {values!r}"
                    assert_form(values, (TRIALS,), values.dtype, name)
        assert {"train_loss", "grad_norm"} <= set(measured), f"expected both, saw {', '.join(measured)}"
        refuse_reserved_names(measured)
        declared = {column.name: column for column in (*TABLE, *getattr(task, "columns", ()))}
        unknown, metric = ", ".join(measured.keys() - declared), getattr(task, "metric", "grad_norm")
        assert not unknown, f'{unknown}: expected a Column(name, better="lower" or "higher") in the task\'s `columns`'
        directed = {name for name in measured if declared[name].better}
        assert metric in directed, f"metric={metric}: expected one with a better direction: {', '.join(directed)}"
        assert (measured["grad_norm"] >= 0).all(), f"expected grad_norm ≥ 0, saw {measured['grad_norm'].tolist()}"

    def test_has_the_gradient_of_its_loss(self, build_task: BuildTask) -> None:
        """Differences of train_loss give grad_norm, and over all rows the workers' mean gradient."""
        task, x, statistics = points(build_task)
        wanted = numerical_gradient(task, x, statistics)
        norms = wanted.norm(dim=-1)
        assert_close(task.evaluate(x, statistics[..., 0, :])["grad_norm"].to(norms), norms, 1e-5, "grad_norm")
        found = [task.gradients(x, statistics, t)[0] for t in ROUNDS]
        if not statistics.shape[-1] and all(torch.equal(found[0], other) for other in found):
            assert_close(found[0].mean(-2), wanted, 1e-5, "the workers' mean gradient and ∇f(x)")

    def test_descends(self, build_task: BuildTask) -> None:
        """Some step size reduces train_loss in 20 rounds of gradient descent."""
        first = loss_after(build_whole(build_task), 0, 0)
        losses = (loss_after(build_whole(build_task), 20, lr) for lr in (1, 0.1, 0.01, 0.001))
        assert any(loss < first for loss in losses), f"expected less than {first:.6g} by lr 1, 0.1, 0.01 or 0.001"

    def test_gives_ranks_what_it_gives_all(self, build_task: BuildTask) -> None:
        """A part of the workers gets the same results alone and among all, bit for bit."""
        task, x, statistics = points(build_task)
        fresh, measured = build_whole(build_task), task.evaluate(x, statistics[..., 0, :])
        gradients, after = task.gradients(x, statistics, 2)
        for ids in ([0, 1], [2, 3], [3]):
            with note_input(f"the workers {ids} of {WORKERS}"):
                part = build_task(workers=WORKERS, seed=SEED, ids=ids)
                start = part.start(), part.start_statistics()
                assert_same(start, (fresh.start(), fresh.start_statistics()[ids]), "start() and start_statistics()")
                found = part.gradients(x, statistics[:, ids].contiguous(), 2)
                assert_same(found, (gradients[:, ids], after[:, ids]), "gradients and statistics")
                assert_same(part.evaluate(x, statistics[..., 0, :]), measured, "evaluate")

    def test_takes_trials_apart(self, build_task: BuildTask) -> None:
        """A trial does not depend on the others, and alone is the same up to rounding."""
        task, x, statistics = points(build_task)
        gradients, after = task.gradients(x, statistics, 2)
        measured = task.evaluate(x, statistics[..., 0, :])
        rtol = 1e4 * torch.finfo(task.dtype).eps
        for trial in range(TRIALS):
            with note_input(f"trial {trial}"):
                others, alone = x * 0.5 - 0.1, slice(trial, trial + 1)
                others[trial] = x[trial]
                among, _ = task.gradients(others, statistics, 2)
                assert_same(among[trial], gradients[trial], "gradients among others")
                found = task.gradients(x[alone], statistics[alone], 2)
                assert_close(found, (gradients[alone], after[alone]), rtol, "gradients and statistics alone")
                own = {name: values[alone] for name, values in measured.items()}
                assert_close(task.evaluate(x[alone], statistics[alone, 0]), own, rtol, "evaluate alone")

    def test_depends_on_seed_and_round_alone(self, build_task: BuildTask) -> None:
        """A round's gradients are the same in a new process, and after other rounds."""
        task, x, statistics = points(build_task)
        torch.manual_seed(0)
        wanted = {t: task.gradients(x, statistics, t)[0].clone() for t in ROUNDS}
        torch.manual_seed(1)
        fresh = build_whole(build_task)
        assert_same(fresh.start(), task.start(), "start()")
        for t in reversed(ROUNDS):
            found, _ = fresh.gradients(x, statistics, t)
            assert_same(found, wanted[t], f"gradients of round {t}, rounds in another order")

    def test_leaves_what_it_is_given(self, build_task: BuildTask) -> None:
        """Neither arguments nor earlier results are changed in place."""
        task, x, statistics = points(build_task)
        other, own = x * 0.5 + 0.1, statistics[..., 0, :]
        assert_pure(task.gradients, (x, statistics, 1), (other, statistics, 2))
        assert_pure(task.evaluate, (x, own), (other, own))


def build_whole(build_task: BuildTask) -> Task:
    """Build the task with all workers."""
    return build_task(workers=WORKERS, seed=SEED, ids=None)


def points(build_task: BuildTask) -> tuple[Task, Tensor, Tensor]:
    """Return the whole task, x [T, d] around the start, and the statistics [T, W, b] of workers after a round."""
    task, random = build_whole(build_task), torch.Generator().manual_seed(0)
    noise = torch.randn(TRIALS, task.d, generator=random, dtype=torch.float64).to(task.device, task.dtype)
    x = task.start() + 0.1 * noise
    return task, x, task.gradients(x, task.start_statistics().expand(TRIALS, -1, -1).clone(), 1)[1]


def loss_after(task: Task, rounds: int, lr: float) -> float:
    """Return train_loss after so many rounds of gradient descent."""
    x, statistics = task.start()[None].clone(), task.start_statistics()[None].clone()
    for t in range(1, rounds + 1):
        gradients, statistics = task.gradients(x, statistics, t)
        x = x - lr * gradients.mean(-2)
    return float(task.evaluate(x, statistics[..., 0, :])["train_loss"][0])


def numerical_gradient(task: Task, x: Tensor, statistics: Tensor) -> Tensor:
    """Return ∇ of train_loss [T, d] at x [T, d] by central differences, all coordinates at once."""
    if task.dtype is not torch.float64 or task.d > 256:
        pytest.skip("differences take float64 and at most 256 coordinates")
    moves, rows = 1e-6 * torch.eye(task.d, dtype=x.dtype, device=x.device), []
    for point, own in zip(x, statistics[:, 0].unsqueeze(1).expand(-1, task.d, -1), strict=True):
        above, below = (task.evaluate(point + step, own)["train_loss"] for step in (moves, -moves))
        rows.append((above - below) / 2e-6)
    return torch.stack(rows).to(x.dtype)
