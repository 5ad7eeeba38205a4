"""The language task: against a training loop that is written out, what it draws, what it measures, a run."""

import math
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from reference import transformer as plain
from refusals import refusals
from run_support import configuration, go, rows
from torch import Tensor

from data.dataset import Text, Tokens
from data.markov import markov
from experiments.cluster.ranks import Ranks
from experiments.models.small_cnn import small_cnn
from experiments.models.transformer import transformer
from experiments.tasks.language import LanguageModel
from experiments.training.build import build_trainer

SMALL = ("task=text/markov", "task.model.width=12", "task.dataset.length=3000", "device=cpu")
ADAMW = ("algorithm=adam", "update.form=torch", "update.decoupled=true", "weight_decay=0.1", "lr=0.01")


def task(length: int = 2000, context: int = 8, workers: int = 4, **options) -> LanguageModel:
    model = transformer(characters=16, context=context, layers=1, heads=2, width=8)
    return LanguageModel(
        markov(length), model, workers=workers, seed=3, device=torch.device("cpu"), context=context, **options
    )


def windows(made: LanguageModel, t: int) -> Tensor:
    """Those of round t, [W, batch_size, context + 1]."""
    return torch.stack([made._windows(torch.from_numpy(made._starts(worker, t))) for worker in range(made.workers)])


def test_steps_are_those_of_the_loop_written_out():
    """Warm-up, cosine, clipping, AdamW and the mean over workers, whose windows together are one batch."""
    clipping = ("clip_worker=null", "clip_aggregate=1.0")
    run = configuration(*SMALL, *ADAMW, *clipping, "rounds=40", "warmup_rounds=5", "cluster.workers=4")
    trainer = build_trainer(run, Ranks())
    before = plain.unpacked(trainer.state.replica.x[0], letters=16, context=16, layers=2, width=12)
    batches = [windows(trainer.task, t).flatten(0, 1) for t in range(1, 9)]
    after = plain.trained(before, batches, 2, 2, steps=40, rate=0.01, warmup=5, decay=0.1, longest=1.0)
    for _ in range(8):
        trainer.step()
    ours = trainer.state.replica.x[0]
    moved = torch.cat([(after[name] - before[name]).flatten() for name in after])
    found = ours - torch.cat([value.flatten() for value in before.values()])
    torch.testing.assert_close(found, moved, rtol=0, atol=1e-3 * moved.abs().max().item())


def test_every_worker_draws_from_its_own_part():
    made, train = task(batch_size=500), markov(2000).train
    found = windows(made, 1)
    for worker, some in enumerate(found):
        part = bytes(train[worker * 450 : (worker + 1) * 450])
        assert all(part.find(bytes(window.tolist())) >= 0 for window in some.to(torch.uint8))
    starts = torch.from_numpy(np.stack([made._starts(worker, 1) for worker in range(4)]))
    for worker, some in enumerate(starts - 450 * torch.arange(4)[:, None]):
        assert 0 <= some.min() < 20, worker
        assert 430 <= some.max() < 450 - 8, worker
    assert not torch.equal(starts[0], starts[1] - 450)
    assert not torch.equal(starts[0], torch.from_numpy(made._starts(0, 2)))


@pytest.mark.parametrize("length", [2000, 2010, 2090, 2100, 80])
def test_every_held_out_character_but_the_first_is_predicted_once(length):
    """Held out are 200, 201, 209, 210 and 8: behind 24, 25, 26, 26 and 0 windows of 8 remain 7, 0, 0, 1 and 7."""
    made = task(length)
    x = made.start()[None] + 0.1 * torch.randn(1, made.d, generator=torch.Generator().manual_seed(0))
    measured = made.evaluate(x, made.start_statistics()[:1])
    text = markov(length).held_out.astype(np.int64)
    weights = plain.unpacked(x[0], letters=16, context=8, layers=1, width=8)
    total = 0.0
    for begin in range(0, len(text) - 1, 8):
        window = torch.from_numpy(text[begin : begin + 9])[None]
        total += float(plain.loss(weights, window, 1, 2)) * (window.numel() - 1)
    assert measured["test_loss"].item() == pytest.approx(total / (len(text) - 1), rel=1e-5)
    assert measured["bits_per_character"].item() == pytest.approx(measured["test_loss"].item() / math.log(2))


