"""torchvision, whole: `from data.torchvision_operators import torchvision` wherever it is needed.

Beside a torch built otherwise than it (PyPI's torchvision with a CPU-only torch) its compiled operators cannot be
loaded, and importing it fails with "operator torchvision::nms does not exist". Nothing here needs an operator, only
data sets and models, which are Python: declaring what the two operators would look like is enough to import it.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import torch

MISSING = "operator torchvision::nms does not exist"
SCHEMAS = tuple(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor" for name in ("nms", "qnms"))

# What a Library declares lasts as long as the object.
_declared: list[torch.library.Library] = []


def import_torchvision() -> ModuleType:
    """The module torchvision, with its `models` and `datasets`, whether or not its compiled operators load.

    Where they load this is the plain import. Where they do not, `nms` and `qnms` are declared without a kernel, so
    that calling one still fails. Any number of calls will do.
    Raises ImportError where torchvision is not installed, and whatever else importing it raises.
    """
    try:
        return _imported()
    except RuntimeError as error:
        if MISSING not in str(error):
            raise
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in SCHEMAS:
        library.define(schema)
    _declared.append(library)
    # The failed import leaves some of its submodules behind, without a package that knows them.
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    return _imported()


def _imported() -> ModuleType:
    importlib.import_module("torchvision.datasets")
    importlib.import_module("torchvision.models")
    return importlib.import_module("torchvision")


torchvision = import_torchvision()
