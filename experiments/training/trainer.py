"""The rounds of one run, with measurements between them."""

import math
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from fractions import Fraction
from typing import NoReturn

import torch
from torch import Tensor

from algorithms.core.algorithm import as_dicts, clip_norm, from_dicts, leaves, map_tensors
from algorithms.core.bit_counter import BitCounter, TwoLevelBitCounter, as_number
from algorithms.core.lr_schedules import constant
from common.errors import Diverged, RunError, UsageError
from common.names import explain_unknown
from experiments.cluster.base import Cluster
from experiments.tasks.task import Task
from plots.runs.columns import TABLE, refuse_reserved_names


class Trainer:
    """Trains all trials of a run, one per step size, in one batch, with the workers of this process.

    The step size of a trial is lr · unit, times the schedule, a function of the round and of `rounds`. Gradients are
    clipped to the norm `clip` before the method sees them. `t` is the number of rounds done. `verified` says whether
    all of them are known to be finite. On a GPU this is checked only when rows are due.
    """

    is_resumable = True

    def __init__(
        self,
        task: Task,
        cluster: Cluster,
        *,
        lrs: Sequence[float],
        rounds: int,
        schedule: Callable[[int, int], float] = constant,
        clip: float | None = None,
        unit: float = 1.0,
    ) -> None:
        if cluster.algorithm.has_local_models and not hasattr(task, "gradients_at"):
            raise ValueError(f"{type(task).__name__}: has no gradients_at, which a method with local steps needs")
        if cluster.algorithm.takes_full_gradient(1) and not hasattr(task, "full_gradients"):
            raise ValueError(f"{type(task).__name__}: has no full_gradients, which this method needs")
        self.task, self.cluster, self.lrs, self.rounds = task, cluster, lrs, rounds
        self.schedule, self.clip = schedule, clip
        self.step_sizes = [lr * unit for lr in lrs]
        self._lr = torch.tensor(self.step_sizes, dtype=task.dtype, device=task.device).unsqueeze(-1)
        self.t = 0
        self.meter = BitCounter() if cluster.group_size == 1 else TwoLevelBitCounter()
        self.seconds = 0.0  # of training; evaluation is not counted
        self.state = cluster.start(task.start().expand(len(lrs), -1).clone())
        self.statistics = task.start_statistics().expand(len(lrs), -1, -1).clone()
        self.diagnostics: dict[str, Tensor] = {}
        # The first round [T, W] in which a worker's gradient was not finite, 0 for none.
        self._first_nonfinite = torch.zeros(len(lrs), len(cluster.ids), dtype=torch.int64, device=task.device)
        self.verified = True

    def step(self, diagnose: bool = False) -> None:
        """Train one round. With `diagnose`, keep the errors of its compressed gradient for the next `evaluate`.

        Raises RunError if a gradient is not finite, and LostContact.
        """
        begin, t = time.perf_counter(), self.t + 1
        gradients, self.statistics = self._gradients(t)
        lr = self._lr * self.schedule(t, self.rounds)
        before = self.state
        self.state, self.t = self.cluster.round(gradients, before, lr, t), t
        present = self.cluster.participation
        self.meter.count(self.cluster.algorithm, self.task.d, t, self.task.dtype, present)
        self.seconds += time.perf_counter() - begin
        if diagnose:
            self.wait()
        self.diagnostics = {}
        # With absent or late workers, w and ĝ come from different workers.
        everyone = present is None or (present.share(t) == 1 and not present.late)
        if diagnose and everyone and self.cluster.algorithm.stages(t):
            workers = self.cluster.algorithm.local_step(gradients, before.workers, before.replica, lr, t)
            wanted, _ = self.cluster.algorithm.worker_message(gradients, workers, before.replica, lr, t)
            mean, aggregate = self.cluster.mean(wanted), self.cluster.aggregate(self.state)
            self.diagnostics = {} if mean is None or aggregate is None else self._diagnose(mean, aggregate)

    def evaluate(self) -> list[dict[str, float | int | None]]:
        """Return one row per trial: the model's metrics, costs, and compression errors of the last round. Only the
        first process returns rows. Raises RunError if anything is not finite, and UsageError for metrics that are not
        as the task declares them."""
        self.verify()
        self._check_state()
        x = self.cluster.model(self.state)
        if not self.cluster.is_first or x is None:
            return []
        metrics = self.task.evaluate(x, self.statistics[..., 0, :])
        self._check_metrics(metrics)
        measured = metrics | self.diagnostics
        common = {"round": self.t, "epoch": self.task.epoch(self.t)}
        common |= {"gradient_calls": 2 * self.t} if self.cluster.algorithm.looks_back else {}
        counted = {**asdict(self.meter), "bits": self.meter.bits}
        common |= {name: as_number(count) for name, count in counted.items()} | {"seconds": self.seconds}
        rows = []
        for trial, (lr, step_size) in enumerate(zip(self.lrs, self.step_sizes, strict=True)):
            own = {name: values[trial].item() for name, values in measured.items()}
            wrong = {name: value for name, value in own.items() if not math.isfinite(value)}
            if wrong:
                name, value = next(iter(wrong.items()))
                is_own = wrong.keys().isdisjoint(column.name for column in TABLE)  # the loss is finite
                if is_own and not self.t:
                    where, task = f"round 0, trial {trial} (lr={lr})", type(self.task).__name__
                    raise RunError(f"{where}: {name} is {value}. `evaluate` of {task} must return finite numbers")
                more = ", and the loss is finite: see also `evaluate`" * is_own
                self._fail(self.t, "all workers", trial, f"{name} is {value}{more}")
            rows.append({**common, "trial": trial, "lr": lr, "step_size": step_size, **own})
        return rows

    def wait(self) -> None:
        """Wait for the rounds on the GPU, and count the time."""
        if self.task.device.type == "cuda":
            begin = time.perf_counter()
            torch.cuda.synchronize()
            self.seconds += time.perf_counter() - begin

    def verify(self) -> None:
        """Raise RunError if a gradient of the rounds so far was not finite."""
        if self.verified:
            return
        for trial, worker in self._first_nonfinite.nonzero().tolist():
            t = int(self._first_nonfinite[trial, worker])
            self._fail(t, f"worker {self.cluster.ids[worker]}", trial, "local gradient is not finite")
        self.verified = True

    def fingerprints(self) -> dict[str, int]:
        """Return CRC-32 checksums that must agree on all ranks: of x, of the signal g̃ and, for a mirrored downlink,
        of the server's memory of g̃. Ranks without a server give their signal for it."""
        replica, server = self.state.replica, self.state.server
        same = {"the model x": _crc(replica.x), "the received signal": _crc(replica.signal)}
        if self.cluster.algorithm.downlink.is_mirrored:
            name, memory = "the server's memory of the signal", server.memory if server else None
            same[name] = same["the received signal"]
            if isinstance(memory, Tensor) and _crc(memory) != _crc(self.cluster.server_part(replica.signal)):
                same[name] = _crc(memory)
        return same

    def state_dict(self) -> dict:
        """Return everything that a resumed run needs, in tensors and plain numbers."""
        return {
            "t": self.t,
            "seconds": self.seconds,
            "meter": {name: str(count) for name, count in asdict(self.meter).items()},  # may be fractions
            "cluster": as_dicts(self.state),
            "cuts": self.cluster.cuts,
            "statistics": self.statistics,
        }

    def load_state_dict(self, state: dict) -> None:
        """Restore a `state_dict` with the whole server's state in it."""
        self.t, self.seconds = state["t"], state["seconds"]
        self.meter = type(self.meter)(**{name: Fraction(count) for name, count in state["meter"].items()})
        self.statistics = state["statistics"]
        server = None if self.state.server is None else state["cluster"]["server"]
        if self.cluster.cuts:  # in memory of its own
            server = map_tensors([server], lambda vectors: self.cluster.server_part(vectors[0]).clone())
        self.state = from_dicts({**state["cluster"], "server": server}, self.state)

    def _gradients(self, t: int) -> tuple[Tensor, Tensor]:
        """Return the gradients that the method sees in round t [T, G, d], and the workers' new statistics."""
        workers, replica = self.state.workers, self.state.replica
        if self.cluster.algorithm.takes_full_gradient(t):
            full = self._clip(self.task.full_gradients(replica.x), t)
            return self.cluster.group_mean(full), self.statistics
        if workers.x is None:
            gradients, statistics = self.task.gradients(replica.x, self.statistics, t)
        else:
            models = self.cluster.models_of_workers(workers.x)
            gradients, statistics = self.task.gradients_at(models, self.statistics, t)
        gradients = self.cluster.group_mean(self._clip(gradients, t))
        if replica.previous is not None:  # on the same batch
            earlier = self._clip(self.task.gradients(replica.previous, self.statistics, t)[0], t)
            earlier = self.cluster.group_mean(earlier)
            gradients = self.cluster.algorithm.variance_reduced_gradient(gradients, earlier, workers, t)
        return gradients, statistics

    def _clip(self, gradients: Tensor, t: int) -> Tensor:
        """Clip gradients to the norm `clip`, and note the first round in which one is not finite."""
        finite = torch.isfinite(gradients.sum(-1))
        is_cpu = self.task.device.type == "cpu"
        self.verified = is_cpu and bool(finite.all())
        if not self.verified:
            self._first_nonfinite = torch.where((self._first_nonfinite == 0) & ~finite, t, self._first_nonfinite)
        if is_cpu:
            self.verify()
        return clip_norm(gradients, self.clip)

    def _diagnose(self, mean: Tensor, aggregate: Tensor) -> dict[str, Tensor]:
        """Return ‖w‖₂, ‖ĝ − w‖₂ and ‖g̃ − w‖₂ of the last round, and Σ_k v̂_k if the update has it. w is the mean of
        the vectors that workers wanted to send. ‖g̃ − w‖₂ is left out if the signal has other units."""
        replica = self.state.replica
        # Of a copy: the order of a sum depends on alignment and strides, which differ between processes.
        found = {"mean_norm": torch.linalg.vector_norm(mean.new_empty(mean.shape).copy_(mean), dim=-1)}
        vectors = {"aggregate_error": aggregate}
        if self.cluster.algorithm.signal_estimates_mean:
            vectors["signal_error"] = replica.signal
        for name, vector in vectors.items():
            if vector.shape == mean.shape:  # a server that sees factors alone has no aggregate
                found[name] = torch.linalg.vector_norm(vector - mean, dim=-1)
        second_moment = self.cluster.algorithm.update.second_moment(replica.moments)
        return found if second_moment is None else {**found, "second_moment": second_moment.sum(-1)}

    def _check_metrics(self, metrics: Mapping[str, Tensor]) -> None:
        """Raise UsageError for reserved names, for values that are not [T], and if the task's `metric` is missing."""
        refuse_reserved_names(metrics)
        metric, name = getattr(self.task, "metric", None), type(self.task).__name__
        for column, values in metrics.items():
            if getattr(values, "shape", None) != (len(self.lrs),):
                raise UsageError(f"{name}: {column}: `evaluate` must return a tensor [T], one number per step size")
        if metric and metric not in metrics:
            what = f"{name}: metric={metric}: `evaluate` does not return it"
            raise UsageError(explain_unknown(what, metric, metrics))

    def _check_state(self) -> None:
        """Raise RunError if a number in the state is not finite. An infinite v would hold x in place, which looks
        like training."""
        for name, vectors in leaves(as_dicts(self.state)):  # sums are fastest, but may overflow
            if not isinstance(vectors, Tensor) or math.isfinite(vectors.sum().item()):
                continue
            for trial, *worker in (~vectors.isfinite().all(-1)).nonzero().tolist()[:1]:
                kind = "worker" if self.cluster.group_size == 1 else "group"
                where = f"{kind} {self.cluster.groups[worker[0]]}" if worker else "all workers"
                self._fail(self.t, where, trial, f"{name} is not finite")

    def _fail(self, t: int, where: str, trial: int, what: str) -> NoReturn:
        advice = (
            "A smaller step size, or leaving this one out of the grid, avoids it; rows up to here are kept"
            if self.t
            else "No step was taken yet: look for values in the data or settings that overflow"
        )
        # With several step sizes the others end too, although they did not diverge.
        error = Diverged if self.t and len(self.lrs) == 1 else RunError
        raise error(f"round {t}, {where}, trial {trial} (lr={self.lrs[trial]}): {what}. {advice}")


def _crc(vectors: Tensor) -> int:
    return zlib.crc32(vectors.cpu().contiguous().numpy().data)
