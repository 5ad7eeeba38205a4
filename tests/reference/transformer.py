"""A small GPT and its training, written out: plain tensors, one step after the other, torch.optim.AdamW.

Written from the description (Radford et al. 2019; the settings of karpathy/nanoGPT's readme), with nothing of the
project's model, task, schedule or clipping.
"""

import math

import torch
from torch import Tensor

Weights = dict[str, Tensor]


def names(layers: int) -> list[str]:
    """Those of the weights, in the order of a flat vector."""
    each = ("norm 1", "query key value", "mix", "norm 2", "widen", "narrow")
    return ["letters", "places", *(f"{layer} {name}" for layer in range(layers) for name in each), "last norm"]


def shapes(letters: int, context: int, layers: int, width: int) -> dict[str, tuple[int, ...]]:
    """Their shapes."""
    of = {
        "letters": (letters, width),
        "places": (context, width),
        "query key value": (3 * width, width),
        "mix": (width, width),
        "widen": (4 * width, width),
        "narrow": (width, 4 * width),
    }
    return {name: of.get(name, of.get(name.partition(" ")[2], (width,))) for name in names(layers)}


def unpacked(vector: Tensor, letters: int, context: int, layers: int, width: int) -> Weights:
    """The weights in a flat vector, copied."""
    found, begin = {}, 0
    for name, shape in shapes(letters, context, layers, width).items():
        size = math.prod(shape)
        found[name] = vector[begin : begin + size].clone().view(shape)
        begin += size
    assert begin == len(vector)
    return found


def normed(x: Tensor, gain: Tensor) -> Tensor:
    """Each row with mean 0 and variance 1, times the gain."""
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * gain


def logits(weights: Weights, window: Tensor, layers: int, heads: int) -> Tensor:
    """Of the characters that follow each of one window's [L]: [L, letters]."""
    length = len(window)
    x = weights["letters"][window] + weights["places"][:length]
    width = x.shape[1]
    size = width // heads
    for layer in range(layers):
        inner = normed(x, weights[f"{layer} norm 1"]) @ weights[f"{layer} query key value"].T
        query, key, value = inner[:, :width], inner[:, width : 2 * width], inner[:, 2 * width :]
        mixed = []
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            scores = query[:, part] @ key[:, part].T / math.sqrt(size)
            seen = torch.tril(torch.ones(length, length)) > 0
            chances = torch.where(seen, scores, torch.tensor(-torch.inf, dtype=scores.dtype)).softmax(1)
            mixed.append(chances @ value[:, part])
        x = x + torch.cat(mixed, 1) @ weights[f"{layer} mix"].T
        hidden = normed(x, weights[f"{layer} norm 2"]) @ weights[f"{layer} widen"].T
        hidden = hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2
        x = x + hidden @ weights[f"{layer} narrow"].T
    return normed(x, weights["last norm"]) @ weights["letters"].T


def loss(weights: Weights, windows: Tensor, layers: int, heads: int) -> Tensor:
    """The mean surprise, in nats, of every character of the windows [N, L + 1] but their first."""
    total = torch.zeros((), dtype=weights["letters"].dtype)
    for window in windows:
        found = logits(weights, window[:-1], layers, heads)
        surprise = found.logsumexp(1) - found[torch.arange(len(found)), window[1:]]
        total = total + surprise.sum()
    return total / windows[:, 1:].numel()


def step_size(step: int, steps: int, rate: float, warmup: int, final: float) -> float:
    """Of a step from 0: up a line, then down half a cosine to `final` · rate."""
    if step < warmup:
        return rate * (step + 1) / (warmup + 1)
    done = (step - warmup) / (steps - warmup)
    return rate * (final + (1 - final) * 0.5 * (1 + math.cos(math.pi * done)))


def trained(
    weights: Weights,
    batches: list[Tensor],
    layers: int,
    heads: int,
    *,
    steps: int,
    rate: float,
    warmup: int,
    decay: float,
    longest: float,
) -> Weights:
    """The weights after a step on each of the batches of windows; `steps` are those that the schedule is for."""
    leaves = {name: value.clone().requires_grad_() for name, value in weights.items()}
    optimizer = torch.optim.AdamW(leaves.values(), lr=rate, betas=(0.9, 0.99), weight_decay=decay)
    for step, windows in enumerate(batches):
        optimizer.param_groups[0]["lr"] = step_size(step, steps, rate, warmup, 0.1)
        optimizer.zero_grad()
        loss(leaves, windows, layers, heads).backward()
        torch.nn.utils.clip_grad_norm_(leaves.values(), longest)
        optimizer.step()
    return {name: leaf.detach() for name, leaf in leaves.items()}
