"""Image classification against plain modules, one a worker, and its batches against loops over pixels."""

import copy
from collections.abc import Iterable

import numpy as np
import pytest
import torch
from reference import methods
from reference.compressors import scaled_sign
from refusals import refusals
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from common.errors import UsageError
from data.embedded import digit_images
from experiments.cluster.ranks import Ranks
from experiments.config.run import load_run
from experiments.models.flat import FlatModel
from experiments.models.initial import initialise
from experiments.models.small_cnn import small_cnn
from experiments.tasks.images import ImageClassification, augment, draws, normalise
from experiments.training.build import build_trainer

WORKERS, SEED, WIDTH, BATCH = 3, 5, 4, 20
CPU = torch.device("cpu")
DIGITS = digit_images()


def task(**changes: object) -> ImageClassification:
    options = {"workers": WORKERS, "seed": SEED, "device": CPU, "rows": 150, "batch_size": BATCH, "padding": 1}
    options |= {"dataset": DIGITS, "evaluation_batch": 64, "flip": False}
    return ImageClassification(**{"model": small_cnn(WIDTH), **options, **changes})


def plain() -> tuple[nn.Module, FlatModel]:
    """A network of the same initial parameters, and its flat view, which tells the order of coordinates."""
    module = small_cnn(WIDTH)
    initialise(module, SEED)
    return module, FlatModel(copy.deepcopy(module), CPU)


def seen(images: Tensor) -> Tensor:
    """As a network sees them."""
    return normalise(images, torch.tensor(DIGITS.mean), torch.tensor(DIGITS.std))


