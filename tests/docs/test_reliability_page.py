"""The page about faults names tests that exist."""

import re

from docs_support import ROOT

NAMED = re.compile(r"`(?!`)((?:tests|experiments)/[\w/]+\.py)?(?:::(\w+))?`")


def test_every_test_that_is_named_exists() -> None:
    file, named = "", 0
    for match in NAMED.finditer((ROOT / "docs" / "reliability.md").read_text()):
        file, name = match[1] or file, match[2] or ""
        assert (ROOT / file).is_file(), match[0]
        assert not name or f"def {name}(" in (ROOT / file).read_text(), match[0]
        named += 1
    assert named > 10


def test_every_fault_names_one() -> None:
    rows = [line for line in (ROOT / "docs" / "reliability.md").read_text().splitlines() if line.startswith("| ")]
    faults = [row.split(" | ") for row in rows if row.count(" | ") == 3 and not row.startswith("| fault")]
    assert faults
    assert all(NAMED.search(test) for _, _, test, _ in faults)
