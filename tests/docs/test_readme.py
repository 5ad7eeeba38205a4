"""What README and the pages show works: their code, their files, their links, the choices they list."""

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest
import torch
from docs_support import PAGES, ROOT, Block, anchors, blocks, commands, links, sentences

from experiments.run import main

README = ROOT / "README.md"
CODE = [block for page in PAGES for block in blocks(page, "python") if not block.file]
FILES = [block for page in PAGES for block in blocks(page) if block.file]


def _named(block: Block) -> str:
    return f"{block.page.relative_to(ROOT)}:{block.line}"


def test_there_are_commands_and_targets_to_check():
    assert len([command for command in commands(README) if "experiments.run" in command.words]) >= 2
    targets = re.findall(r"^([a-z0-9%-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = {name for page in PAGES for name in re.findall(r"`make ([a-z0-9-]+)", page.read_text())}
    named |= {command.words[1] for page in PAGES for command in commands(page) if command.words[0] == "make"}
    assert {"demo", "test"} <= named
    for name in named:
        assert any(fnmatch(name, target.replace("%", "*")) for target in targets), name


def test_readme_is_short():
    text = README.read_text()
    assert len(text.splitlines()) <= 80
    assert len(text.split()) <= 900
    assert [sentence for sentence in sentences(README) if len(sentence.split()) > 30] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_point_at_files_and_headings(page):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists() or _is_generated(target), link
        if anchor:
            assert anchor in anchors(target), link


def _is_generated(target: Path) -> bool:
    """Whether `make docs` writes the page, of a group, from conf/."""
    return target.parent == ROOT / "docs" / "configuration" and (ROOT / "conf" / target.stem).is_dir()


@pytest.mark.parametrize("block", CODE, ids=_named)
def test_code_runs(block, tmp_path, monkeypatch):
    main(["task=logreg/breast_cancer", "rounds=20", f"results_dir={tmp_path / 'results'}"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(ROOT / "examples")
    exec(compile(block.body, _named(block), "exec", dont_inherit=True), {"model": torch.nn.Linear(3, 4)})


@pytest.mark.parametrize("block", FILES, ids=_named)
def test_a_file_that_a_page_shows_is_used_by_a_command(block):
    """Which then is run: tests/docs/test_documented_commands.py."""
    name = Path(block.file).stem
    assert any(name in command.text for command in commands(block.page)), block.file


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_yaml_is_a_file(page):
    """So that a command composes it."""
    assert all(block.file for block in blocks(page, "yaml"))
