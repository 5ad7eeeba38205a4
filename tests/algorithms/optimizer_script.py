"""What the ranks of test_optimizer.py run: every algorithm for some rounds, halfway through a state dict."""

import gc
import sys

import torch
import torch.distributed as dist
from optimizer_support import ALGORITHMS, ROUNDS, loss, model

from algorithms.optim.optimizer import CompressedOptimizer


def main(target: str) -> None:
    dist.init_process_group("gloo")
    rank, results = dist.get_rank(), {}
    for name, algorithm in ALGORITHMS.items():
        net = model(seed=rank)  # ranks start apart: rank 0's parameters are the ones that count
        optimizer = CompressedOptimizer(net.parameters(), algorithm, lr=0.05, seed=3)
        path = []
        for t in range(ROUNDS):
            if t == ROUNDS // 2:  # go on in a new object, as after a restart
                saved = optimizer.state_dict()
                torch.save(saved, f"{target}/state-{rank}.pt")
                net = model(seed=7)
                optimizer = CompressedOptimizer(net.parameters(), algorithm, lr=123.0, seed=3)
                optimizer.load_state_dict(torch.load(f"{target}/state-{rank}.pt", weights_only=True))
            optimizer.zero_grad()
            loss(net, rank).backward()
            optimizer.step()
            path.append(torch.nn.utils.parameters_to_vector(net.parameters()).detach().clone())
        results[name] = {"x": torch.stack(path), "bits": optimizer.meter.bits, "t": optimizer.t}
    torch.save(results, f"{target}/results-{rank}.pt")
    dist.destroy_process_group()
    gc.collect()


if __name__ == "__main__":
    main(sys.argv[1])
