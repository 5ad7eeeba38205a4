"""Rounds in place, tile by tile, against the same rounds on whole vectors."""

import pytest
import torch
from optimizer_support import ALGORITHMS

from algorithms.compressors import Blocks, Int4, ScaledSign
from algorithms.core import tiles
from algorithms.core.update_rules import Adam, AMSGrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.loco import loco
from experiments.contracts.test_algorithm import run_whole_and_tiled

D, ROUNDS, SEED = 3 * 2**12 + 77, 5, 3
MADE = ALGORITHMS | {
    "cd_adam layerwise": cd_adam(Blocks(ScaledSign(), (D - 5000, 5000)), AMSGrad()),
    "groups of 48": loco(Int4(block=48), Adam()),  # which no tile is a multiple of
}


@pytest.mark.parametrize("name", MADE)
def test_tiles_make_the_numbers_of_whole_vectors(name, monkeypatch):
    monkeypatch.setattr(tiles, "TILE", 2**12)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(D, generator=generator)
    drawn = [lambda x: torch.randn(1, D, generator=generator)] * ROUNDS
    for t, (whole, parts) in enumerate(run_whole_and_tiled(MADE[name], x, drawn, SEED), 1):
        assert torch.equal(parts, whole), t
