"""Further imports for the process that ranks are forked from."""

from contextlib import suppress
from importlib import import_module

import_module("data.torchvision_operators")  # or torchvision, which they import, may fail beside a torch for CPUs
with suppress(ImportError):
    import accelerate  # noqa: F401
    import lightning  # noqa: F401
    from transformers import BertForSequenceClassification, Trainer  # noqa: F401
