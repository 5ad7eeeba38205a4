"""Every method, compressor and phase on a GPU that computes nothing: where tensors lie, and what waits for what.

Messages are also compared on a real GPU, if there is one.
"""

from __future__ import annotations

import inspect
from itertools import product

import pytest
import torch
import yaml
from hydra.utils import get_object
from pretended_gpu import GPU, PretendedGpu, gpu
from test_compressors import COMPRESSORS as OF_VECTORS

from algorithms.comm.gather_broadcast import from_bytes, to_bytes
from algorithms.compressors import (
    Blocks,
    Chain,
    Compressor,
    DctTopK,
    Identity,
    Integers,
    LinfDither,
    Natural,
    Nuqsgd,
    Qsgd,
    RandomK,
    RankK,
    ScaledSign,
)
from algorithms.compressors.base import tensors
from algorithms.core.algorithm import Algorithm
from algorithms.core.update_rules import SGD, Adam, AMSGrad
from algorithms.methods.bases.low_rank import LowRank
from algorithms.utils.layout import laid_out
from algorithms.utils.seeding import MessageKey
from experiments.config.compose import CONF

D, WORKERS, TRIALS, ROUNDS, WARMUP = 37, 2, 2, 3, 1
SEED = 1
"""With which a coin of p = 0.5 shows heads in rounds 1 and 2, tails in 3."""
METHODS = sorted(path.stem for path in (CONF / "algorithm").glob("*.yaml"))
# A chain that begins with random_k draws on the CPU even where it is simulated.
WAITING = [one for one in OF_VECTORS if isinstance(one, Chain) and isinstance(one.first, RandomK)]
WHOLE = [one for one in OF_VECTORS if not isinstance(one, Blocks) and one not in WAITING]
LAYOUT = laid_out([("tall", (5, 4), "matrix"), ("bias", (3,), "vector"), ("wide", (2, 7), "matrix")])
ALONE = [RankK(2, LAYOUT), DctTopK(3, 4, layout=LAYOUT), Integers()]  # not in blocks
COMPRESSORS = [*WHOLE, *ALONE, *(Blocks(compressor, (20, D - 20)) for compressor in WHOLE)]
CASES = [
    (ScaledSign(), ["cd_adam", "quantized_adam"]),
    (Identity(), ["muon"]),
    *((compressor, ["naive"]) for compressor in (*WHOLE, *ALONE, Blocks(ScaledSign(), (20, D - 20)))),
    *(pytest.param(compressor, METHODS, marks=pytest.mark.slow) for compressor in COMPRESSORS),
]
NAMED = {
    group: {
        path.stem: get_object(yaml.safe_load(path.read_text())["defaults"][0][f"/target@{node}"])
        for path in (CONF / group).glob("*.yaml")
    }
    for group, node in {"algorithm": "algorithm", "compressor": "_here_"}.items()
}
assert gpu  # a fixture
OPTIONS = {  # a method takes those that it has
    "plain": {},
    "other": {"uplink_only": True, "dense_start": True, "signal": "gradient", "weight_decay": 0.1, "decoupled": True},
}
UPDATES = {
    "plain": (AMSGrad(), Adam(), SGD()),
    "other": (SGD(momentum=0.9), Adam(form="torch"), AMSGrad(form="torch")),
}


def algorithm(method: str, compressor: Compressor, options: str) -> Algorithm | None:
    """What a method makes of a compressor, with the first update that it takes; None where it refuses it."""
    factory = NAMED["algorithm"][method]
    parameters = inspect.signature(factory, eval_str=True).parameters
    run = {"rounds": ROUNDS, "warmup": WARMUP, "workers": WORKERS, "d": D, "layout": LAYOUT, "period": 2}
    run |= {"p": 0.5, "seed": SEED}
    given = {**OPTIONS[options], "compressor": compressor, **run}
    given = {name: value for name, value in given.items() if name in parameters}
    if "update" in parameters:
        given["update"] = next(one for one in UPDATES[options] if isinstance(one, parameters["update"].annotation))
    if not isinstance(compressor, parameters["compressor"].annotation):
        return None
    try:
        tried = factory(**given)
        tried.check(D)
    except ValueError:  # it takes contractive ones alone, or such of a known π
        return None
    return tried


