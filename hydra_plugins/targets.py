"""A config source for the group `target`: the options of a class or function, with their defaults.

    defaults: [/target@_here_: algorithms.compressors.TopK]

in a file of conf/ sets `_target_` and every option of that class with a plain default. So a default is written once,
in the class.
"""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.object_type import ObjectType
from hydra.plugins.config_source import ConfigLoadError, ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import OmegaConf

from common.errors import UsageError
from experiments.config.classes import PACKAGES, Classes, defaults

_GROUP = "target/"


class TargetPath(SearchPathPlugin):
    """Adds the source to Hydra's search path, whatever the primary configuration."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for package in PACKAGES:
            search_path.append("targets", f"target://{package}")


class TargetSource(ConfigSource):
    """Reads `target://PACKAGE`: classes and functions of one package."""

    @staticmethod
    def scheme() -> str:
        return "target"

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return False

    def is_config(self, config_path: str) -> bool:
        return config_path.startswith(f"{_GROUP}{self.path}.")

    def load_config(self, config_path: str) -> ConfigResult:
        target = config_path.removeprefix(_GROUP).removesuffix(".yaml")
        try:
            found = Classes([self.path]).import_target({"_target_": target}, target)
            config = OmegaConf.create({"_target_": target, **defaults(found)})
        except UsageError as error:
            raise ConfigLoadError(str(error)) from error
        return ConfigResult(self.provider, f"target://{target}", config, header={"package": None})

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return []
