"""Ranks whose workers miss rounds: as the simulation, bit for bit, by messages of the bytes that are counted."""

import json
from functools import partial
from pathlib import Path

import pytest
import torch
from cluster_support import assert_same, interrupt, my_rank, outputs, run_all, spawn, variant
from run_support import before_round, bring, go, record, rows, small, timeless

from algorithms.comm import gather_broadcast
from common.errors import Interrupted, UsageError
from experiments.cluster.torchrun import Torchrun
from experiments.config.identity import folder
from experiments.config.schema import RunConfig
from experiments.training.build import build_algorithm, check

RANKS, WORKERS, TRIALS, ROUNDS = 2, 5, 2, 8
COMMON = (
    *("task=logreg/breast_cancer", f"rounds={ROUNDS}", "eval_every=3", "lr=[0.003,0.01]", "threads=1"),
    f"cluster.workers={WORKERS}",
)
PLAN = "cluster.absent=[[3,2,5],[4,3,6],[0,4,4],[1,4,4],[2,4,5]]"  # no worker of rank 1 in 3 to 5, and nobody in 4
RUNS = {
    "cd_adam": ("algorithm=cd_adam", "cluster.participation=0.5"),
    "lion": ("algorithm=distributed_lion", "cluster.participation=0.3"),
    "ef21": ("algorithm=ef21", "compressor.k=3", PLAN),
    "random_k": ("algorithm=naive", "compressor=random_k", "compressor.k=4", PLAN),
    "late": ("algorithm=cd_adam", "cluster.late=[[1,2],[4,1]]"),
    "late draws": ("algorithm=naive", "compressor=random_k", "compressor.k=4", "cluster.late=[[4,3]]", PLAN),
    "resumed": ("algorithm=ef21_sgdm", "algorithm.dense_start=false", "cluster.late=[[0,4],[3,1]]"),
    "local_sgd": ("algorithm=local_sgd", "algorithm.period=2", "cluster.participation=0.9", "cluster.late=[[1,4]]"),
}
UNDER_WAY = {"late": 3, "late draws": 2, "local_sgd": 2}
"""Number of messages that are sent and counted, but have not arrived at the end."""


def observed(target: Path, runs: list[RunConfig]) -> None:
    """The runs, with the bytes of this rank's messages up in a file."""
    sent, gather, begin = [], gather_broadcast.gather, Torchrun.__init__

    def noted(part: torch.Tensor, *arguments: object) -> list[torch.Tensor] | None:
        sent[-1] += part.nbytes
        return gather(part, *arguments)

    def begun(*arguments: object) -> None:
        sent.append(0)
        begin(*arguments)

    gather_broadcast.gather, Torchrun.__init__ = noted, begun
    run_all(runs)
    (target / f"{my_rank()}.json").write_text(json.dumps(sent))


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, RunConfig], list[int]]:
    """The runs, and the bytes that all workers sent in each."""
    place = tmp_path_factory.mktemp("absent")
    runs = {name: variant(*COMMON, *overrides, results=place / "results") for name, overrides in RUNS.items()}
    with before_round(6, interrupt), pytest.raises(Interrupted):  # with messages in the queue
        bring(runs["resumed"])
    outputs(spawn(place, RANKS, partial(observed, place, list(runs.values()))))
    sent = [json.loads((place / f"{rank}.json").read_text()) for rank in range(RANKS)]
    return runs, [sum(both) for both in zip(*sent, strict=True)]


@pytest.mark.parametrize("name", RUNS)
def test_ranks_equal_the_simulation(name: str, traffic: tuple, tmp_path: Path) -> None:
    runs, sent = traffic
    assert_same(folder(runs[name]), go(*COMMON, *RUNS[name], f"results_dir={tmp_path}"))
    if name == "resumed":
        assert record(folder(runs[name]), "environment")["resumed"][0]["round"] == 6
        return
    last, algorithm = rows(folder(runs[name]))[-1], build_algorithm(runs[name])
    down = last["bits_down"] / algorithm.downlink.bits(30, 2) * algorithm.downlink.payload_bytes(30, 2, torch.float64)
    under_way = UNDER_WAY.get(name, 0) * algorithm.uplink.payload_bytes(30, 2, torch.float64)
    up = round(WORKERS * (last["payload_bytes"] - down), 6) - under_way
    assert TRIALS * up == sent[list(RUNS).index(name)]


def test_rows_are_the_same_while_nobody_is_absent(tmp_path: Path) -> None:
    both = (go(*COMMON, f"results_dir={tmp_path}", *more) for more in ([], ["cluster.absent=[[0,1000,1001]]"]))
    assert timeless(next(both)) == timeless(next(both))


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["algorithm=marina"], "Marina needs .* in time, because where the coin shows heads, ĝ is the mean of all"),
        (["algorithm=dasha_mvr"], "DashaMVR needs .* an estimate h_i that is older"),
        (["algorithm=powersgd"], "PowerSGD needs .* M_i is not in D"),
        (["algorithm=sparta"], "Sparta needs .* from its own message"),
        (["algorithm=zero_one_adam"], "ZeroOneAdam needs .* begin anew in one round"),
        (["algorithm=diloco", "algorithm.fragments=2"], "Streaming needs .* whether anything crossed"),
        (["algorithm=distributed_lion", "algorithm.combine=mean"], r"SignMean\(workers=20\) can send only a mean"),
        (["algorithm=int_sgd"], r"IntegerMean\(workers=20, width=8\) can send only a mean over all workers"),
        (["cluster.server=sharded"], "cluster.server=sharded: does not support absent"),
        (["cluster.late=[[3,2]]", "algorithm=ef21"], "no message of the same form 2 rounds later.*dense_start"),
        (["cluster.late=[[3,15]]", "algorithm=local_sgd"], "15 rounds later; take a multiple of the rounds"),
        (["cluster.late=[[3,2],[3,1]]"], r"cluster.late: \[3, 2\]: give a worker from 0 to 19, once"),
        (["cluster.absent=[[20,2,3]]"], r"cluster.absent: \[20, 2, 3\]: give a worker from 0 to 19"),
        (["cluster.groups=5", "cluster.absent=[[5,2,3]]"], "give a group from 0 to 4, the first round"),
        (["cluster.absent=[[0,1,3]]"], "the first round of its absence, at least 2, and the last"),
    ],
)
def test_settings_that_need_all_workers_are_refused(overrides: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check(small("cluster.participation=0.5", *overrides))
