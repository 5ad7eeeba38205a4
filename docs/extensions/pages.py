"""Pages written from conf/ before each build: one an algorithm, and the configuration reference.

A new YAML file is all that a new page or entry takes.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from sphinx.application import Sphinx

from docs.extensions.docstrings import inline
from docs.extensions.settings import CONF, File, Setting, files, groups


def pages() -> dict[str, list[str]]:
    """The lines of every page, by its path below docs/."""
    written = {f"algorithms/{file.name}.rst": algorithm(file) for file in files("algorithm")}
    written["configuration/keys.rst"] = keys()
    return written | {f"configuration/{name}.rst": group(name) for name in groups()}


def algorithm(file: File) -> list[str]:
    """A method: what its module says. Its keys are in the reference of the group."""
    entry = file.values["algorithm"]
    module = entry["_target_"].rpartition(".")[0]
    return [*_title(entry["display"]["label"], "="), f".. automodule:: {module}", "   :members:", ""]


def keys() -> list[str]:
    """config.yaml and the files beside it."""
    lines = _title("Keys", "=")
    for file in files():
        lines += [*_title(f"``{file.name}.yaml``", "-"), inline(file.description), ""]
        lines += [line for setting in file.settings for line in _entry(setting)]
        lines += [f"* :doc:`{kind}`: ``{name}``" for kind, name in file.brings.items()]
        lines += ["", *_builds_on(file)]
    return lines


def group(name: str) -> list[str]:
    """A folder of conf/: its choices, each with its keys, or as a whole where no object is built from it."""
    members = files(name)
    built = any("_target_" in file.text for file in members)
    lines = [*_title(name, "="), f"``{name}=NAME`` chooses ``conf/{name}/NAME.yaml``.", ""]
    for file in members:
        lines += [*_title(f"``{file.name}``", "-"), inline(file.description), "", *_builds_on(file)]
        if built:
            lines += [f"* It comes with ``{kind}={choice}``." for kind, choice in file.brings.items()]
            lines += ["", *(line for setting in file.complete for line in _entry(setting))]
        else:
            lines += [f".. literalinclude:: /../conf/{name}/{file.name}.yaml", "   :language: yaml", ""]
    return lines


def _entry(setting: Setting) -> list[str]:
    default = f" = ``{setting.default}``" if setting.default else ""
    return [f"``{setting.key}``{default}", f"   {inline(setting.meaning) or '–'}", ""]


def _builds_on(file: File) -> list[str]:
    names = " and ".join(f"``{base.path.relative_to(CONF)}``" for base in file.builds_on)
    return [f"It has the keys of {names} too.", ""] if names else []


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
