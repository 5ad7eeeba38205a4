"""The transformer against one that is written out, its initial weights, and dropout by name."""

import pytest
import torch
from reference import transformer as plain
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from experiments.models.flat import FlatModel
from experiments.models.initial import initialise
from experiments.models.transformer import KeyedDropout, key_masks, transformer

SIZES = {"context": 9, "layers": 2, "width": 12}


def made(dropout: float = 0.0, seed: int = 0) -> FlatModel:
    module = transformer(characters=7, heads=3, dropout=dropout, **SIZES)
    initialise(module, seed)
    return FlatModel(module, "cpu")


def codes(*shape: int) -> Tensor:
    return torch.randint(0, 7, shape, generator=torch.Generator().manual_seed(0))


def test_small_has_the_published_number_of_parameters():
    assert FlatModel(transformer(), "cpu").d == 804096


def test_logits_and_gradient_are_those_of_the_one_written_out():
    model = made()
    with torch.no_grad():
        model.vector += 0.1 * torch.randn(model.d, generator=torch.Generator().manual_seed(1))
    weights = plain.unpacked(model.vector, letters=7, **SIZES)
    assert sum(map(torch.numel, weights.values())) == model.d
    windows = codes(4, 10)
    leaves = {name: weight.double().requires_grad_() for name, weight in weights.items()}
    expected = torch.stack([plain.logits(leaves, window[:-1], 2, 3) for window in windows])
    found = model.module(windows[:, :-1])
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)
    wanted = torch.autograd.grad(plain.loss(leaves, windows, 2, 3), list(leaves.values()))
    gradient = torch.empty(model.d)
    model.gradient(cross_entropy(found.flatten(0, 1), windows[:, 1:].flatten()), gradient)
    torch.testing.assert_close(
        gradient.double(), torch.cat([part.flatten() for part in wanted]), rtol=1e-3, atol=1e-6
    )


def test_no_character_is_predicted_from_what_follows():
    model, one = made(), codes(1, 9)
    other = one.clone()
    other[0, 5] = (one[0, 5] + 1) % 7
    before, after = model.module(one), model.module(other)
    assert torch.equal(before[:, :5], after[:, :5])
    assert not torch.isclose(before[:, 5:], after[:, 5:]).all(-1).any()


def test_initial_weights_have_their_deviations():
    module = transformer()
    initialise(module, 3)
    expected = {"norm": (1, 0), "output": (0, 0.02 / 8**0.5)}
    for name, weight in module.named_parameters():
        kind = next((part for part in expected if part in name.split(".")[-2]), "")
        mean, deviation = expected.get(kind, (0, 0.02))
        assert weight.mean().item() == pytest.approx(mean, abs=6 * deviation / weight.numel() ** 0.5), name
        assert weight.std().item() == pytest.approx(deviation, rel=0.03, abs=0), name
    assert {type(layer) for layer in module.modules() if any(True for _ in layer.parameters(recurse=False))} == {
        nn.Embedding,
        nn.LayerNorm,
        type(module.blocks[0].hidden),
    }


def loss(model: FlatModel, *name: int) -> tuple[Tensor, Tensor]:
    """The loss in training mode with the masks of a name, and its gradient."""
    model.module.train()
    key_masks(model.module, *name)
    windows = codes(5, 10)
    found = cross_entropy(model.module(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten())
    gradient = torch.empty(model.d)
    model.gradient(found, gradient)
    return found.detach(), gradient


def test_masks_depend_on_their_name_alone():
    model = made(dropout=0.3)
    torch.manual_seed(0)
    state = torch.get_rng_state()
    first = loss(model, 0, 1, 2)
    loss(model, 0, 1, 3)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(5)
    again, fresh = loss(model, 0, 1, 2), loss(made(dropout=0.3), 0, 1, 2)
    assert torch.equal(first[1], again[1])
    assert torch.equal(first[1], fresh[1])
    others = [loss(model, *name)[0] for name in [(1, 1, 2), (0, 2, 2), (0, 1, 3)]]
    assert len({value.item() for value in (first[0], *others)}) == 4


def test_layers_have_masks_of_their_own_of_the_right_share():
    layers = nn.Sequential(KeyedDropout(0.2), KeyedDropout(0.2))
    key_masks(layers, 0)
    one, other = (layer(torch.ones(100000)) for layer in layers)
    assert set(one.unique().tolist()) == {0.0, 1.25}
    for masks in (one, other):
        assert masks.mean().item() == pytest.approx(1, abs=0.01)
    assert (one * other).mean().item() == pytest.approx(1, abs=0.02)  # independent


def test_in_evaluation_mode_nothing_is_dropped_and_both_ways_of_attention_agree():
    dropping, plainly = made(dropout=0.3), made()
    windows = codes(3, 9)
    dropping.module.eval()
    assert torch.equal(dropping.module(windows), plainly.module(windows))
    dropping.module.train()
    for layer in dropping.module.modules():
        if isinstance(layer, KeyedDropout):
            layer.p = 1e-12  # the way of attention with masks, which keep all
    key_masks(dropping.module, 0)
    torch.testing.assert_close(dropping.module(windows), plainly.module(windows), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 5}, "width=128, heads=5"),
        ({"dropout": 1.0}, "dropout=1.0"),
    ],
)
def test_nonsense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        transformer(**options)
