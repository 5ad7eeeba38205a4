"""A function replayed as a CUDA graph: its plumbing anywhere, the real thing where there is a GPU."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import MagicMock

import pytest
import torch
from torch import Tensor

from common.errors import RunError, UsageError
from experiments.cluster.ranks import Ranks
from experiments.config.compose import CONF
from experiments.config.run import load_run
from experiments.tasks.graph import CudaGraph
from experiments.training.build import build_trainer

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")


class Recorded:
    """Stands for a CUDA graph: replaying calls the function anew on the places that were captured."""

    def __init__(self, captured: CudaGraph) -> None:
        self._captured = captured

    def replay(self) -> None:
        results = self._captured._function(*self._captured._arguments)
        for place, result in zip(self._captured._results, results, strict=True):
            place.copy_(result)


def test_arguments_go_in_and_results_are_of_their_own_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    for name in ("Stream", "current_stream", "stream", "graph"):  # which then do nothing
        monkeypatch.setattr(torch.cuda, name, MagicMock())

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        calls.append(1)
        return x + y, x * y

    captured = CudaGraph(function)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", lambda: Recorded(captured))
    x, y = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    first = captured(x, y)
    warm = len(calls)
    second = captured(y, y)
    assert [part.tolist() for part in first] == [[4, 6], [3, 8]]
    assert [part.tolist() for part in second] == [[6, 8], [9, 16]]
    assert len(calls) == warm + 1  # nothing is captured twice
    assert (x.tolist(), y.tolist()) == ([1, 2], [3, 4])


@on_a_gpu
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_a_round_replayed_is_the_round(precision: str) -> None:
    """Digits on a GPU, with and without graphs: the same kernels, hence the same bits."""
    paths = []
    for graphs in ("true", "false"):
        overrides = ["task=digits", "lr=[0.01,0.03]", "device=cuda", f"task.precision={precision}"]
        trainer = build_trainer(load_run([*overrides, f"task.cuda_graphs={graphs}"]), Ranks())
        for t in range(9):
            trainer.step(diagnose=t % 4 == 3)
            if t % 4 == 3:  # an evaluation in between uses the same network
                trainer.evaluate()
        paths.append((trainer.state.replica.x, trainer.statistics))
    assert torch.equal(paths[0][0], paths[1][0])
    assert torch.equal(paths[0][1], paths[1][1])


COMBINATIONS = [
    *(f"algorithm={path.stem}" for path in sorted((CONF / "algorithm").glob("*.yaml"))),
    *(f"algorithm=naive compressor={path.stem}" for path in sorted((CONF / "compressor").glob("*.yaml"))),
]


@on_a_gpu
@pytest.mark.parametrize("words", COMBINATIONS)
def test_a_gpu_trains_as_a_cpu_does(words: str) -> None:
    """Twenty rounds have a warm-up, the switch and what follows. Sums in another order change a sign near zero."""
    common = "task=digits task.model.width=8 task.precision=float32 cluster.workers=4 lr=0.003 rounds=20 epochs=null"
    run, ends = load_run([*common.split(), *words.split()]), {}
    if "period" in run.algorithm.options:  # in a longer one it would not exchange at all
        run = replace(run, algorithm=replace(run.algorithm, options={**run.algorithm.options, "period": 5}))
    for device in ("cpu", "cuda"):
        try:
            trainer = build_trainer(replace(run, device=device), Ranks())
        except (UsageError, ValueError) as refused:
            if device == "cuda":  # which the CPU did not refuse
                raise
            pytest.skip(str(refused))
        for t in range(1, 21):
            trainer.step(diagnose=t == 20)
        ends[device] = trainer.state.replica.x.to("cpu")
    moved = (ends["cpu"] - trainer.task.start().to("cpu")).norm()
    assert moved > 0
    assert (ends["cuda"] - ends["cpu"]).norm() <= 0.1 * moved


@on_a_gpu
def test_a_gradient_that_is_not_finite_is_noticed_at_the_next_row() -> None:
    trainer = build_trainer(load_run(["algorithm=sgd", "task=digits", "lr=1e30", "device=cuda"]), Ranks())
    for _ in range(5):
        trainer.step()
    with pytest.raises(RunError, match=r"round \d, worker 0, trial 0 .*local gradient is not finite"):
        trainer.evaluate()
