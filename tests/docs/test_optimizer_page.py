"""The table of methods on docs/optimizer.md: what each has to be told, sends and keeps, counted in the code."""

import re
from contextlib import suppress
from typing import Any

import pandas as pd
import pytest
import torch
from docs_support import ROOT
from small_network import group_of_one

from algorithms.core.algorithm import leaves
from algorithms.optim.ddp_hook import compressed
from algorithms.optim.local_steps import LocalSteps
from algorithms.optim.optimizer import CompressedOptimizer
from algorithms.registry import load_method, names, parameters
from algorithms.utils.layout import laid_out

D, STEPS = 4096, 5
LAYOUT = laid_out([("weight", (64, 64), "matrix")])
PAGE = (ROOT / "docs" / "optimizer.md").read_text()


def rows(columns: int) -> dict[str, list[str]]:
    """The rows that begin with a name, of tables with so many columns."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines()]
    return {cells[0].strip("`"): cells[1:] for cells in lines if len(cells) == columns and cells[0].startswith("`")}


ROWS, LOCAL = rows(6), rows(5)

KNOWN = {"rounds": 100, "warmup": 2, "workers": 1, "p": 0.25, "layout": LAYOUT}


def told(name: str) -> list[str]:
    """What a name alone does not say, as the optimizer's errors ask for it; of two that would do it is told one."""
    asked: list[str] = []
    given: dict[str, Any] = {}
    while True:
        try:
            CompressedOptimizer([torch.nn.Parameter(torch.zeros(D))], name, lr=1e-3, **given)
        except ValueError as error:
            found = re.findall(r"(\w+)=", str(error))
            asked += found
            given[found[0]] = KNOWN[found[0]]
        else:
            return asked


def trained(name: str) -> CompressedOptimizer:
    """After some steps, of which two are warm-up where there is one."""
    options = {option: value for option, value in KNOWN.items() if option in parameters(name)}
    param = torch.nn.Parameter(torch.randn(D))
    optimizer = CompressedOptimizer([param], name, lr=1e-3, **options)
    for _ in range(STEPS):
        param.grad = torch.randn(D)
        optimizer.step()
    return optimizer


def nbytes(node: object) -> int:
    """Of all memory that the tensors of a state take, what several share counted once."""
    floats = [leaf for _, leaf in leaves(node) if isinstance(leaf, torch.Tensor) and leaf.is_floating_point()]
    return sum({s.data_ptr(): s.nbytes() for s in map(torch.Tensor.untyped_storage, floats)}.values())


def test_methods_of_the_harness_alone_are_refused() -> None:
    [said] = re.findall(r"are for the harness alone:\s(.*?)\.", PAGE, re.DOTALL)
    others = re.findall(r"`(\w+)`", said)
    assert {*ROWS, *others} <= {*names()}
    for name in others:
        options: dict[str, Any] = {key: 9 for key in ("workers", "rounds") if key in parameters(name)}
        with pytest.raises(ValueError, match=r"overrides stages|local models|the previous model"):
            CompressedOptimizer([torch.nn.Parameter(torch.zeros(D))], name, lr=0.1, **options)


@pytest.mark.parametrize("name", ROWS)
def test_a_row_is_what_is_counted(name: str) -> None:
    asked, bits, alone, of_ranks, may_set = ROWS[name]
    assert re.findall(r"`(\w+)`", asked) == told(name)
    optimizer = trained(name)
    state = optimizer.state_dict()["state"][0]
    held = nbytes({part: state[part] for part in ("worker", "replica", "server")}) // D
    assert int(alone) == (held - 4 if optimizer._in_place else held)  # x is the parameter itself
    with group_of_one():
        optimizer = trained(name)
    state, algorithm = optimizer.state_dict()["state"][0], optimizer.algorithm
    at_worker = nbytes({"worker": state["worker"], "replica": state["replica"]})
    # A coordinate; what there is of a tensor, such as a factor, is left out.
    a_coordinate = [found // D for found in (at_worker, at_worker + nbytes(state["server"]))]
    assert [int(number) for number in of_ranks.split(", ")] == a_coordinate[::-1]
    sent = [sum(channel.bits(D, t) for channel in (algorithm.uplink, algorithm.downlink)) / D for t in (1, STEPS)]
    expected = [int(number) for number in re.findall(r"\d+", bits)]
    assert [int(number + 0.5) for number in (sent if sent[0] != sent[1] else sent[1:])] == expected
    assert set(re.findall(r"`(\w+)`", may_set.partition(" (")[0])) == set(algorithm.hyperparameters())


@group_of_one()
def test_the_methods_of_the_hook_are_those_that_it_takes() -> None:
    [said] = re.findall(r"takes methods that send gradients: (.*?)\.", PAGE, re.DOTALL)
    taken = []
    for name in names():
        options = {o: value for o, value in {"rounds": 100, "workers": 1}.items() if o in parameters(name)}
        with suppress(ValueError):
            compressed([torch.nn.Parameter(torch.zeros(D))], name, **options)
            taken.append(name)
    assert {*re.findall(r"`(\w+)`", said)} <= {*taken}


@pytest.mark.parametrize("name", LOCAL)
def test_a_row_of_local_steps_is_what_is_counted(name: str) -> None:
    period, bits, server, worker = map(float, LOCAL[name])
    param = torch.nn.Parameter(torch.randn(D))
    optimizer = LocalSteps(torch.optim.SGD([param], lr=0.1), name)
    assert optimizer.algorithm.period == period
    for _ in range(int(period)):
        optimizer.step()
    state = optimizer.state_dict()["state"][0]["local_steps"]
    at_worker = nbytes({"worker": state["worker"], "replica": state["replica"]})
    assert [worker, server] == [at_worker // D, (at_worker + nbytes(state["server"])) // D]
    long, algorithm = 100 * D, load_method(name, **({"workers": 2} if "workers" in parameters(name) else {}))
    sent = sum(channel.bits(long, 1) for channel in (algorithm.uplink, algorithm.downlink)) / long
    assert bits == pytest.approx(sent, abs=0.06)


def test_what_methods_reach_is_what_the_committed_runs_reached() -> None:
    """The table of needs, against benchmarks/results/first_scripts.csv: means over seeds."""
    runs = pd.read_csv(ROOT / "benchmarks" / "results" / "first_scripts.csv")
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if "|" in line]
    rows = [cells[1:] for cells in table if len(cells) == 7][2:]
    assert len(rows) > 9
    for said, lr, times, *reached in rows:
        method = "torch" if "torch" in said else re.findall(r"(\w+)[`\"]", said)[0]
        method += " partition=layer" * ("layer" in said)
        lrs = [float(number) for number in lr.split(", ")]
        for script, steps, shown in zip(("mnist", "mnist", "nanogpt"), (30, 90, 300), reached, strict=True):
            found = runs[(runs["script"] == script) & (runs["method"] == method) & (runs["steps"] == steps)]
            found = found[found["lr"] == lrs[-1 if script == "nanogpt" else 0]]
            if shown == "diverged":
                assert found["loss"].isna().all()
            elif shown != "–":
                expected = f"{found['loss'].mean():.2f}" if script == "nanogpt" else f"{found['accuracy'].mean():.0%}"
                assert shown.replace(" ", "") == expected, (said, steps)
                dense = runs[(runs["script"] == script) & (runs["method"] == "torch") & (runs["steps"] == steps)]
                saved = dense["bits"].iloc[0] / found["bits"].iloc[0]
                assert saved == pytest.approx(float(times.replace(",", "")), rel=0.06)
