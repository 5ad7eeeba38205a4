"""External strategies: what they send is counted, and they come to what this project's own methods come to."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from cluster_support import outputs, spawn
from run_support import configuration, exit_code, go, record, rows
from torch.distributed import GradBucket, all_reduce  # pyright: ignore[reportPrivateImportUsage]: torch does not name it
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook

from algorithms.compressors import Identity
from algorithms.methods.powersgd import powersgd
from algorithms.utils.layout import laid_out
from common.errors import UsageError
from experiments.cluster.base import Simulated
from experiments.cluster.ranks import Group
from experiments.config.schema import RunConfig
from experiments.external import __main__ as command
from experiments.external import record as external
from experiments.external.collectives import Collectives
from experiments.external.strategy import Carrier, HookStrategy
from experiments.training.runner import bring_to_end
from experiments.training.session import session
from plots.runs.find import find

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SMALL = ("task=digits", "task.rows=64", "task.batch_size=4", "rounds=8", "eval_every=2")
DIGITS = (*SMALL, "cluster.workers=2", "lr=0.1")
THEIRS = (*DIGITS, "packages=[strategies]", "threads=1")
D = 5178

SHAPES = laid_out([("weight", (12, 8), "matrix"), ("bias", (7,), "vector")])
LR, ROUNDS = 0.05, 23


@pytest.fixture(autouse=True, scope="module")
def examples() -> Iterator[None]:
    """As PYTHONPATH=examples has it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        yield


# Everything in one launch of two ranks


def _send_everything() -> tuple:
    x, y, z = (torch.arange(6, dtype=kind) for kind in (torch.float32, torch.float16, torch.float64))
    first, counted = dist.get_rank() == 0, Collectives()
    both = [torch.empty(6), torch.empty(6)]
    all_reduce(x)
    with counted.count_bytes():
        all_reduce(x)
        dist.all_reduce(y, async_op=True).get_future().wait()
        dist.group.WORLD.allreduce([z]).wait()
        dist.broadcast(x, src=1)
        dist.reduce(x, dst=0)
        dist.all_gather(both, x)
        dist.gather(y, [y.clone(), y.clone()] if first else None, dst=0)
        dist.scatter(torch.empty(6), both if first else None, src=0)
        dist.all_to_all_single(torch.empty(6), x)
        dist.send(z, 1) if first else dist.recv(z, 0)
    all_reduce(x)
    return counted.inputs, counted.outputs


def _gradients(x: torch.Tensor, t: int) -> torch.Tensor:
    """Of two workers [2, 103], at models [2, 103] or at one [103]."""
    noise = torch.randn(2, 3, 103, dtype=torch.float64, generator=torch.Generator().manual_seed(t))
    return (1 + noise[:, 0] ** 2) * (x - noise[0, 1]) + noise[:, 2]


def _followed() -> torch.Tensor:
    """The models [rounds, 103] of this rank on quadratics; the strategy is gone before its group is."""
    carrier = Carrier(torch.zeros(103, dtype=torch.float64), SHAPES)
    state = PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2, min_compression_rate=1)
    strategy, models = HookStrategy(carrier, powerSGD_hook, state, partial(torch.optim.SGD, lr=LR)), []
    for t in range(1, ROUNDS + 1):
        strategy.step(_gradients(carrier.vector(), t)[dist.get_rank()], LR)
        models.append(carrier.vector())
    return torch.stack(models)


class _Late:
    """Its destructor is slow, so a closure that holds it is destroyed slowly."""

    def __del__(self) -> None:
        sleep(1)