def gradient_of(module: nn.Module, x: Tensor, worker: int, t: int, of: ImageClassification) -> Tensor:
    """What a worker's own network computes at x in round t (from 1); rounds of an epoch are ⌊50/20⌋ = 2."""
    twin = FlatModel(copy.deepcopy(module), CPU)
    twin.vector.copy_(x)
    with torch.no_grad():
        for parameter, moved in zip(module.parameters(), twin.module.parameters(), strict=True):
            parameter.copy_(moved)
    draw = draws(SEED, worker, (t - 1) // 2, of._parts[worker], BATCH, 1, False)[(t - 1) % 2]
    images = augment(torch.from_numpy(DIGITS.train_images), torch.from_numpy(draw), 1)
    labels = torch.from_numpy(DIGITS.train_labels[draw[:, 0]]).long()
    module.train().zero_grad()
    cross_entropy(module(seen(images)), labels).backward()
    return flat([p.grad for p in module.parameters()])


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """[d], channels last, as in the flat vector."""
    return torch.cat([part.movedim(1, -1).reshape(-1) if part.dim() == 4 else part.reshape(-1) for part in tensors])


def test_gradients_and_statistics_are_those_of_a_network_a_worker():
    here = task()
    modules = [plain()[0] for _ in range(WORKERS)]
    statistics = here.start_statistics()[None]
    for t in range(1, 6):
        x = plain()[1].vector * (1 + 0.1 * t)
        gradients, statistics = here.gradients(x[None], statistics, t)
        for worker, module in enumerate(modules):
            expected = gradient_of(module, x, worker, t, here)
            torch.testing.assert_close(gradients[0, worker], expected, rtol=1e-4, atol=1e-6)
            kept = FlatModel(copy.deepcopy(module), CPU).statistics
            torch.testing.assert_close(statistics[0, worker], kept)
    assert not torch.equal(statistics[0, 0], statistics[0, 1])


@pytest.mark.parametrize("rows", [150, 40])
def test_evaluation_is_over_the_first_rows_with_worker_0s_statistics(rows: int):
    here, (_, network) = task(evaluation_rows=rows), plain()
    statistics = here.start_statistics()[None]
    for t in range(1, 4):
        _, statistics = here.gradients(network.vector[None], statistics, t)
    measured = here.evaluate(network.vector[None], statistics[:, 0])
    network.statistics.copy_(statistics[0, 0])
    module = network.module.eval().requires_grad_(True)
    scores = module(seen(torch.from_numpy(DIGITS.train_images[:rows])))
    loss = cross_entropy(scores, torch.from_numpy(DIGITS.train_labels[:rows]).long())
    gradient = flat(torch.autograd.grad(loss, list(module.parameters())))
    assert measured["train_loss"].item() == pytest.approx(loss.item(), rel=1e-5)
    assert measured["grad_norm"].item() == pytest.approx(gradient.norm().item(), rel=1e-4)
    scores, labels = module(seen(torch.from_numpy(DIGITS.test_images))), torch.from_numpy(DIGITS.test_labels).long()
    assert measured["test_loss"].item() == pytest.approx(cross_entropy(scores, labels).item(), rel=1e-5)
    assert measured["test_accuracy"].item() == (scores.argmax(1) == labels).double().mean().item()


def test_training_equals_a_plain_loop():
    """CD-Adam's Algorithm 1 by loops over workers and coordinates, with weight decay on the replica."""
    overrides = ["algorithm=cd_adam", "task=digits", f"task.model.width={WIDTH}", "task.rows=150", "lr=0.01"]
    overrides += [f"task.batch_size={BATCH}", f"cluster.workers={WORKERS}", f"seed={SEED}", "rounds=6"]
    overrides += ["lr_schedule=constant", "weight_decay=0.1"]
    trainer = build_trainer(load_run(overrides), Ranks())
    modules = [plain()[0] for _ in range(WORKERS)]
    calls = [0] * WORKERS

    def gradient(worker: int, x: list[float]) -> list[float]:
        calls[worker] += 1
        return gradient_of(modules[worker], torch.tensor(x), worker, calls[worker], trainer.task).tolist()

    start = trainer.task.start()
    zeros, amsgrad = [0.0] * len(start), methods.adam(0.01, True, d=len(start))
    *uplinks, downlink = (methods.markov(scaled_sign, start=zeros) for _ in range(WORKERS + 1))
    path = methods.rounds(
        gradient, start.tolist(), uplinks, downlink, lambda x, u: amsgrad(x, methods.plus(u, x, 0.1)), 6
    )
    for t in range(6):
        trainer.step()
        moved = torch.tensor(path[t]) - start
        # Signs of differences that are zero up to rounding may differ between float32 and the loop's float64.
        assert (trainer.state.replica.x[0] - start - moved).norm() < 1e-2 * moved.norm()


test_refusals = refusals(
    (lambda: task(rows=1537), "digits has 1536 training images"),
    (lambda: task(batch_size=51), "batch_size=51: a worker has 50 images"),
    (lambda: task(partition="even"), "partition=even"),
    (lambda: task(model=small_cnn(WIDTH, classes=5)), "gives 5 logits, and digits has 10 classes; .* task.model.cl"),
    kind=(ValueError, UsageError),
)


ROWS = np.arange(100, 147)  # of one worker


def drawn(**changes: object) -> np.ndarray:
    options = {"seed": 1, "worker": 2, "epoch": 3, "rows": ROWS, "batch_size": 10, "padding": 4, "flip": True}
    return draws(**{**options, **changes})


def test_every_image_once_an_epoch_at_most_and_whole_batches_only():
    draw = drawn()
    assert draw.shape == (4, 10, 4)
    images = draw[..., 0].reshape(-1)
    assert len(set(images)) == 40
    assert set(images) <= set(ROWS)


def test_offsets_and_flips_cover_their_range():
    draw = np.concatenate([drawn(epoch=epoch) for epoch in range(30)])
    for column, values in ((1, range(9)), (2, range(9)), (3, range(2))):
        found, counts = np.unique(draw[..., column], return_counts=True)
        assert list(found) == list(values)
        assert counts.min() > 0.7 * counts.mean()
    assert set(np.unique(drawn(flip=False)[..., 3])) == {0}
    assert set(np.unique(drawn(padding=0)[..., 1:3])) == {0}


@pytest.mark.parametrize("change", [{"seed": 0}, {"worker": 0}, {"epoch": 0}])
def test_each_seed_worker_and_epoch_draws_its_own(change: dict):
    assert np.array_equal(drawn(), drawn())
    assert not np.array_equal(drawn()[..., 0], drawn(**change)[..., 0])
    assert not np.array_equal(drawn()[..., 1:], drawn(**change)[..., 1:])


def test_crops_and_flips_pixel_by_pixel():
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (5, 6, 7, 3)).astype(np.uint8)
    draw = np.array([[3, 0, 4, 0], [0, 2, 2, 1], [3, 4, 0, 1], [1, 1, 3, 0]])
    found = augment(torch.from_numpy(images), torch.from_numpy(draw), padding=2).numpy()
    for place, (row, top, left, flipped) in enumerate(draw):
        for y in range(6):
            for x in range(7):
                column = 6 - x if flipped else x
                above, beside = y + top - 2, column + left - 2
                inside = 0 <= above < 6 and 0 <= beside < 7
                expected = images[row, above, beside] if inside else np.zeros(3)
                assert (found[place, y, x] == expected).all()


def test_normalised_by_channel_in_channels_last_format():
    images = torch.arange(2 * 4 * 5 * 3, dtype=torch.uint8).view(2, 4, 5, 3)
    mean, std = torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0.5, 0.6, 0.7])
    found = normalise(images, mean, std)
    assert found.is_contiguous(memory_format=torch.channels_last)
    for channel in range(3):
        expected = (images[..., channel].float() / 255 - mean[channel]) / std[channel]
        torch.testing.assert_close(found[:, channel], expected)
