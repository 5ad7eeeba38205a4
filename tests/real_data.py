"""The paper's data sets, if they are on this machine."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PLACES = [Path(os.environ.get("DATA_DIR", ROOT / "data" / "downloads")).expanduser(), ROOT.parent / "shared" / "data"]
SETS = ("a9a", "mushrooms", "phishing", "w8a")


def link_sets(folder: Path) -> Path:
    """Create a folder with links to the LibSVM sets, the texts and CIFAR-10, so that caches are written into it.

    Skips the test without the LibSVM sets."""
    for place in (below for above in PLACES for below in (above / "libsvm", above)):
        files = [next((file for file in place.glob(f"{name}*") if file.is_file()), None) for name in SETS]
        if all(files):
            folder.mkdir(parents=True)
            for file in filter(None, files):
                (folder / file.name).symlink_to(file.resolve())
            for name in ("text", "cifar10"):
                if there := next((above / name for above in PLACES if (above / name).is_dir()), None):
                    (folder / name).symlink_to(there.resolve())
            return folder
    pytest.skip(f"the LibSVM sets are in none of {', '.join(map(str, PLACES))}; make data fetches them")
