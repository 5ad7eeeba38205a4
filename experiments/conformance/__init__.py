"""What a class or function of your own must keep to work with all the others here, as checks that can be run on it.

    from experiments.conformance import check_compressor

    def test_my_compressor():
        check_compressor(MyCompressor())

One function a kind, each of which raises Violation, an AssertionError, with all that is wrong. On a command line:
`python -m experiments.check my_package.MyCompressor`.
"""

from experiments.conformance.algorithms import check_algorithm
from experiments.conformance.compressors import check_compressor
from experiments.conformance.datasets import check_dataset
from experiments.conformance.findings import Violation
from experiments.conformance.tasks import check_task

__all__ = ["Violation", "check_algorithm", "check_compressor", "check_dataset", "check_task"]
