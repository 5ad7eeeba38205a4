"""The recipes of examples/ for frameworks on one and two ranks, and Lightning's mixed precision with clipping."""

import sys
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

sys.path += [str(Path(__file__).resolve().parents[1] / name) for name in ("cluster", "experiments")]


@pytest.mark.frameworks
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    ("name", "package", "length"),
    [("accelerate_loop", "accelerate", 8), ("lightning_trainer", "lightning", 8), ("hf_trainer", "transformers", 30)],
)
def test_a_recipe_trains_as_the_original_and_goes_on_as_if_never_stopped(
    name: str, package: str, length: int, size: int, tmp_path: Path
) -> None:
    if not find_spec(package):
        pytest.skip(f"{package} is not installed: make test-frameworks")
    from recipe_support import check_recipe

    get_context("forkserver").set_forkserver_preload(["tests.cluster.warm", "tests.frameworks.warm"])
    check_recipe(name, length, size, tmp_path)


CLIP, BATCHES, AT = 0.1, 6, 2  # the last rank's gradient overflows in batch AT


def _trained(precision: str) -> dict:
    """A rank's results in a Trainer that clips, so it asks CompressedOptimizer who unscales the gradients."""
    import_module("data.torchvision_operators")  # or torchvision may fail beside a torch for CPUs
    import lightning
    import torch.distributed as dist
    from lightning.pytorch.plugins.precision import MixedPrecision
    from torch.utils.data import DataLoader, TensorDataset

    from algorithms import CompressedOptimizer

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.linear, self.norms = torch.nn.Linear(3, 2), []

        def training_step(self, batch: list[torch.Tensor], number: int) -> torch.Tensor:
            overflows = dist.get_rank() == 1 and number == AT
            return self.linear(batch[0]).square().mean() * (torch.inf if overflows else 1.0)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            self.optimizer = CompressedOptimizer(self.parameters(), "loco", lr=1e-2)
            return self.optimizer

        def configure_gradient_clipping(self, *given: object, **named: object) -> None:
            super().configure_gradient_clipping(*given, **named)  # pyright: ignore
            self.norms.append(torch.cat([param.grad.flatten() for param in self.parameters()]).norm())

    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8) if precision == "16-mixed" else None
    options = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "max_epochs": 1}
    options |= {"accelerator": "cpu", "devices": 1, "plugins": [MixedPrecision(precision, "cpu", scaler)]}
    trainer = lightning.Trainer(gradient_clip_val=CLIP, **options)
    module, rows = Module(), torch.randn(4 * BATCHES, 3, generator=torch.Generator().manual_seed(dist.get_rank()))
    trainer.fit(module, DataLoader(TensorDataset(rows), batch_size=4))
    optimizer = module.optimizer
    x = torch.cat([param.detach().flatten() for param in module.parameters()])
    return {"x": x, "t": optimizer.t, "skipped": optimizer.skipped, "norms": torch.stack(module.norms)}


@pytest.mark.frameworks
@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_clipping_works_and_all_ranks_skip_where_one_overflows(precision: str, tmp_path: Path) -> None:
    if not find_spec("lightning"):
        pytest.skip("lightning is not installed: make test-frameworks")
    from cluster_support import results_of

    ranks = results_of(tmp_path, 2, partial(_trained, precision))
    for found in ranks:
        assert (found["t"], found["skipped"]) == (BATCHES - 1, 1)
        assert torch.equal(found["x"], ranks[0]["x"])
        assert len(found["norms"]) == BATCHES
        finite = found["norms"][found["norms"].isfinite()]
        assert (finite <= CLIP * 1.01).all()
