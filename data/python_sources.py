"""The sources of Python's standard library as a text: about 30 MB, 11 MB if its tests are not installed."""

import platform
import sysconfig
from pathlib import Path

import numpy as np

from data.dataset import Tokens

HELD_OUT = 2**17  # bytes
LEFT_OUT = {"site-packages", "dist-packages", "__pycache__"}


def read_sources() -> Tokens:
    """Read the bytes of all .py files of the standard library, sorted by path. The last 2¹⁷ are held out.

    The bytes depend on Python's installation and version. The text's name has the version. A run records their hash.
    """
    place = Path(sysconfig.get_path("stdlib"))
    files = sorted(file for file in place.rglob("*.py") if not LEFT_OUT & set(file.relative_to(place).parts))
    content = np.frombuffer(bytearray().join(file.read_bytes() for file in files), np.uint8)
    return Tokens(f"python-{platform.python_version()}", content[:-HELD_OUT], content[-HELD_OUT:], vocabulary=256)
