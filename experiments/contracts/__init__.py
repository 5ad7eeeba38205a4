"""What a compressor, an algorithm, a task or a data set keeps: a pytest class a kind, for ours and for yours.

    import pytest
    from experiments.contracts.test_compressor import TestCompressor

    @pytest.fixture(params=[MyCompressor(), MyCompressor(block=5)], ids=str)
    def compressor(request):
        return request.param

On a command line: `python -m experiments.check my_package.MyCompressor`.
"""