def _hook_with_a_late_closure(state: object, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Adds a closure that holds the group, like those of torch's hooks. On rank 0 gloo's thread destroys it."""
    group, z_late = dist.group.WORLD, _Late()
    sleep(0.2 * dist.get_rank())
    work: Any = dist.all_reduce(bucket.buffer(), group=group, async_op=True)
    return work.get_future().then(lambda future: (group, z_late, bucket.buffer())[-1])


def _bring_to_end(runs: list[RunConfig], found: Path | None = None) -> None:
    with session(runs) as (ranks, display):
        for run in runs:
            bring_to_end(run, display, ranks, external.build_trainer)
        if found:
            torch.save((_send_everything(), _followed()), found / f"{dist.get_rank()}.pt")
            carrier = Carrier(torch.zeros(103), SHAPES)
            HookStrategy(carrier, _hook_with_a_late_closure, None, torch.optim.SGD).step(torch.ones(103), LR)
    sleep(2 * bool(found))  # the group is destroyed, but the closure still exists


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of torch's hooks, the first of them asked for twice, and what each rank counted and came to."""
    place = tmp_path_factory.mktemp("external")
    names = ("torch_allreduce", "torch_fp16", "torch_powersgd")
    runs = [configuration(*THEIRS, f"algorithm={name}", f"results_dir={place}") for name in names]
    said = outputs(spawn(place / "said", 2, partial(_bring_to_end, [*runs, runs[0]], place)))
    assert "already finished" in said[0]
    assert [run.state for run in find(place)] == ["finished"] * 3
    return place


def _of_ranks(place: Path) -> tuple:
    """What was counted, and the models, of either rank."""
    return tuple(zip(*(torch.load(place / f"{rank}.pt", weights_only=False) for rank in (0, 1)), strict=True))


@pytest.mark.slow
def test_what_is_handed_to_collectives_and_given_back_is_counted(place: Path) -> None:
    ((handed, given), other), _ = _of_ranks(place)
    # Six numbers each: 12, 24 or 48 bytes.
    dense = {"allreduce": 24 + 12 + 48, "reduce": 24, "allgather": 24, "gather": 12, "all_to_all_single": 24}
    assert +handed == dense | {"scatter": 48, "send": 48}
    assert +given == {"allreduce": 84, "broadcast": 24, "reduce": 24, "allgather": 48, "gather": 24, "scatter": 24,
                      "all_to_all_single": 24}  # fmt: skip
    assert +other[0] == dense | {"broadcast": 24}
    assert +other[1] == {"allreduce": 84, "allgather": 48, "scatter": 24, "all_to_all_single": 24, "recv": 48}


def _rows(place: Path, name: str) -> list[dict[str, float]]:
    [folder] = place.glob(f"digits/{name}/*")
    assert record(folder, "status")["status"] == "finished"
    assert "stages" not in record(folder, "environment")  # plots then take one exchange a round
    return rows(folder)


@pytest.mark.slow
def test_an_all_reduce_is_uncompressed_sgd(place: Path) -> None:
    ours = rows(go(*DIGITS, "algorithm=sgd", f"results_dir={place}"))
    theirs = _rows(place, "torch_allreduce")
    assert [row["bits_up"] for row in theirs] == [8 * 4 * D * row["round"] for row in theirs]
    for name in ("round", "epoch", "bits_up", "bits_down", "bits", "lr", "step_size", "trial"):
        assert [row[name] for row in theirs] == [row[name] for row in ours]
    for name in ("train_loss", "test_loss", "grad_norm"):
        assert [row[name] for row in theirs] == pytest.approx([row[name] for row in ours], rel=1e-4)
    assert theirs[0]["train_loss"] == ours[0]["train_loss"] != theirs[-1]["train_loss"]


@pytest.mark.slow
def test_half_precision_is_two_bytes_a_coordinate(place: Path) -> None:
    half = _rows(place, "torch_fp16")
    assert [row["payload_bytes"] for row in half] == [2 * 2 * D * row["round"] for row in half]
    dense = _rows(place, "torch_allreduce")
    assert [row["train_loss"] for row in half] == pytest.approx([row["train_loss"] for row in dense], rel=1e-3)
    assert [row["train_loss"] for row in half] != [row["train_loss"] for row in dense]


@pytest.mark.slow
def test_powersgd_sends_the_floats_of_its_formula(place: Path) -> None:
    matrices, vectors = [(16, 9), (32, 16 * 9), (10, 32)], 2 * 16 + 2 * 32 + 10
    floats = vectors + sum(2 * (m + n) for m, n in matrices)
    found = _rows(place, "torch_powersgd")
    assert [row["bits_up"] for row in found] == [0, *(32 * (2 * D + floats * (t - 2)) for t in (2, 4, 6, 8))]
    ours = rows(go(*DIGITS, "algorithm=powersgd", f"results_dir={place}"))
    assert ours[-1]["bits_up"] == 32 * floats * 8


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["algorithm=cd_adam"], "must be a class of kind experiments.external.strategy.Strategy"),
        (["algorithm=torch_fp16", "compressor=top_k"], "brings its own; leave them out"),
        (["algorithm=torch_fp16", "update=sgd"], "brings its own; leave them out"),
        (["algorithm=torch_fp16", "partition=layer", "clip_aggregate=1"], "^partition, clip_aggregate: external"),
        (["algorithm=torch_fp16", "cluster.server=sharded"], "^cluster.server: external strategies support only"),
        (["algorithm=torch_fp16", "lr=[0.1,0.2]"], "one step size per run"),
    ],
)
def test_what_a_strategy_does_not_have_is_refused(overrides: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        external.check(configuration(*THEIRS, *overrides))


def test_deterministic_holds_for_a_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bool] = []
    monkeypatch.setattr(torch, "use_deterministic_algorithms", said.append)
    monkeypatch.setattr(external, "build_task", None)
    ranks = object.__new__(Group)
    ranks.size = 2
    with pytest.raises(TypeError, match="NoneType"):
        external.build_trainer(configuration(*THEIRS, "algorithm=torch_fp16", "deterministic=true"), ranks)
    assert said == [True]


