"""Composing without Hydra's own settings is composing."""

import pytest
from hydra import compose as of_hydra
from omegaconf import DictConfig, OmegaConf

from experiments.config.compose import compose, composing


def same(name: str, *overrides: str) -> None:
    with composing():
        ours, theirs = compose(overrides, name), of_hydra(name, list(overrides))
    plain = [OmegaConf.to_yaml(one, resolve=False) for one in (ours, theirs)]
    assert plain[0] == plain[1]
    assert OmegaConf.is_struct(ours)
    assert flags(ours) == flags(theirs)


def flags(node: DictConfig) -> dict[object, object]:
    return {key: dict(node._get_node(key)._metadata.flags or {}) for key in node}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "overrides",
    [
        pytest.param("", marks=pytest.mark.slow),
        "algorithm=ef21 task=cifar10/resnet18 compressor=top_k compressor.ratio=0.05 lr=[0.1,0.3]",
        pytest.param("+new.key=1 task=text/markov results_dir='${data_dir}/x'", marks=pytest.mark.slow),
    ],
)
def test_runs(overrides: str) -> None:
    same("config", *overrides.split())


@pytest.mark.slow
@pytest.mark.parametrize("figure", ["figure_2"])
def test_figures(figure: str) -> None:
    same("reproduce", f"figure={figure}", "jobs=3")


def test_hydras_own_keys_are_hydras() -> None:
    same("config", "hydra.job.name=mine", "hydra/launcher=basic", "algorithm=ef21")
