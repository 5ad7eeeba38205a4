"""MNIST-1D: digits as signals of 40 numbers, computed without a download."""

import numpy as np
from scipy.ndimage import gaussian_filter

from data.dataset import Images

_STROKES = (
    "5 6 6.5 6.75 7 7 7 7 6.75 6.5 6 5",
    "5 3 3 3.4 3.8 4.2 4.6 5 5.4 5.8 5 5",
    "5 6 6.5 6.5 6 5.25 4.75 4 3.5 3.5 4 5",
    "5 6 6.5 6.5 6 5 5 6 6.5 6.5 6 5",
    "5 4.4 3.8 3.2 2.6 2.6 5 5 5 5 5 5",
    "5 3 3 3 3 5 6 6.5 6.5 6 4.5 5",
    "5 4 3.5 3.25 3 3 3 3 3.25 3.5 4 5",
    "5 7 7 6.6 6.2 5.8 5.4 5 4.6 4.2 5 5",
    "5 4 3.5 3.5 4 5 5 4 3.5 3.5 4 5",
    "5 4 3.5 3.5 4 5 5 5 5 4.7 4.3 5",
)
"""The digits 0 to 9, each as 12 heights."""

_LENGTH, _SHIFTS, _POINTS = 72, 48, 40


def mnist1d() -> Images:
    """5,000 signals of 40 points in 10 classes, as images of 40 × 1 pixels: 4,000 for training, 1,000 for testing.

    Each is a digit's strokes, padded, stretched, scaled, shifted and sheared at random, with noise. mean and std
    describe the training part.
    Source: Greydanus and Kobak, Scaling down deep learning with MNIST-1D, 2024, and the defaults of their code, with
    the same random numbers.
    Differences: The signals are rounded to 8 bits, equally spaced from the smallest number to the largest.
    """
    draw = np.random.RandomState(42)
    signals = np.stack([_signal(strokes, draw) for strokes in _templates() for _ in range(500)])
    order = draw.permutation(len(signals))
    signals, labels = signals[order], np.repeat(np.arange(10, dtype=np.uint8), 500)[order]
    low, high = signals.min(), signals.max()
    pixels = np.rint(255 * (signals - low) / (high - low)).astype(np.uint8).reshape(-1, _POINTS, 1, 1)
    seen = pixels[:4000] / 255
    mean, std = (float(seen.mean()),), (float(seen.std()),)
    return Images("mnist1d", pixels[:4000], labels[:4000], pixels[4000:], labels[4000:], mean, std)


def _templates() -> np.ndarray:
    """Templates [10, 12] of variance 1/36. Each begins and ends at 0."""
    heights = np.array([list(map(float, strokes.split())) for strokes in _STROKES])
    standard = (heights - heights.mean(1, keepdims=True)) / heights.std(1, keepdims=True)
    return (standard - standard[:, :1]) / 6


def _signal(strokes: np.ndarray, draw: np.random.RandomState) -> np.ndarray:
    padded = np.concatenate([strokes + 1e-8, np.zeros(36 + int(25 * draw.rand()))])  # only padding is 0
    signal = _resample(padded, _LENGTH) * (1 + 0.4 * (draw.rand() - 0.5))
    signal = np.roll(signal, draw.choice(_SHIFTS))
    noise = gaussian_filter(0.25 * draw.randn(_LENGTH), 2)
    signal = np.where(signal != 0, signal, noise) + 0.02 * draw.randn(_LENGTH)
    signal = signal - 0.75 * (draw.rand() - 0.5) * np.linspace(-0.5, 0.5, _LENGTH)
    return _resample(signal, _POINTS)


def _resample(signal: np.ndarray, points: int) -> np.ndarray:
    return np.interp(np.linspace(0, 1, points), np.linspace(0, 1, len(signal)), signal)
