"""A synthetic text with a known least possible loss."""

from typing import Annotated

import numpy as np
from annotated_types import Ge

from data.dataset import Text
from data.partition import generator

ALPHABET = np.frombuffer(b" abcdefghijklmno", np.uint8)
SHARPNESS = 0.1  # of the Dirichlet distribution: in a row of 16 probabilities about two are large


def markov(
    length: Annotated[int, Ge(1000)] = 60000,  # characters
    seed: int = 0,  # of the source and of its text
) -> Text:
    """A text of a Markov source of order 2 over 16 characters.

    After the characters a and b, the next one is drawn from p(· | a, b). Each of the 256 distributions is drawn from
    a symmetric Dirichlet distribution of parameter 0.1. No model's mean loss falls below the source's entropy rate:
    1.15 nats a character for seed 0. The first k characters are the same for any length.
    """
    size = len(ALPHABET)
    limits = transition_probabilities(seed).cumsum(-1)
    draws = generator(seed, "markov text").random(length)
    codes = np.zeros(length + 2, np.uint8)  # after two spaces, which are left out below
    for place, draw in enumerate(draws, start=2):
        row = limits[codes[place - 2], codes[place - 1]]
        codes[place] = min(np.searchsorted(row, draw, side="right"), size - 1)  # rounding may leave the sum below 1
    return Text("markov", ALPHABET[codes[2:]])


def transition_probabilities(seed: int) -> np.ndarray:
    """p(c | a, b) of the source, float64 [16, 16, 16], indexed by a, b and c."""
    size = len(ALPHABET)
    return generator(seed, "markov source").dirichlet([SHARPNESS] * size, (size, size))
