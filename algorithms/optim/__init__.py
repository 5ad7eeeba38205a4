"""The interface to PyTorch: optimizer, DDP hook, checkpoints."""
