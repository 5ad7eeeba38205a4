"""The methods by loops over workers and coordinates, keyed to the lines of the papers.

Each takes the workers' gradient function, the start, the compressor, one replica's update, the step size, the number
of rounds and whether the downlink is dense, and returns x after every round. Nothing is shared with the code under
test.
"""

from collections.abc import Callable

from reference.loops import Gradient, Vector, mean

Compress = Callable[[Vector], Vector]


def naive(
    gradient: Gradient, x: Vector, n: int, compress: Compress, update, lr: float, rounds: int, dense_down: bool
) -> list[Vector]:
    """Section 4, naive compression, in both directions."""
    path = []
    for _ in range(rounds):
        average = mean([compress(gradient(i, x)) for i in range(n)])
        x = update.step(x, average if dense_down else compress(average), lr)
        path.append(x)
    return path


def error_feedback(
    gradient: Gradient, x: Vector, n: int, compress: Compress, update, lr: float, rounds: int, dense_down: bool
) -> list[Vector]:
    """Section 4, error feedback: δ_t = g_t + δ_{t−1} − ĝ_t, on every worker and on the server."""
    d = len(x)
    delta = [[0.0] * d for _ in range(n)]
    delta_server = [0.0] * d
    path = []
    for _ in range(rounds):
        sent = []
        for i in range(n):
            g = gradient(i, x)
            compensated = [g[k] + delta[i][k] for k in range(d)]
            c = compress(compensated)
            delta[i] = [compensated[k] - c[k] for k in range(d)]
            sent.append(c)
        average = mean(sent)
        if dense_down:
            received = average
        else:
            compensated = [average[k] + delta_server[k] for k in range(d)]
            received = compress(compensated)
            delta_server = [compensated[k] - received[k] for k in range(d)]
        x = update.step(x, received, lr)
        path.append(x)
    return path


def markov(
    gradient: Gradient,
    x: Vector,
    n: int,
    compress: Compress,
    update,
    lr: float,
    rounds: int,
    dense_down: bool,
    dense_start: bool = False,
    compress_down: Compress | None = None,
) -> list[Vector]:
    """Algorithm 1 (CD-Adam with AMSGrad, EF21 with SGD); EF21-BC has a C of its own on the way down."""
    d = len(x)
    g_hat_worker = [[0.0] * d for _ in range(n)]  # line 1
    g_hat = [0.0] * d
    g_tilde_server, g_tilde_worker = [0.0] * d, [0.0] * d
    path = []
    for t in range(1, rounds + 1):  # line 2
        squeeze = list if dense_start and t == 1 else compress
        messages = []
        for i in range(n):
            g = gradient(i, x)  # line 4
            c = squeeze([g[k] - g_hat_worker[i][k] for k in range(d)])  # line 5
            g_hat_worker[i] = [g_hat_worker[i][k] + c[k] for k in range(d)]  # line 6
            messages.append(c)
        average = mean(messages)
        g_hat = [g_hat[k] + average[k] for k in range(d)]  # line 8
        if dense_down:
            g_tilde_worker = list(g_hat)
        else:
            down = list if dense_start and t == 1 else compress_down or compress
            c_tilde = down([g_hat[k] - g_tilde_server[k] for k in range(d)])  # line 9, as line 12 needs it
            g_tilde_server = [g_tilde_server[k] + c_tilde[k] for k in range(d)]  # line 10
            g_tilde_worker = [g_tilde_worker[k] + c_tilde[k] for k in range(d)]  # line 12
        x = update.step(x, g_tilde_worker, lr)  # lines 13 to 16
        path.append(x)
    return path
