"""One round over torch.distributed."""
