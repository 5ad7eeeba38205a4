"""Methods against their authors' code, or what is nearest to it, from clones that are not part of this project.

REFERENCE_CODES names a folder with the repositories of docs/external.md, each in a folder of its name and at the
commit that is said there. Nothing of it is copied: it is imported and run as it lies.
"""

import __future__

import ast
import importlib
import os
import sys
import threading
import types
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from torch import Tensor

from algorithms.compressors import Compressor, DctTopK, Identity, Sign
from algorithms.compressors.top_k import Sparse
from algorithms.core.algorithm import Algorithm
from algorithms.core.update_rules import SGD
from algorithms.methods.bases.low_rank import Factored, LowRank
from algorithms.methods.dasha import dasha, dasha_step_size
from algorithms.methods.demo import demo
from algorithms.methods.diana import diana, diana_step_size
from algorithms.methods.dion import dion
from algorithms.methods.distributed_lion import distributed_lion
from algorithms.methods.marina import marina, marina_step_size
from algorithms.utils.layout import laid_out
from algorithms.utils.seeding import MessageKey
from data.libsvm import load
from experiments.cluster.base import Simulated
from experiments.tasks.logreg import LogisticRegression

pytestmark = pytest.mark.slow

CODES = Path(os.environ.get("REFERENCE_CODES", "no clones"))
DATA = Path(os.environ.get("DATA_DIR", ""))


def clone(name: str) -> Path:
    """The folder of a repository; without it the test is skipped."""
    if "REFERENCE_CODES" not in os.environ:
        pytest.skip("REFERENCE_CODES, a folder of clones of the repositories in docs/external.md, is not set")
    if not (CODES / name).is_dir():
        pytest.skip(f"REFERENCE_CODES={CODES}: has no {name}")
    return CODES / name


def task(name: str, workers: int) -> LogisticRegression:
    """Logistic regression on a set of LibSVM's that has been downloaded."""
    if "DATA_DIR" not in os.environ or not list(DATA.glob(f"**/{name}*")):
        pytest.skip(f"DATA_DIR, with {name} in it, is not set")
    return LogisticRegression(load(name, DATA / "libsvm"), workers=workers, seed=0)


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Imports a module of a clone, with mocks in place of the modules that it needs for other things."""

    def do(folder: Path, module: str, mocked: tuple[str, ...] = ()) -> Any:
        monkeypatch.syspath_prepend(str(folder))
        for name in mocked:
            monkeypatch.setitem(sys.modules, name, MagicMock())
        return importlib.import_module(module)

    yield do
    for name, module in list(sys.modules.items()):
        if str(CODES) in (getattr(module, "__file__", None) or ""):
            del sys.modules[name]


class Ranks:
    """Threads that wait for one another, in place of processes."""

    def __init__(self, n: int) -> None:
        self.n, self._barrier, self._here = n, threading.Barrier(n, timeout=60), threading.local()
        self._box: dict[int, Any] = {}

    def run(self, one: Callable[[int], None]) -> None:
        """one(i) for every rank i, at once."""

        def here(i: int) -> None:
            self._here.rank = i
            one(i)

        with ThreadPoolExecutor(self.n) as pool:
            list(pool.map(here, range(self.n)))

    def gathered(self, mine: Any) -> list[Any]:
        """What all ranks give, in their order."""
        self._box[self._here.rank] = mine
        self._barrier.wait()
        everyones = [self._box[i] for i in range(self.n)]
        self._barrier.wait()
        return everyones


def normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def off(one: Tensor, other: Tensor) -> float:
    """The largest difference of a coordinate; seen with -s."""
    found = (one - other).abs().max().item()
    print(f"largest difference {found:.2g}")
    return found


@pytest.mark.parametrize("n", [1, 3, 5])
def test_distributed_lion(n, imported, monkeypatch):
    theirs = imported(clone("distributed-lion-pytorch"), "distributed_lion")
    d, ranks, rounds, weight_decay = 1001, Ranks(n), 20, 0.1

    def all_gather(into: list[Tensor], mine: Tensor) -> None:
        for one, other in zip(into, ranks.gathered(mine.clone()), strict=True):
            one.copy_(other)

    monkeypatch.setattr(theirs.dist, "all_gather", all_gather)
    monkeypatch.setattr(theirs.dist, "get_world_size", lambda: n)
    x = normal(d, seed=0)
    models, momenta = [x.clone() for _ in range(n)], [torch.zeros_like(x) for _ in range(n)]
    cluster = Simulated(distributed_lion(Sign(), SGD(weight_decay=weight_decay, decoupled=True), n), n, 0)
    state, step = cluster.start(x), theirs.update_fn_distributed if n > 1 else theirs.update_fn
    for t in range(1, rounds + 1):
        g = normal(n, d, seed=t)
        ranks.run(lambda i, g=g: step(models[i], g[i], momenta[i], 1e-2, weight_decay, 0.9, 0.99))
        state = cluster.round(g, state, 1e-2, t)
    assert off(models[0], state.replica.x) < 1e-14


def rearranged(x: Tensor, pattern: str, **sizes: int) -> Tensor:
    """What DeMo's code asks of einops.rearrange."""
    h, w = sizes.get("h", -1), sizes.get("w", -1)
    match "".join(pattern.split()):
        case "(yh)(xw)->yhxw":
            return x.unflatten(1, (-1, w)).unflatten(0, (-1, h))
        case "yhxw->(yh)(xw)":
            return x.flatten(2).flatten(0, 1)
        case "(xw)->xw":
            return x.unflatten(0, (-1, w))
        case "xw->(xw)":
            return x.flatten()
        case "yxhw->yx(hw)":
            return x.flatten(2)
        case "yx(hw)->yxhw":
            return x.unflatten(2, (h, -1))
        case other:
            raise ValueError(other)


