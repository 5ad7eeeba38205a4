"""Tiny Shakespeare, verified: a million characters of the plays, from Karpathy's char-rnn."""

from pathlib import Path

import numpy as np

from data.cache import Arrays
from data.dataset import Place, Text
from data.download import Url, download
from data.pinned import PACKED, load_pinned, open_unpacked

URL = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/"
    "6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/input.txt"
)
FILE = "tinyshakespeare.txt"
FORMS = [stem + suffix for stem in (FILE, "tinyshakespeare", "input.txt") for suffix in ("", *PACKED)]

SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


def load(
    data_dir: Place[str | Path],  # where data sets are looked for and kept
    url: Url = URL,  # the file on the web
) -> Text:
    """1,115,394 characters of 65 kinds, verified: from `data_dir` if they are there, else from their host.

    This looks in `data_dir` and its `text/` for `tinyshakespeare.txt`, `tinyshakespeare` or the host's `input.txt`,
    plain or packed. Downloads go into `text/`.
    """
    sources = [(download, url, FILE)]
    return Text("shakespeare", **load_pinned("tiny shakespeare", SHA256, data_dir, "text", FORMS, _read, sources))


def _read(file: Path) -> Arrays:
    with open_unpacked(file, file) as stream:
        return {"characters": np.frombuffer(bytearray(stream.read()), np.uint8)}
