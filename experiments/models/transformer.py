"""A small decoder-only transformer, with dropout masks drawn from keys."""

from typing import Annotated

import torch
from annotated_types import Ge, Lt
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, scaled_dot_product_attention

from algorithms.utils.seeding import keyed_seed

DEVIATION = 0.02


class KeyedDropout(nn.Module):
    """Sets a share p of its input to zero in training mode and multiplies the rest by 1/(1 − p).

    Its masks depend only on the layer and on the name given to `key_masks` before the forward pass, not on torch's
    global generator. They are drawn on the input's device; a GPU's masks differ from a CPU's.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p, self.seed = p, 0

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or not self.p:
            return x
        generator = torch.Generator(x.device).manual_seed(self.seed)
        return x * torch.empty_like(x).bernoulli_(1 - self.p, generator=generator) / (1 - self.p)


def key_masks(module: nn.Module, *name: int | str) -> None:
    """Let the masks of a module's next forward pass depend on `name`, such as (seed, worker, round), alone."""
    layers = (layer for layer in module.modules() if isinstance(layer, KeyedDropout))
    for number, layer in enumerate(layers):
        layer.seed = keyed_seed("dropout", *name, number)


class Projection(nn.Linear):
    """A linear map without bias. Its initial weights are normal with the given standard deviation."""

    def __init__(self, inputs: int, outputs: int, deviation: float = DEVIATION) -> None:
        super().__init__(inputs, outputs, bias=False)
        self.deviation = deviation

    def initialise(self, generator: torch.Generator) -> None:
        """Set the initial weights. `experiments.models.initial.initialise` calls this."""
        self.weight.copy_(torch.empty(self.weight.shape).normal_(0, self.deviation, generator=generator))


class Attention(nn.Module):
    """Causal self-attention with several heads."""

    def __init__(self, width: int, heads: int, deviation: float, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.inputs = Projection(width, 3 * width)  # queries, keys and values
        self.output = Projection(width, width, deviation)
        self.weights_dropout, self.dropout = KeyedDropout(dropout), KeyedDropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        split = self.inputs(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        query, key, value = split.unbind(0)  # [batch, heads, length, width/heads]
        if self.training and self.weights_dropout.p:
            # torch's own function draws its masks from the global generator.
            scores = query @ key.transpose(-2, -1) * (width // self.heads) ** -0.5
            future = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(1)
            mixed = self.weights_dropout(scores.masked_fill(future, float("-inf")).softmax(-1)) @ value
        else:
            mixed = scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.dropout(self.output(mixed.transpose(1, 2).reshape(batch, length, width)))


class Block(nn.Module):
    """x + attention(norm(x)), then x + perceptron(norm(x)) with four times the width and GELU."""

    def __init__(self, width: int, heads: int, deviation: float, dropout: float) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(width, bias=False)
        self.attention = Attention(width, heads, deviation, dropout)
        self.perceptron_norm = nn.LayerNorm(width, bias=False)
        self.hidden = Projection(width, 4 * width)
        self.output = Projection(4 * width, width, deviation)
        self.dropout = KeyedDropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.dropout(self.output(gelu(self.hidden(self.perceptron_norm(x)))))


class Transformer(nn.Module):
    """Codes [N, L] → logits [N, L, characters]; see `transformer`."""

    def __init__(self, characters: int, context: int, layers: int, heads: int, width: int, dropout: float) -> None:
        super().__init__()
        deviation = DEVIATION * (2 * layers) ** -0.5
        self.characters = nn.Embedding(characters, width)
        self.positions = nn.Embedding(context, width)
        self.dropout = KeyedDropout(dropout)
        self.blocks = nn.ModuleList(Block(width, heads, deviation, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=False)

    def forward(self, codes: Tensor) -> Tensor:
        x = self.dropout(self.characters(codes) + self.positions.weight[: codes.shape[1]])
        for block in self.blocks:
            x = block(x)
        return linear(self.norm(x), self.characters.weight)


def transformer(
    characters: int = 65,  # of the alphabet
    context: int = 64,  # characters that it sees, at most
    layers: int = 4,  # blocks of attention and perceptron
    heads: int = 4,  # of every attention
    width: int = 128,  # of the residual stream; a multiple of the heads
    dropout: Annotated[float, Ge(0), Lt(1)] = 0.0,  # share of activations set to zero in training
) -> nn.Module:
    """Codes [N, L ≤ context] → logits [N, L, characters]: the small GPT of karpathy/nanoGPT's readme.

    Learned positions, pre-norm blocks of causal attention and a perceptron of four times the width with GELU, and a
    last norm. There are no biases, and the head shares the embedding's matrix. Initial weights are normal with
    deviation 0.02, or 0.02/√(2·layers) where they write into the residual stream (Radford et al. 2019); norms have 1.
    804,096 parameters by default. Raises ValueError unless the heads divide the width.
    """
    if width % heads:
        raise ValueError(f"width={width}, heads={heads}: the heads must divide the width")
    return Transformer(characters, context, layers, heads, width, dropout)