@pytest.mark.parametrize(("k", "side"), [(8, 16), (32, 64)])
def test_demo(k, side, imported, monkeypatch):
    """Where all coefficients differ; of chunks that are zero torch.topk takes others than ours, the lowest."""
    n, rounds, lr, beta, weight_decay = 4, 6, 1e-2, 0.9, 0.1
    folder = clone("DeMo")
    monkeypatch.setitem(sys.modules, "einops", types.SimpleNamespace(rearrange=rearranged))
    theirs, ranks = imported(folder, "demo"), Ranks(n)
    shapes = [(128, 65), (30, 12), (50,), (384, 64)]
    layout = laid_out([(str(j), shape, "matrix" if len(shape) > 1 else "vector") for j, shape in enumerate(shapes)])
    d = sum(block.size for block in layout)
    x = normal(d, seed=0)
    models = [
        [block.view(x).reshape(shape).clone() for block, shape in zip(layout, shapes, strict=True)] for _ in range(n)
    ]
    options = {"compression_decay": beta, "compression_topk": k, "compression_chunk": side}
    optimizers = []
    for model in models:
        for part in model:
            part.requires_grad_()
        optimizers.append(theirs.DeMo(model, lr=lr, weight_decay=weight_decay, **options))
        optimizers[-1]._demo_all_gather = lambda i, v: map(list, zip(*ranks.gathered((i, v)), strict=True))
    cluster = Simulated(demo(DctTopK(k, side), layout, beta, weight_decay=weight_decay), n, 0)
    state = cluster.start(x)
    for t in range(1, rounds + 1):
        g = normal(n, d, seed=t)
        for i, model in enumerate(models):
            for block, part in zip(layout, model, strict=True):
                part.grad = block.view(g[i]).reshape(part.shape).clone()
        ranks.run(lambda i: optimizers[i].step())
        state = cluster.round(g, state, lr, t)
    assert off(torch.cat([part.detach().flatten() for part in models[0]]), state.replica.x) < 1e-14


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize(("fraction", "within"), [(0.25, 1e-7), (0.5, 1e-7), (1.0, 1e-5)])
def test_dion(fraction, within, weight_decay, imported, monkeypatch):
    """Their QR is in float32. Vectors are AdamW's, by their function for it."""
    folder = clone("dion")
    monkeypatch.setattr(torch, "compile", lambda *_, **__: lambda function: function)
    package = types.ModuleType("reference_dion")
    package.__path__ = [str(folder / "dion")]
    monkeypatch.setitem(sys.modules, "reference_dion", package)
    theirs, scalars = (imported(folder, f"reference_dion.{name}") for name in ("dion_reference", "scalar_opts"))
    n, lr, rounds = 3, torch.tensor(0.02, dtype=torch.float64), 10
    decay, ranks = torch.tensor(weight_decay, dtype=torch.float64), Ranks(n)
    monkeypatch.setattr(theirs, "all_reduce", lambda mine, _: torch.stack(ranks.gathered(mine.clone())).mean(0))
    shapes = [(40, 24), (16, 48), (20, 20), (13,)]
    layout = laid_out([(str(j), shape, "matrix" if len(shape) > 1 else "vector") for j, shape in enumerate(shapes)])
    matrices, vector = layout[:3], layout[3]
    d = sum(block.size for block in layout)
    algorithm = dion(Identity(), layout, 0, fraction=fraction, weight_decay=weight_decay)
    assert isinstance(algorithm, LowRank)
    cluster = Simulated(algorithm, n, 0)
    x = normal(d, seed=0)
    state = cluster.start(x)
    assert isinstance(state.replica, Factored)
    q = [one.clone() for one in algorithm.split_factors(state.replica.q, rows=False)]
    models = [*(block.view(x).clone() for block in matrices), vector.view(x).flatten().clone()]
    momenta = [[torch.zeros_like(models[j]) for j in range(3)] for _ in range(n)]
    first, second = torch.zeros(13, dtype=torch.float64), torch.zeros(13, dtype=torch.float64)
    mu, betas = torch.tensor(0.95, dtype=torch.float64), [torch.tensor(b, dtype=torch.float64) for b in (0.9, 0.95)]
    for t in range(1, rounds + 1):
        g, moved = normal(n, d, seed=t), {}

        def step(i: int, g: Tensor = g, moved: dict = moved) -> None:
            moved[i] = []
            for j, block in enumerate(matrices):
                own = models[j].clone()
                wide = block.rows < block.columns
                found = theirs.dion_update(
                    *(own, block.view(g[i]).clone(), momenta[i][j], q[j].clone(), lr, mu, decay, 1e-8, wide, 1, "qr"),
                    compressed_all_reduce=True,
                )
                moved[i].append((own, found))

        ranks.run(step)
        for j, (own, found) in enumerate(moved[0]):
            models[j], q[j] = own, found
        scalars.adamw_update(
            models[3], vector.view(g.mean(0)).flatten(), first, second, lr, *betas, decay, torch.tensor(t), 1e-8
        )
        state = cluster.round(g, state, 0.02, t)
    found = torch.cat([model.flatten() for model in models])
    assert off(found, state.replica.x) < within
    assert off(found[vector.offset :], state.replica.x[vector.offset :]) < 1e-14


