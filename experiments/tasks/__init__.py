"""Tasks: initial parameters, local gradients and evaluation."""
