"""Batches of images against loops over pixels."""

import numpy as np
import pytest
import torch

from experiments.tasks.images import augmented, draws, normalised

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
    found = augmented(torch.from_numpy(images), torch.from_numpy(draw), padding=2).numpy()
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
    found = normalised(images, mean, std)
    assert found.is_contiguous(memory_format=torch.channels_last)
    for channel in range(3):
        expected = (images[..., channel].float() / 255 - mean[channel]) / std[channel]
        torch.testing.assert_close(found[:, channel], expected)
