"""Compose configurations from overrides, by Hydra."""

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.core_plugins import file_config_source
from hydra._internal.defaults_list import create_defaults_list
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.config_source import ConfigResult
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from common.errors import UsageError
from experiments.config import schema

ROOT = Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"

OURS = ("main",)
"""Hydra's names for the source conf/."""

Config = dict[str, Any]
"""A resolved configuration: nested dicts, lists and scalars."""


@cache
def register() -> None:
    """Register the schema with Hydra, under the names that begin conf/run.yaml and conf/reproduction.yaml."""
    store = ConfigStore.instance()
    store.store(name="keys_of_runs", node=schema.node(schema.RunConfig, schema.LaunchConfig))
    store.store(name="keys_of_figures", node=schema.node(schema.Reproduction, schema.LaunchConfig))
    if str(ROOT) not in sys.path:  # for hydra_plugins, from another folder
        sys.path.append(str(ROOT))
    Plugins.instance()  # registers Hydra's own sources
    SourcesRegistry.instance().types["file"] = FileConfigSource


class FileConfigSource(file_config_source.FileConfigSource):
    """A folder of configurations. A user's file may not have the name of one in conf/, because Hydra would silently
    read that one.

    Only files of conf/ and the command line may set anything below `hydra`, because Hydra imports and calls these
    values before any run is checked. The class has the name of Hydra's own; Hydra's launchers start no process
    without it.
    """

    def __init__(self, provider: str, path: str) -> None:
        super().__init__(provider, path)
        if provider not in OURS:
            groups = (Path(self.path, group.name) for group in sorted(CONF.iterdir()) if group.is_dir())
            for file in (file for group in groups for file in sorted(group.rglob("*.yaml"))):
                if (ours := CONF / file.relative_to(self.path)).exists() and not file.samefile(ours):
                    raise UsageError(f"{file}: has the name of {ours}; rename yours")

    def load_config(self, config_path: str) -> ConfigResult:
        found = super().load_config(config_path)
        if self.provider not in OURS and isinstance(found.config, DictConfig):
            keys, groups = map(str, found.config), str(found.config.get("defaults"))
            for text in (config_path, str(found.header["package"]), groups, *keys):
                if re.search(r"\bhydra\b", text):
                    raise UsageError(
                        f"{self.path}/{config_path}: a file may not set anything below hydra, because Hydra calls "
                        "it before any run is checked; set it on the command line"
                    )
        return found


@contextmanager
def initialize_hydra() -> Iterator[None]:
    """Initialise Hydra for the with-block, which may compose any number of configurations."""
    if GlobalHydra.instance().is_initialized():
        yield  # within a command, with the same search path
        return
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        yield


def compose(
    overrides: Iterable[str], name: str = "run", packages: Sequence[str] = (), folders: Sequence[str] = ()
) -> DictConfig:
    """Compose conf/<name>.yaml with overrides. Packages and folders may add groups. Raises what Hydra raises."""
    words = [*search_path(packages, folders), *overrides]
    sources = tuple(text for text in words if text.startswith("hydra.searchpath="))
    own = [text for text in words if text not in sources]
    with initialize_hydra():
        if any(text.lstrip("+~").startswith("hydra") for text in own):
            return hydra_compose(name, words)
        return _compose_without_hydra(name, sources, own)


def _compose_without_hydra(name: str, sources: tuple[str, ...], overrides: list[str]) -> DictConfig:
    """Compose like `hydra.compose`, which drops Hydra's own settings. Here they are not composed at all.

    Overrides of the same groups start from a copy of one configuration, because listing files takes most of the time.
    """
    loader = GlobalHydra.instance().config_loader()
    assert isinstance(loader, ConfigLoaderImpl)
    parsed = OverridesParser.create().parse_overrides(overrides)
    loader.validate_sweep_overrides_legal(overrides=parsed, run_mode=RunMode.RUN, from_shell=False)
    exists = _files(loader, name, sources).group_exists
    groups = [one for one in parsed if exists(one.key_or_group) and not isinstance(one.value(), dict)]
    composed = deepcopy(_base(loader, name, sources, tuple(str(one.input_line) for one in groups)))
    loader._apply_overrides_to_config([one for one in parsed if one not in groups], composed)
    return composed


@lru_cache
def _files(loader: ConfigLoaderImpl, name: str, sources: tuple[str, ...]) -> CachingConfigRepository:
    return loader._parse_overrides_and_create_caching_repo(name, [*sources])[1]


