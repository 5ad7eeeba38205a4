"""The project's own algorithms, tasks and data sets keep what is asked of all; compressors: test_compressors.py."""

from functools import partial
from typing import Any

import pytest
import torch
from hydra.utils import get_object

from algorithms.compressors import (
    Bf16,
    ChunkTopKBins,
    DctTopK,
    Identity,
    LogQuantize,
    MinMaxUint8,
    RandomK,
    RankK,
    ScaledSign,
    TopK,
)
from algorithms.core.update_rules import SGD, AMSGrad
from algorithms.registry import _read, names, parameters
from data.embedded import breast_cancer, digit_images, digits
from data.markov import markov
from data.synthetic import synthetic
from experiments.contracts.test_algorithm import LAYOUT, TestAlgorithm, cases
from experiments.contracts.test_dataset import TestDataset
from experiments.contracts.test_task import TestTask
from experiments.models.small_cnn import small_cnn
from experiments.models.transformer import transformer
from experiments.tasks.images import ImageClassification
from experiments.tasks.language import LanguageModel
from experiments.tasks.logreg import LogisticRegression

__all__ = ["TestAlgorithm", "TestDataset", "TestTask"]

BOTH_WAYS = [name for name in names() if "uplink_only" in parameters(name)]


def of_configuration(name: str, **others: Any) -> list:
    """An algorithm of conf/ with its published options, or one case with others; periods are short.

    All but a method's first case are slow tests.
    """
    target, options, _ = _read("algorithm", name)
    soon = {"period": 3} if "period" in parameters(name) else {}
    found = cases(get_object(target), **{**options, **soon, **others})
    return [
        pytest.param(
            case,
            id="-".join([name, *map(str, others.values()), str(case)]),
            marks=pytest.mark.slow if others or number else (),
        )
        for number, case in enumerate(found[:1] if others else found)
    ]


ALGORITHMS = [
    *map(of_configuration, names()),
    *(of_configuration(name, compressor=RandomK(k=6), uplink_only=True) for name in BOTH_WAYS),
    *(of_configuration("quantized_adam", compressor=LogQuantize(), uplink_only=only) for only in (False, True)),
    of_configuration("ef21", dense_start=False),
    of_configuration("qadam", compressor=MinMaxUint8()),
    of_configuration("sgd", update=SGD()),
    of_configuration("adamw", compressor=Bf16()),
    of_configuration("onebit_adam", signal="gradient", compressor=TopK(k=2)),
    of_configuration("onebit_adam", signal="gradient", form="torch", compressor=ScaledSign("l2")),
    of_configuration("naive", compressor=ScaledSign("l2"), update=AMSGrad(form="torch")),
    of_configuration("ef21_sgdm", double=True, dense_start=False),
    of_configuration("diana", compressor=RandomK(k=6, unbiased=True)),
    of_configuration("marina", compressor=RandomK(k=6, unbiased=True), p=0.3),
    *(of_configuration(name, compressor=RandomK(k=6, unbiased=True)) for name in ("dasha", "dasha_mvr")),
    of_configuration("dasha", start="share"),
    of_configuration("diana", along="learnt"),
    of_configuration("loco", error_bits=8),
    of_configuration("ef21_bc", downlink_compressor=TopK(k=7)),
    of_configuration("signum", tie="zero"),
    of_configuration("distributed_lion", combine="mean"),
    of_configuration("demo", compressor=DctTopK(1, 2, False), tie="plus", weight_decay=0.1),
    of_configuration("error_feedback", compressor=RankK(1, LAYOUT), update=SGD()),
    of_configuration("powersgd", residual="local", roles="matrix", rank=1),
    of_configuration("zero_one_adam", warmup=0.5, kappa=3, stretch=0.25, longest=4),
    *(of_configuration("sparta", compressor=RandomK(k=k)) for k in (3, 12)),
    of_configuration("sparseloco", compressor=ChunkTopKBins(2, 5)),
    of_configuration("sparseloco", compressor=ChunkTopKBins(2, 5), aggregate="senders"),
    of_configuration("diloco", period=4, fragments=2, delay=3, mixing=0.5),
    of_configuration("sparseloco", compressor=ChunkTopKBins(3, 4), period=2, fragments=2),
    of_configuration("muloco", period=2, fragments=2, delay=1, uplink_only=False),
    of_configuration("muloco", compressor=Identity(), nesterov=True, scale="original"),
]
FEW = synthetic(rows=41, features=6, workers=4, heterogeneity=0.5)


def images(**of_the_run: Any) -> ImageClassification:
    """Every task takes the parameters of its network over, and so gets one of its own."""
    options = {"rows": 160, "batch_size": 8, "padding": 1, "evaluation_rows": 64, "evaluation_batch": 40}
    return ImageClassification(digit_images(), small_cnn(4), device=torch.device("cpu"), **options, **of_the_run)


def language(dropout: float = 0.0, **of_the_run: Any) -> LanguageModel:
    """Likewise."""
    model = transformer(characters=16, context=8, layers=2, heads=2, width=8, dropout=dropout)
    options = {"batch_size": 3, "context": 8, "evaluation_windows": 20, "evaluation_batch": 7}
    return LanguageModel(markov(2000), model, device=torch.device("cpu"), **options, **of_the_run)


TASKS = {
    "breast cancer": partial(LogisticRegression, breast_cancer()),
    "digits": partial(LogisticRegression, digits(), partition="dirichlet", regularization=0.5),
    "synthetic": partial(LogisticRegression, FEW, partition="shuffled"),
    "batches": partial(LogisticRegression, breast_cancer(), batch_size=5),
    "step size of theory": partial(LogisticRegression, FEW, step_unit="theory"),
    "images": images,
    "language": language,
    "language with dropout": partial(language, dropout=0.2),
}
DATASETS = {
    "breast cancer": breast_cancer,
    "digits": digits,
    "digit images": digit_images,
    "synthetic": partial(synthetic, rows=50, features=4, workers=3),
    "markov text": partial(markov, length=3000),
}


@pytest.fixture(params=[case for cases_ in ALGORITHMS for case in cases_])
def build_algorithm(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(
    params=[
        pytest.param(task, id=name, marks=[pytest.mark.slow] * name.startswith(("batches", "language")))
        for name, task in TASKS.items()
    ]
)
def build_task(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=DATASETS.values(), ids=list(DATASETS))
def load(request: pytest.FixtureRequest) -> Any:
    return request.param
