"""Pages written from conf/ before each build: one an algorithm, one of all compressors, one a group of choices.

A new YAML file is all that a new page or entry takes.
"""

from __future__ import annotations

from pathlib import Path

from hydra.utils import get_object, instantiate
from sphinx.application import Sphinx
from sphinx.util.inspect import signature, stringify_signature

from docs.extensions.equations import inline, restructured, table
from docs.extensions.settings import CONF, File, Setting, files, groups

_LABELS = ("name", "display")  # keys for paths and figures, which an algorithm does not take
_D = 10**6  # coordinates of the vectors that compressors are compared on


def pages() -> dict[str, list[str]]:
    """The lines of every page, by its path below docs/."""
    written = {f"algorithms/{file.name}.rst": algorithm(file) for file in files("algorithm")}
    written["compressors.rst"] = compressors()
    written["configuration/keys.rst"] = keys()
    return written | {f"configuration/{name}.rst": group(name) for name in groups()}


def algorithm(file: File) -> list[str]:
    """A method: its equations, its options, what it comes with and how it is run."""
    entry = file.values.get("algorithm", file.values)
    function = get_object(entry["_target_"])
    own = [
        setting for setting in file.settings if setting.key.removeprefix("algorithm.").split(".")[0] not in _LABELS
    ]
    return [
        *_title(inline(entry.get("display", {}).get("label", file.name)), "="),
        *restructured(function.__doc__),
        *_title("Options", "-"),
        *(_settings(own) or ["None of its own.", ""]),
        *_brings(file),
        *_title("Run it", "-"),
        *_shell(f"python -m experiments.run algorithm={file.name} task=logreg/breast_cancer"),
        *_title("In Python", "-"),
        f".. py:currentmodule:: {function.__module__}",
        "",
        f".. py:function:: {function.__name__}{stringify_signature(signature(function), unqualified_typehints=True)}",
        "",
    ]


def compressors() -> list[str]:
    """All compressors: what they cost side by side, then what each of them does."""
    overview, sections, shown = [], [], {}
    for file in files("compressor"):
        compressor = instantiate(file.values)
        kind, bits = type(compressor), compressor.bits(_D)
        properties = ["yes" if has else "no" for has in (compressor.contractive, compressor.unbiased)]
        overview.append([_link(file), f"{bits:,}", f"{32 * _D / bits:.1f}", *properties])
        again = f"{inline(file.description)}. The class is that of {shown.get(kind)}."
        sections += [f".. _{_anchor(file)}:", "", *_title(f"``{file.name}``", "-")]
        sections += [again, ""] if kind in shown else restructured(kind.__doc__)
        sections += _settings(file.complete)
        shown.setdefault(kind, _link(file))
    head = ["name", f"bits of {_D:,} coordinates", "times fewer than floats", "contractive", "unbiased"]
    return [
        *_title("Compressors", "="),
        inline("A compressor C maps a vector x of d coordinates to C(x), which is what the receiver decodes.") + " "
        "Bits are those of one message, with the defaults below.",
        "",
        *table(overview, "choices", head),
        inline("Contractive: E‖C(x) − x‖² ≤ (1 − π)‖x‖² for one π > 0 and all x. Memories need that. ")
        + inline("Unbiased: E C(x) = x."),
        "",
        *sections,
    ]


def keys() -> list[str]:
    """config.yaml and the files beside it."""
    lines = _title("Keys", "=")
    for file in files():
        lines += [f".. _{_anchor(file)}:", "", *_title(f"``{file.name}.yaml``", "-")]
        for is_command, text in file.head:
            lines += _shell(text) if is_command else [inline(text), ""]
        lines += _settings(file.settings)
        chosen = [[f":doc:`{kind} <{kind}>`", f"``{name}``"] for kind, name in file.brings.items()]
        lines += table(chosen, "choices", ["group", "default"]) if chosen else []
        lines += _based(file)
    return lines


def group(name: str) -> list[str]:
    """A folder of conf/: its choices, then each with its keys, or as a whole where no object is built from it."""
    members = files(name)
    built = any("_target_" in file.text for file in members)
    choices = [[_link(file, "conf"), inline(file.description)] for file in members if not file.shared]
    lines = [*_title(name, "="), f"``{name}=NAME`` chooses ``conf/{name}/NAME.yaml``.", ""]
    lines += table(choices, "choices", ["name", "what it is"])
    for file in members:
        lines += [f".. _{_anchor(file, 'conf')}:", "", *_title(f"``{file.name}``", "-"), inline(file.description), ""]
        lines += _based(file) + _brings(file)
        listing = [f".. literalinclude:: /../conf/{name}/{file.name}.yaml", "   :language: yaml", ""]
        lines += _settings(file.complete) if built else listing
    return lines


def _settings(settings: list[Setting]) -> list[str]:
    rows = [
        [f"``{key}``", f"``{default}``" if default else "", inline(meaning)] for key, default, meaning in settings
    ]
    return table(rows, "settings", ["key", "default", "meaning"]) if rows else []


def _brings(file: File) -> list[str]:
    parts = [_link(File(CONF / kind / f"{name}.yaml"), text=f"{kind}={name}") for kind, name in file.brings.items()]
    return [f"It comes with {' and '.join(parts)}, unless the command line names others.", ""] if parts else []


def _based(file: File) -> list[str]:
    bases = [_link(base, "conf" if base.group else "") for base in file.builds_on]
    return [f"It has the keys of {' and '.join(bases)} too.", ""] if bases else []


def _link(file: File, kind: str = "", text: str = "") -> str:
    return f":ref:`{text or file.name} <{_anchor(file, kind)}>`"


def _anchor(file: File, kind: str = "") -> str:
    """Where a file is described: on the page of compressors, or with kind `conf` in the configuration reference."""
    kind = kind or (file.group if file.group == "compressor" else "conf")
    return "-".join([kind, file.group, *file.path.with_suffix("").relative_to(CONF / file.group).parts]).lower()


def _title(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]


def _shell(command: str) -> list[str]:
    return [".. code-block:: sh", "", f"   {command}", ""]


def _write(app: Sphinx) -> None:
    """Write what has changed and remove what is no longer there."""
    written = pages()
    for name, lines in written.items():
        page = Path(app.srcdir) / name
        text = "\n".join(lines)
        page.parent.mkdir(exist_ok=True)
        if not page.exists() or page.read_text() != text:
            page.write_text(text)
    for folder in {Path(name).parent for name in written} - {Path()}:
        for page in (Path(app.srcdir) / folder).glob("*.rst"):
            if f"{folder}/{page.name}" not in written:
                page.unlink()


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before Sphinx looks for its sources."""
    app.connect("builder-inited", _write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