@lru_cache
def _base(loader: ConfigLoaderImpl, name: str, sources: tuple[str, ...], groups: tuple[str, ...]) -> DictConfig:
    """Compose conf/<name>.yaml with choices of groups alone, without Hydra's own settings."""
    files = _files.__wrapped__(loader, name, sources)  # a new repository, because composing changes it
    parsed = OverridesParser.create().parse_overrides([*groups])
    has_own = name not in ("run", "reproduction")
    listed = create_defaults_list(files, name, parsed, prepend_hydra=has_own, skip_missing=False)
    composed = loader._compose_config_from_defaults_list(listed.defaults, files)
    composed.pop("hydra", None)  # composed only because the file may change it
    OmegaConf.set_struct(composed, True)
    return composed


def search_path(packages: Sequence[str], folders: Sequence[str] = ()) -> list[str]:
    """Return the override that adds these packages and folders to Hydra's search path, if any."""
    places = [f"target://{name}" for name in packages]
    places += [f"file://{root.absolute()}" for root in roots(packages, folders)[1:]]
    return [f"hydra.searchpath={json.dumps(places, ensure_ascii=False)}"] if places else []


def roots(packages: Iterable[str], folders: Sequence[str] = ()) -> list[Path]:
    """The folders that hold groups: this project's, the `conf` of the user's packages, and `folders`."""
    theirs = [folder for package in packages if (folder := folder_of_package(package) / "conf").is_dir()]
    return [CONF, *theirs, *map(Path, folders)]


def choices(group: str, places: Iterable[Path]) -> list[str]:
    """List a group's choices in folders of groups. Files with a leading underscore only serve other files."""
    files = [(path, place / group) for place in places for path in (place / group).rglob("*.yaml")]
    return sorted(str(path.relative_to(top)).removesuffix(".yaml") for path, top in files if path.name[0] != "_")


def resolve(composed: DictConfig) -> Config:
    """Resolve a composed configuration, without Hydra's keys. Raises UsageError if a value is not set."""
    own = composed
    if "hydra" in composed:
        own = OmegaConf.masked_copy(composed, [str(key) for key in composed if key != "hydra"])
    try:
        values = OmegaConf.to_container(own, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise UsageError(f"{error.full_key}: {str(error).splitlines()[0]}; set it on the command line") from error
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def parse(text: str) -> Override:
    """Parse one override. Raises UsageError if it breaks Hydra's grammar."""
    try:
        return OverridesParser.create().parse_override(text)
    except HydraException as error:
        if dash := re.search("[‐-―−]", text):
            raise UsageError(f"{text}: has the dash {dash[0]}; write - instead") from error
        key, _, value = text.partition("=")
        raise UsageError(
            f"{text}: not of the form key=value; leave out spaces within brackets, and put special characters into "
            f"quotes, one pair for the shell and one for Hydra: '{key}=\"{value}\"'"
        ) from error


def quote(overrides: Iterable[str]) -> list[str]:
    """Quote folders and studies that begin with a digit, because Hydra turns study=2024_11_27 into 20241127."""
    quoted = []
    for text in overrides:
        key, equals, value = text.partition("=")
        if key in ("results_dir", "data_dir", "study"):
            value = re.sub(r"(^|(?<=,))-?\d[\w.+-]*(?=,|$)", r"'\g<0>'", value)
        quoted.append(f"{key}{equals}{value}")
    return quoted


def split(overrides: Iterable[str], keys: Iterable[str]) -> tuple[list[str], list[str]]:
    """Split overrides: first all of these keys and the keys below them, then the others. Raises UsageError."""
    ours: list[str] = []
    rest: list[str] = []
    known = tuple(f"{key}." for key in keys)
    for text in overrides:
        (ours if f"{parse(text).key_or_group.partition('@')[0]}.".startswith(known) else rest).append(text)
    return ours, rest


def value_of(key: str, overrides: Iterable[str]) -> Any:
    """Return the value that the last override of a key sets; None without one, or if it has no value yet."""
    found = [text for text in overrides if text.lstrip("+").startswith(f"{key}=")]
    return parse(found[-1]).value() if found else None


def packages_of(overrides: Iterable[str]) -> list[str]:
    """Return the user's packages that a command line allows. Raises UsageError unless it is a list of packages."""
    packages = value_of("packages", overrides)
    if packages is None:
        return []
    if not isinstance(packages, list):
        raise UsageError(f"packages={packages}: must be a list of package names, such as [my_package]")
    for package in packages:
        folder_of_package(package)
    return packages


def folder_of_package(name: object) -> Path:
    """Return the folder of a user's package. Raises UsageError if it cannot be found."""
    try:
        spec = find_spec(str(name))
    except (ImportError, ValueError):
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(f"packages=[{name}]: cannot be imported; install it, or add its folder to PYTHONPATH")
    return Path(next(iter(spec.submodule_search_locations)))


def dotted_keys(node: object, prefix: str = "") -> Iterator[str]:
    """Yield the keys of nested mappings, as a command line names them."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield f"{prefix}{key}"
            yield from dotted_keys(value, f"{prefix}{key}.")
