"""What the process that ranks are forked from does first, so that none of them has to: it imports."""

import pytest  # noqa: F401
import sklearn.datasets  # noqa: F401
import torch._dynamo  # noqa: F401  which every optimizer of torch's imports

import data.embedded  # noqa: F401
import experiments.training.session  # noqa: F401
