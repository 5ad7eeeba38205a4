"""torchvision, whole: `from data.torchvision_operators import torchvision` wherever it is needed.

Beside a torch built otherwise than it (PyPI's torchvision with a CPU-only torch) its compiled operators cannot be
loaded, and importing it fails with "operator torchvision::nms does not exist". Nothing here needs an operator, only
data sets and models, which are Python: declaring what the two operators would look like, without a kernel, is enough
to import it.
"""

import sys

import torch

__all__ = ["torchvision"]

try:
    import torchvision
except RuntimeError as error:
    if "operator torchvision::nms does not exist" not in str(error):
        raise
    _library = torch.library.Library("torchvision", "FRAGMENT")  # what it declares lasts as long as it does
    for name in ("nms", "qnms"):
        _library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    # The failed import leaves some of its submodules behind, without a package that knows them.
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    import torchvision

import torchvision.datasets
import torchvision.models
