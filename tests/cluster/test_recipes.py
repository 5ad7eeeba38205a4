"""The recipes of examples/ that need torch alone, on one, two or four ranks; tests/frameworks has the others."""

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from cluster_support import LR, results_of
from recipe_support import check_recipe
from small_network import network, train
from torch.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from torch.nn.parallel import DistributedDataParallel

from algorithms import CompressedOptimizer

RECIPES = {"two_workers": 300, "ddp_hook": 100, "nanogpt_loop": 40, "hsdp": 100}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "length", "size"),
    [(*recipe, size) for recipe in RECIPES.items() for size in ([4] if recipe[0] == "hsdp" else [1, 2])],
)
def test_a_recipe_trains_as_the_original_and_goes_on_as_if_never_stopped(
    name: str, length: int, size: int, tmp_path: Path
) -> None:
    check_recipe(name, length, size, tmp_path)


def trained_with_and_without_ddp() -> list[torch.Tensor]:
    """x after every step of a method that the hook does not take; DDP, where there is one, sends nothing."""
    found = []
    for wrapped in (False, True):
        model = network()
        if wrapped:
            model = DistributedDataParallel(model)
            model.register_comm_hook(None, noop_hook)
        optimizer = CompressedOptimizer(model.parameters(), "signum", lr=LR)
        found.append(train(model, optimizer, steps=5, worker=dist.get_rank(), first=1))
        del model
    return found


@pytest.mark.slow
def test_an_optimizer_may_stand_behind_ddp_that_sends_nothing(tmp_path: Path) -> None:
    (plain, wrapped), (_, other) = results_of(tmp_path, 2, trained_with_and_without_ddp)
    assert torch.equal(plain, wrapped)
    assert torch.equal(wrapped, other)
