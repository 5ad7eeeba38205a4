"""Write the pages of methods, compressors and the configuration reference before each build.

Every YAML file gets its page or entry.
"""

import shutil
from importlib import import_module
from inspect import isclass
from pathlib import Path

from hydra.utils import get_class
from sphinx.application import Sphinx

from docs.extensions.equations import paragraph
from docs.extensions.reference import (
    BUILT,
    CONF,
    KEYS,
    SHOWN,
    Setting,
    choice_settings,
    compose_config,
    description,
    display,
    format_value,
    names,
    schema_settings,
)


def pages() -> dict[str, list[str]]:
    """The lines of every page, by path below docs/."""
    written = {f"algorithms/{name}.rst": algorithm_page(name) for name in names("algorithm")}
    written["compressors/classes.txt"] = compressors_page()
    written["configuration/keys.rst"] = keys_page()
    return written | {f"configuration/{group}.rst": choices_page(group) for group in (*BUILT, *SHOWN)}


def algorithm_page(name: str) -> list[str]:
    """A method's page: its function, then its classes. Its options are in the reference of the group."""
    label, target = display(name)
    module = import_module(target.rpartition(".")[0])
    own = [one for one, found in vars(module).items() if isclass(found) and found.__module__ == module.__name__]
    # For a variant of another method, names link to that method's page.
    again = [] if target.endswith(f".{name}.{name}") else ["   :no-index:"]
    lines = [*_title(label, "="), paragraph(module.__doc__ or ""), "", f".. autofunction:: {target}", *again, ""]
    for kind in own:
        lines += [f".. autoclass:: {module.__name__}.{kind}", "   :members:", *again, ""]
    return lines


def compressors_page() -> list[str]:
    """The page of all compressor classes, each under the names of its choices."""
    found: dict[type, list[str]] = {}
    for name in names("compressor"):
        found.setdefault(get_class(compose_config(f"compressor={name}")["compressor"]["_target_"]), []).append(name)
    lines = []
    for kind, shared in found.items():
        lines += [*_title(", ".join(shared), "-"), f".. autoclass:: {kind.__module__}.{kind.__name__}", ""]
    return lines


def keys_page() -> list[str]:
    lines = _title("Keys", "=")
    for what, kind in KEYS.items():
        lines += [*_title(f"Keys {what}", "-"), *_entries(schema_settings(kind))]
    return lines


def choices_page(group: str) -> list[str]:
    """The page of a folder of conf/: its choices with their options, or as whole files."""
    lines = [*_title(group, "="), f"``{group}=NAME`` chooses ``conf/{group}/NAME.yaml``.", ""]
    for name in names(group):
        file = CONF / group / f"{name}.yaml"
        lines += [*_title(f"``{name}``", "-"), paragraph(description(file)), ""]
        if group in BUILT:
            lines += _entries(choice_settings(group, name))
        else:
            lines += [f".. literalinclude:: /../conf/{group}/{name}.yaml", "   :language: yaml", ""]
    return lines


def _entries(settings: list[Setting]) -> list[str]:
    lines = []
    for key, value, meaning in settings:
        lines += [f"``{key}`` = ``{format_value(value)}``", f"   {paragraph(meaning) or '–'}", ""]
    return lines


def _title(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]


def _write(app: Sphinx) -> None:
    written = pages()
    for folder in {Path(app.srcdir, name).parent for name in written}:
        shutil.rmtree(folder, ignore_errors=True)  # also drops pages without a source
        folder.mkdir()
    for name, lines in written.items():
        Path(app.srcdir, name).write_text("\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx reads its sources."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