def rounds(tried: Algorithm, is_packed: bool) -> None:
    """Rounds of the workers, the server and a replica with everything on the GPU."""
    path = tried if is_packed else tried.without_packing()
    x = torch.zeros(TRIALS, D, device=GPU)
    gradients, lr = torch.zeros(TRIALS, WORKERS, D, device=GPU), torch.zeros(TRIALS, 1, device=GPU)
    workers, server = path.start_workers(x, torch.arange(WORKERS)), path.start_server(x)
    replica = path.start_replica(x)
    for t in range(1, ROUNDS + 1):
        workers = path.local_step(gradients, workers, replica, lr, t)
        for stage in path.stages(t, lr):
            up, workers = stage.worker(gradients, workers, replica, lr, t, 0)
            up = from_bytes(to_bytes(up, 2), up, 2) if is_packed else up
            down, server = stage.server(up, server, t, 0)
            down = from_bytes(to_bytes(down, 1), down, 1) if is_packed else down
            replica = stage.replica(down, replica, lr, t)
            assert {tensor.device for tensor in (*tensors(up), *tensors(down), replica.x, replica.signal)} == {GPU}
        if path.stages(t, lr):
            workers = path.sync_workers(workers, replica, t)


def draws(compressor: Compressor) -> bool:
    one = getattr(compressor, "compressor", compressor)
    always = (RandomK, RankK, Qsgd, Natural, LinfDither, Nuqsgd, Integers)
    return isinstance(one, always) or getattr(one, "stochastic", False)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
@pytest.mark.parametrize("compressor", [*OF_VECTORS, *ALONE], ids=str)
def test_a_message_of_a_gpu_is_that_of_a_cpu(compressor: Compressor) -> None:
    """As a CPU reads its bytes, and as the GPU does, except for the last bits of sums and quotients."""
    x = torch.randn(TRIALS, WORKERS, D, generator=torch.Generator().manual_seed(0))
    key = MessageKey(SEED, "up", 1, (0, 1))
    like, sent = compressor.encode(x, key), compressor.encode(x.to("cuda"), key)
    expected = compressor.decode(like, D)
    torch.testing.assert_close(compressor.decode(from_bytes(to_bytes(sent, 2).cpu(), like, 2), D), expected)
    torch.testing.assert_close(compressor.decode(sent, D).cpu(), expected)


@pytest.mark.parametrize("options", ["plain", pytest.param("other", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("compressor", "methods"), CASES, ids=str)
@pytest.mark.parametrize("is_packed", [pytest.param(False, marks=pytest.mark.slow), True], ids=["dense", "packed"])
def test_a_round_stays_on_the_gpu(
    is_packed: bool, compressor: Compressor, methods: list[str], options: str, gpu: PretendedGpu
) -> None:
    """But for what is drawn on the CPU, and the seeds that random_k's receiver reads."""
    reads = is_packed and isinstance(getattr(compressor, "compressor", compressor), RandomK)
    tried = [one for method in methods if (one := algorithm(method, compressor, options))]
    assert tried
    if not reads:
        rounds(tried[0], is_packed)  # makes the tables once
    for one in tried:
        gpu.crossings.clear()
        if reads:
            with pytest.raises(RuntimeError):  # a number of the GPU's
                rounds(one, is_packed)
            assert "to the CPU" in gpu.crossings
        else:
            rounds(one, is_packed)
            sends = draws(compressor) or isinstance(one, LowRank)
            assert set(gpu.crossings) == ({"to the GPU"} if sends else set()), one


@pytest.mark.slow
def test_every_compressor_and_method_is_tried() -> None:
    assert {*NAMED["compressor"].values()} <= {type(compressor) for compressor in COMPRESSORS}
    assert {one[0] for one in product(METHODS, COMPRESSORS, OPTIONS) if algorithm(*one)} == set(METHODS)