WORKERS, K, SEED = 5, 10, 3
L_I = [1.0, 2.0, 3.0, 4.0, 5.0]


@dataclass(frozen=True)
class Drawn(Compressor):
    """d/k times the k coordinates that somebody else has drawn, by round and worker."""

    k: int
    draws: dict[tuple[int, int], Tensor] = field(compare=False)  # int64 [k]

    contractive = False
    unbiased = True

    def encode(self, x: Tensor, key: MessageKey | None = None) -> Sparse:
        assert key is not None
        assert key.workers is not None
        indices = torch.stack([self.draws[key.round, i] for i in key.workers])
        return Sparse(x.gather(-1, indices) * (x.shape[-1] / self.k), indices)

    def decode(self, payload: Sparse, d: int) -> Tensor:
        values, indices = payload
        return values.new_zeros(*values.shape[:-1], d).scatter_(-1, indices, values)

    def bits(self, d: int) -> int:
        return 32 * self.k + 64

    def omega(self, d: int) -> float:
        return d / self.k - 1


class Message:
    """A message of DASHA's library, of numbers of any precision."""

    def __init__(self, indices: Tensor, values: Tensor, dim: int) -> None:
        self._indices, self._values, self._dim = indices, values, dim

    def decompress(self) -> Tensor:
        return self._values.new_zeros(self._dim).scatter_(0, self._indices, self._values)


