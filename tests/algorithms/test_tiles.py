"""Rounds in place, tile by tile, against the same rounds on whole vectors."""

from dataclasses import replace

import pytest
import torch
from optimizer_support import ALGORITHMS

from algorithms.compressors import Blocks, Int4, ScaledSign
from algorithms.core import tiles
from algorithms.core.update_rules import Adam, AMSGrad
from algorithms.methods.cd_adam import cd_adam
from algorithms.methods.loco import loco
from algorithms.registry import load_method

D, ROUNDS, SEED = 3 * 2**12 + 77, 5, 3
NAMED = ("adamw", "loco", "ef21", "onebit_adam", "econtrol", "diana", "signum", "ef21_sgdm", "ef21_p")
MADE = ALGORITHMS | {
    "cd_adam layerwise": cd_adam(Blocks(ScaledSign(), (D - 5000, 5000)), AMSGrad()),
    "groups of 48": loco(Int4(block=48), Adam()),  # which no tile is a multiple of
}
OPTIONS = {"onebit_adam": {"rounds": ROUNDS, "warmup": 2}}


class Stored:
    """A vector in two tensors."""

    def __init__(self, vector: torch.Tensor) -> None:
        self.vector, self.d, self.device = vector.clone(), len(vector), vector.device

    def read(self, begin: int, end: int) -> torch.Tensor:
        return self.vector[begin:end]

    def write(self, begin: int, values: torch.Tensor) -> None:
        self.vector[begin : begin + len(values)] = values


@pytest.mark.parametrize("name", [*MADE, *NAMED])
def test_tiles_make_the_numbers_of_whole_vectors(name, monkeypatch):
    monkeypatch.setattr(tiles, "TILE", 2**12)
    algorithm = load_method(name, **OPTIONS.get(name, {})) if name in NAMED else MADE[name]
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(D, generator=generator)

    def start():
        return algorithm.start_workers(x, torch.tensor([0])), algorithm.start_server(x), algorithm.start_replica(x)

    worker, server, replica = start()
    stored, states = Stored(x), tiles.States(*start())
    states = states._replace(replica=replace(states.replica, x=x.new_empty(0)))
    in_place = tiles.TiledStates(algorithm, states, D)
    for t in range(1, ROUNDS + 1):
        gradient = torch.randn(D, generator=generator)
        up, worker = algorithm.worker(gradient.unsqueeze(0), worker, replica, 0.01, t, SEED)
        down, server = algorithm.server(up, server, t, SEED)
        replica = algorithm.replica(down, replica, 0.01, t)
        in_place.round(algorithm, Stored(gradient), stored, 0.01, t, SEED)
        assert torch.equal(stored.vector, replica.x), t
