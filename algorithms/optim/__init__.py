"""The face to PyTorch: optimizer, DDP hook, checkpoints."""