class Nodes:
    """The transport of DASHA's library, in one process."""

    def __init__(self, nodes: list[Any]) -> None:
        self.nodes = nodes

    def get_number_of_nodes(self) -> int:
        return len(self.nodes)

    def call_nodes_method(self, node_method: str, **given: Any) -> list[Any]:
        return [getattr(node, node_method)(**given) for node in self.nodes]

    def call_node_method(self, node_index: int, node_method: str, **given: Any) -> Any:
        return getattr(self.nodes[node_index], node_method)(**given)


def run(algorithm: Algorithm, on: LogisticRegression, lr: float, rounds: int) -> Tensor:
    """x after every round [rounds, d]."""
    cluster, path = Simulated(algorithm, on.workers, SEED), []
    state = cluster.start(on.start())
    for t in range(1, rounds + 1):
        state = cluster.round(on.gradients(state.replica.x, on.start_statistics(), t)[0], state, lr, t)
        path.append(state.replica.x)
    return torch.stack(path)


class Master:
    """A master of DASHA's library and its nodes on our gradients, whose draws are kept by round."""

    def __init__(self, imported: Callable[..., Any], of: str, master: str, node: str, on: LogisticRegression) -> None:
        folder = clone("dasha") / "code"
        mocked = ("torchvision", "torchvision.models", "matplotlib", "matplotlib.pyplot")
        library = imported(folder, f"{of}.algorithm", mocked)
        compressor: Any = importlib.import_module(f"{of}.compressor")
        function: Any = importlib.import_module(f"{of}.function")
        library.CompressedTorchVector = Message
        compressor.CompressedTorchVector = Message  # theirs takes float32 alone
        self.draws: dict[tuple[int, int], Tensor] = {}
        self.round = 1
        kinds, nodes = function.FunctionType, []
        for i in range(on.workers):
            own = MagicMock()
            own.type.return_value, own.dim.return_value = kinds.TORCH_CPU, on.d
            own.deterministic.return_value = True
            own.liptschitz_gradient_constant.return_value = L_I[i]
            own.gradient.side_effect = lambda x, i=i: on.gradients(x, on.start_statistics(), 1)[0][i]
            draw = compressor.RandKTorchCompressor(K, seed=i, dim=on.d)
            draw.compress = self._kept(i, draw.compress)
            nodes.append(getattr(library, node)(own, draw))
        self.transport = Nodes(nodes)
        self.kind = getattr(library, master)

    def _kept(self, i: int, compress: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
        def kept(x: Tensor) -> Any:
            message = compress(x)
            self.draws[self.round, i] = message._indices
            return message

        return kept


LIBRARY = "distributed_optimization_library"


def test_marina(imported):
    """On mushrooms with rand-10, its coin in place of theirs, with the step size that their L_i give."""
    on, rounds = task("mushrooms", WORKERS), 1000
    theirs = Master(imported, LIBRARY, "MarinaMasterAlgorithm", "MarinaNodeAlgorithm", on)
    master = theirs.kind(theirs.transport, on.start())
    omega, p = on.d / K - 1, K / on.d
    quadratic = sum(one**2 for one in L_I) ** 0.5 / len(L_I) ** 0.5
    expected = marina_step_size(sum(L_I) / len(L_I), quadratic, omega, p, WORKERS)
    assert master._prob == pytest.approx(p, rel=1e-14)
    assert master._gamma == pytest.approx(expected, rel=1e-12)
    ours = marina(Drawn(K, theirs.draws), SGD(), SEED, d=on.d)
    master._generator, path = MagicMock(), []
    for t in range(1, rounds + 1):
        theirs.round = t + 1
        master._generator.random.return_value = 0.0 if ours.uplink.codec(t + 1) == Identity() else 1.0
        master.step()
        path.append(master.get_point())
    assert path[-1].norm() > 0.1
    assert off(torch.stack(path), run(ours, on, master._gamma, rounds)) < 1e-12


def test_dasha(imported):
    """On mushrooms with rand-10, behind their idle round, with the step size that their L_i give."""
    on, rounds = task("mushrooms", WORKERS), 1000
    theirs = Master(imported, LIBRARY, "ZeroMarinaMasterAlgorithm", "ZeroMarinaNodeAlgorithm", on)
    master = theirs.kind(theirs.transport, on.start())
    omega = on.d / K - 1
    quadratic = sum(one**2 for one in L_I) ** 0.5 / len(L_I) ** 0.5
    assert master._gamma == pytest.approx(dasha_step_size(sum(L_I) / len(L_I), quadratic, omega, WORKERS), rel=1e-12)
    path = []
    for t in range(1, rounds + 2):
        theirs.round = t
        master.step()
        path.append(master.get_point())
    assert torch.equal(path[0], on.start())
    found = run(dasha(Drawn(K, theirs.draws), SGD(), start="share"), on, master._gamma, rounds)
    assert path[-1].norm() > 0.1
    assert off(torch.stack(path[1:]), found) < 1e-12


def test_diana():
    """On a9a, our draws in its compressor's place, with the class of FL_PyTorch that MARINA's authors wrote."""
    file = clone("ef21_with_rare_features") / "fl_pytorch" / "utils" / "algorithms.py"
    on, rounds, lr, k = task("a9a", 20), 300, 0.05, 12
    tree = ast.parse(file.read_text())
    [found] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "DIANA"]
    names: dict[str, Any] = {
        name: MagicMock() for name in ("argparse", "utils", "compressors", "evaluateSgd", "mutils")
    }
    names["torch"] = torch
    module = ast.Module([found], [])
    exec(compile(module, str(file), "exec", __future__.annotations.compiler_flag), names)
    theirs, omega = names["DIANA"], on.d / k - 1
    names["getLsmoothGlobal"] = lambda *_: 1.7
    server = {"total_clients": 20, "w": omega, "alpha": 1 / (1 + omega), "h": on.start(), "fl_dtype": torch.float64}
    step = theirs.theoreticalStepSize(None, None, server, 20, None, True)
    assert step == pytest.approx(diana_step_size(1.7, omega, 20), rel=1e-14)
    draws = {
        (t, i): torch.randperm(on.d, generator=torch.Generator().manual_seed(1000 * t + i))[:k]
        for t in range(1, rounds + 1)
        for i in range(20)
    }
    compressor, x, path = Drawn(k, draws), on.start(), []
    clients = [{"hi": on.start(), "H": server, "stats": {"send_scalars_to_master": 0}} for _ in range(20)]
    for t in range(1, rounds + 1):
        g, answers = on.gradients(x, on.start_statistics(), t)[0], []
        for i, client in enumerate(clients):
            names["mutils"].get_gradient.return_value = g[i]
            client["client_compressor"] = MagicMock(last_need_to_send_advance=k)
            key = MessageKey(0, "up", t, (i,))
            client["client_compressor"].compressVector = lambda v, key=key: compressor(v[None], key)[0]
            _, message = theirs.localGradientEvaluation(client, None, None, None, False, (0, 1))
            answers.append({"model": x - message, "client_state": {"weight": 1.0}})
        responses = MagicMock()
        responses.get = answers.__getitem__
        estimate = theirs.serverGradient(responses, 20, None, x, server)
        server = theirs.serverGlobalStateUpdate(None, {}, None, None, None, server)
        x = x - lr * estimate
        path.append(x)
    assert path[-1].norm() > 0.1
    assert off(torch.stack(path), run(diana(compressor, SGD()), on, lr, rounds)) < 1e-12
