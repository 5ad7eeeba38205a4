"""Batches of images: cut out of the whole set where it lies, augmented and normalised, with no worker processes."""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from algorithms.utils.seeding import keyed_seed


def draws(
    seed: int, worker: int, epoch: int, rows: np.ndarray, batch_size: int, padding: int, flip: bool
) -> np.ndarray:
    """What one worker takes in each round of an epoch: int64 [rounds, batch_size, 4] of image, top, left and flip.

    Its rows are shuffled anew every epoch and cut into ⌊m/batch_size⌋ batches; the rest waits for another epoch.
    Offsets are uniform in 0 … 2·padding, flips are 0 or 1. All depends on (seed, worker, epoch) alone.
    """
    random = np.random.default_rng(keyed_seed(seed, "images", worker, epoch))
    rounds = len(rows) // batch_size
    order = random.permutation(rows)[: rounds * batch_size]
    offsets = random.integers(0, 2 * padding + 1, (len(order), 2))
    flips = random.integers(0, 2, (len(order), 1)) * flip
    return np.concatenate([order[:, None], offsets, flips], 1).reshape(rounds, batch_size, 4)


def augmented(images: Tensor, draw: Tensor, padding: int) -> Tensor:
    """The drawn images, padded with black, cropped back to their size and flipped: uint8 [N, h, w, c].

    images: uint8 [all, h, w, c]. draw: int64 [N, 4] of image, top, left and flip, as `draws` says.
    """
    row, top, left, flipped = draw.unbind(-1)
    height, width = images.shape[1:3]
    padded = pad(images[row], (0, 0, padding, padding, padding, padding))
    across = torch.arange(width, device=images.device)
    across = torch.where(flipped.bool()[:, None], across.flip(0), across) + left[:, None]  # [N, w]
    down = torch.arange(height, device=images.device) + top[:, None]  # [N, h]
    every = torch.arange(len(row), device=images.device)
    return padded[every[:, None, None], down[:, :, None], across[:, None, :]]


def normalised(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """(pixel/255 − mean)/std by channel: images uint8 [N, h, w, c] as float32 [N, c, h, w], channels_last."""
    return ((images.float() / 255 - mean) / std).permute(0, 3, 1, 2)
