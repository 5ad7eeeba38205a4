"""torchvision that imports beside any torch: `from data.torchvision_operators import torchvision`.

If torch is another build (PyPI's torchvision with a CPU-only torch), torchvision's compiled operators cannot be
loaded, and its import fails with "operator torchvision::nms does not exist". We need only its data sets and models,
which are Python. Declaring the two operators without a kernel is enough to import it.
"""

import sys

import torch

__all__ = ["torchvision"]

try:
    import torchvision
except RuntimeError as error:
    if "operator torchvision::nms does not exist" not in str(error):
        raise
    _library = torch.library.Library("torchvision", "FRAGMENT")  # deleting it would undo its declarations
    for name in ("nms", "qnms"):
        _library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    # The failed import leaves some of its submodules behind, without a package that knows them.
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    import torchvision

import torchvision.datasets
import torchvision.models
