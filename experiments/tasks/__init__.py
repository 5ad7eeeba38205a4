"""What is optimized: parameters to start from, local gradients and evaluation."""