@pytest.mark.parametrize("word", ["dry_run=true", "sweep=step_sizes", "ranks=4"])
def test_keys_that_would_be_ignored_are_refused(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        command.main([*THEIRS, "algorithm=torch_fp16", word])
    assert f"error: {word}: no key of this command" in capsys.readouterr().err


@pytest.mark.slow
def test_a_strategy_needs_a_rank_a_worker(tmp_path: Path) -> None:
    run = configuration(*THEIRS, "algorithm=torch_fp16", f"results_dir={tmp_path}")
    with pytest.raises(UsageError, match=r"there are 1; start it by torchrun --nproc-per-node=2"):
        _bring_to_end([run])
    assert exit_code([*THEIRS, "algorithm=torch_fp16"]) == 2  # as a method of experiments.run


def test_a_carrier_has_the_gradient_that_it_is_told() -> None:
    x, gradient = torch.randn(2, 103, generator=torch.Generator().manual_seed(0))
    carrier = Carrier(x, SHAPES)
    carrier(gradient).backward()
    assert torch.equal(carrier.vector(), x)
    assert torch.equal(torch.cat([block.grad.flatten() for block in carrier.blocks]), gradient)


@pytest.mark.slow
def test_the_hook_takes_powersgd_s_steps(place: Path) -> None:
    _, (theirs, others) = _of_ranks(place)
    assert torch.equal(theirs, others)
    # Two rounds of means; then the method, from the Q that the hook draws. Without momentum it steps by 2D.
    cluster = Simulated(powersgd(Identity(), SHAPES, momentum=0.0), 2, seed=0)
    x = torch.zeros(103, dtype=torch.float64)
    for t in (1, 2):
        x = x - LR * _gradients(x, t).mean(0)
        torch.testing.assert_close(theirs[t - 1], x)
    torch.manual_seed(np.random.RandomState(0).randint(1_000_000_000))
    q = torch.randn(8, 2, dtype=torch.float64).reshape(1, 16)
    state = cluster.start(x.unsqueeze(0))
    state = replace(state, replica=replace(state.replica, q=q))
    for t in range(3, ROUNDS + 1):
        state = cluster.round(_gradients(state.replica.x[0], t).unsqueeze(0), state, LR / 2, t)
        torch.testing.assert_close(theirs[t - 1], state.replica.x[0], rtol=1e-9, atol=1e-11)
