"""Pages written before each build: methods, compressors and the configuration reference.

A new YAML file is all that a new page or entry takes.
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
    composed,
    description,
    display,
    names,
    of_choice,
    of_schema,
    shown,
)


def pages() -> dict[str, list[str]]:
    """The lines of every page, by its path below docs/."""
    written = {f"algorithms/{name}.rst": algorithm(name) for name in names("algorithm")}
    written["compressors/classes.txt"] = compressors()
    written["configuration/keys.rst"] = keys()
    return written | {f"configuration/{group}.rst": choices(group) for group in (*BUILT, *SHOWN)}


def algorithm(name: str) -> list[str]:
    """A method: its function, then the classes it is made of. Its options are in the reference of the group."""
    label, target = display(name)
    module = import_module(target.rpartition(".")[0])
    own = [one for one, found in vars(module).items() if isclass(found) and found.__module__ == module.__name__]
    # Settings of another method's function: names lead to that one's page.
    again = [] if target.endswith(f".{name}.{name}") else ["   :no-index:"]
    lines = [*_title(label, "="), paragraph(module.__doc__ or ""), "", f".. autofunction:: {target}", *again, ""]
    for kind in own:
        lines += [f".. autoclass:: {module.__name__}.{kind}", "   :members:", *again, ""]
    return lines


def compressors() -> list[str]:
    """Every class of compressors, under the names of its choices."""
    found: dict[type, list[str]] = {}
    for name in names("compressor"):
        found.setdefault(get_class(composed(f"compressor={name}")["compressor"]["_target_"]), []).append(name)
    lines = []
    for kind, shared in found.items():
        lines += [*_title(", ".join(shared), "-"), f".. autoclass:: {kind.__module__}.{kind.__name__}", ""]
    return lines


def keys() -> list[str]:
    """The keys of experiments/config/schema.py."""
    lines = _title("Keys", "=")
    for what, kind in KEYS.items():
        lines += [*_title(f"Keys {what}", "-"), *_entries(of_schema(kind))]
    return lines


def choices(group: str) -> list[str]:
    """A folder of conf/: its choices, with their options or as they stand there."""
    lines = [*_title(group, "="), f"``{group}=NAME`` chooses ``conf/{group}/NAME.yaml``.", ""]
    for name in names(group):
        file = CONF / group / f"{name}.yaml"
        lines += [*_title(f"``{name}``", "-"), paragraph(description(file)), ""]
        if group in BUILT:
            lines += _entries(of_choice(group, name))
        else:
            lines += [f".. literalinclude:: /../conf/{group}/{name}.yaml", "   :language: yaml", ""]
    return lines


def _entries(settings: list[Setting]) -> list[str]:
    lines = []
    for key, value, meaning in settings:
        lines += [f"``{key}`` = ``{shown(value)}``", f"   {paragraph(meaning) or '–'}", ""]
    return lines


def _title(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]


def _write(app: Sphinx) -> None:
    written = pages()
    for folder in {Path(app.srcdir, name).parent for name in written}:
        shutil.rmtree(folder, ignore_errors=True)  # and with it what has no source any more
        folder.mkdir()
    for name, lines in written.items():
        Path(app.srcdir, name).write_text("\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for its sources."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
