"""What the process that ranks are forked from imports besides."""

from contextlib import suppress

with suppress(ImportError):
    import accelerate  # noqa: F401
    import lightning  # noqa: F401
    from transformers import BertForSequenceClassification, Trainer  # noqa: F401