def test_training_loss_and_gradient_norm_are_those_of_fixed_windows_over_the_whole_part():
    made = task(evaluation_windows=11, evaluation_batch=4)
    text = markov(2000).train.astype(np.int64)
    starts = [int(k * (1800 - 9) / 10) for k in range(11)]
    some = torch.tensor(np.stack([text[begin : begin + 9] for begin in starts]))
    weights = plain.unpacked(made.start(), letters=16, context=8, layers=1, width=8)
    leaves = [value.requires_grad_() for value in weights.values()]
    mean = plain.loss(weights, some, 1, 2)
    gradient = torch.cat([part.flatten() for part in torch.autograd.grad(mean, leaves)])
    measured = made.evaluate(made.start()[None], made.start_statistics()[:1])
    assert measured["train_loss"].item() == pytest.approx(mean.item(), rel=1e-6)
    assert measured["grad_norm"].item() == pytest.approx(gradient.norm().item(), rel=1e-4)


def test_codes_above_int16_are_read_as_they_are():
    """They are stored in a dtype that CUDA indexes."""
    codes = np.arange(65_536, dtype=np.uint16)[::-1].copy()
    model = transformer(characters=65_536, context=4, layers=1, heads=1, width=1)
    tokens = Tokens("all", codes, codes[-10:], 65_536)
    made = LanguageModel(tokens, model, workers=1, seed=0, device=torch.device("cpu"), context=4)
    assert made._windows(torch.tensor([0, 32_766])).tolist() == [codes[k : k + 5].tolist() for k in (0, 32_766)]
    assert [some.tolist() for some in made._held_out_windows()] == [[[9, 8, 7, 6, 5], [5, 4, 3, 2, 1]], [[1, 0]]]
    assert {made._train.dtype, made._held_out.dtype} == {torch.int16}


def test_dropout_is_a_worker_and_a_rounds_own():
    """Workers with the same text and windows drop different things, and so does another round."""
    same = Text("same", np.frombuffer(b"a" * 90 + b"b" * 10, np.uint8))
    model = transformer(characters=2, context=4, layers=1, heads=1, width=8, dropout=0.5)
    made = LanguageModel(same, model, workers=2, seed=0, device=torch.device("cpu"), context=4, batch_size=2)
    x, statistics = made.start()[None], made.start_statistics()[None]
    [[one, other]], [[later, _]] = (made.gradients(x, statistics, t)[0] for t in (1, 2))
    assert not any(torch.allclose(one, some) for some in (other, later))


def of_network(network: torch.nn.Module) -> LanguageModel:
    return LanguageModel(markov(2000), network, workers=1, seed=0, device=torch.device("cpu"), context=8)


tiny = partial(transformer, layers=1, heads=1, width=4)
test_a_model_that_does_not_fit_the_text_is_refused = refusals(
    (lambda: of_network(tiny(characters=15, context=8)), "16 logits"),
    (lambda: of_network(tiny(characters=17, context=8)), "task.model.characters=16"),
    (lambda: of_network(tiny(characters=16, context=7)), "must take 8 characters"),
    (lambda: of_network(small_cnn(4)), "batch norm"),
)


def test_a_method_that_sees_matrices_trains_on_the_embedded_text(tmp_path: Path) -> None:
    short = ["rounds=12", "warmup_rounds=2", "eval_every=6", "task.batch_size=2", "task.evaluation_windows=8"]
    found = rows(go(*SMALL, *short, "algorithm=muon", "lr=0.003", f"results_dir={tmp_path}"))
    assert [row["round"] for row in found] == [0, 6, 12]
    assert found[0]["test_loss"] == pytest.approx(math.log(16), rel=0.01)
    assert min(row["test_loss"] for row in found) < found[0]["test_loss"]
    assert math.isfinite(found[-1]["test_loss"])
