"""The console command `compressed-optimization`. It runs the harness in this package's checkout."""

import sys
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Run `experiments` of this checkout from any current folder."""
    root = Path(__file__).resolve().parents[1]
    if not (root / "experiments" / "__main__.py").is_file():
        sys.exit("compressed-optimization runs from a checkout: pip install -e '.[harness]' in its folder")
    sys.path.insert(0, str(root))
    sys.path.append(str(Path.cwd()))  # for the user's modules
    import_module("experiments.__main__").main()
