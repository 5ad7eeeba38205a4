"""Imports for the process that ranks are forked from, so that no rank repeats them."""

import pytest  # noqa: F401
import sklearn.datasets  # noqa: F401
import torch._dynamo  # noqa: F401  imported by every torch optimizer

import data.embedded  # noqa: F401
import experiments.training.session  # noqa: F401
