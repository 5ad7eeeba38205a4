"""Every test runs with one thread: several add up sums in another order, and equality is tested bit for bit."""

import torch

torch.set_num_threads(1)
