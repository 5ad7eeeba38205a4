"""What --help prints: the choices of every group, and what each key means."""

import textwrap
from dataclasses import fields

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType

from experiments.config import schema

_HIDDEN = ("hydra", "target", "update", "budgets")
"""Groups of Hydra, of classes, of what a method brings, and of figures."""


def groups() -> str:
    """Every group with its choices, also of a user; files that others build on are left out."""
    loader = GlobalHydra.instance().config_loader()
    assert isinstance(loader, ConfigLoaderImpl)
    files = loader.repository  # Hydra evaluates this text in every run, and copies them whenever it is asked itself

    def groups_in(group: str) -> list[str]:
        return [name for name in files.get_group_options(group, ObjectType.GROUP) if name not in _HIDDEN]

    def choices(group: str) -> list[str]:
        own = [name for name in files.get_group_options(group, ObjectType.CONFIG) if not name.startswith("_")]
        return own + [f"{name}/{choice}" for name in groups_in(group) for choice in choices(f"{group}/{name}")]

    found = {name: choices(name) for name in groups_in("")}
    return "\n".join(_entry(name, ", ".join(chosen)) for name, chosen in found.items() if chosen)


def keys(*kinds: type) -> str:
    """Every key of these dataclasses, as on a command line, with its default and what it means."""
    lines = []
    for kind in kinds:
        for one in fields(kind):
            if not schema.is_part(one) and one.name != "cluster":
                prefix = "cluster." if kind is schema.ClusterConfig else ""
                lines.append(_entry(f"{prefix}{one.name}={_written(schema.default(one))}", _meaning(one)))
    return "\n".join(lines)


def _meaning(one: schema.Field) -> str:
    about = schema.about(one)
    limits = [
        ", ".join(about.choices),
        f"at least {about.least}" if about.least is not None else "",
        f"at most {about.most}" if about.most is not None else "",
        "positive" if about.positive else "",
        f"unit: {about.unit}" if about.unit else "",
    ]
    said = "; ".join(filter(None, limits))
    return about.help + (f" ({said})" if said else "")


def _entry(name: str, text: str) -> str:
    # Hydra fills in what a dollar stands before.
    return textwrap.fill(
        text.replace("$", "$$"), 110, initial_indent=f"{name.replace('$', '$$'):<26}  ", subsequent_indent=" " * 28
    )


def _written(value: object) -> str:
    """A default as on a command line."""
    if isinstance(value, bool) or value is None:
        return {None: "null", True: "true", False: "false"}[value]
    return "[]" if value == () else str(value)
