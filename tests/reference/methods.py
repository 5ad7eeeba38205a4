"""Methods by loops over workers and coordinates, keyed to their papers. Nothing is shared with the code under test.

A channel maps a sender's vector of a round to what the receiver has of it afterwards: for a Markov sequence the ĝ
that both ends keep. The server's ĝ is then the mean of the workers'.
"""

import math
from collections.abc import Callable, Sequence

from reference.problem import D, Gradient, Vector, mean

Channel = Callable[[Vector, int], Vector]
"""Of a vector and its round, from 1."""
Compress = Callable[[Vector], Vector]
Drawn = Callable[[Vector, int], Vector]
"""C of a vector and its round, which it draws from."""
Step = Callable[[Vector, Vector], Vector]
"""Of x and what came down."""


def rounds(
    gradient: Gradient, x: Vector, uplinks: Sequence[Channel], downlink: Channel, step: Step, count: int
) -> list[Vector]:
    """x after every round."""
    path = []
    for t in range(1, count + 1):
        average = mean([uplink(gradient(i, x), t) for i, uplink in enumerate(uplinks)])
        x = step(x, downlink(average, t))
        path.append(x)
    return path


def plus(a: Vector, b: Vector, factor: float = 1.0) -> Vector:
    """a + factor·b."""
    return [x + factor * y for x, y in zip(a, b, strict=True)]


def decayed(gradient: Gradient, weight_decay: float) -> Gradient:
    """g_i + λx."""
    return lambda i, x: plus(gradient(i, x), x, weight_decay)


def variance_reduced(gradient: Callable[[int, Vector, int], Vector], b: float) -> Gradient:
    """DASHA-MVR's h ← g + (1−b)(h − p), h₁ = g₁, p being the gradient at the x of the round before on g's batch."""
    last: dict[int, tuple[int, Vector, Vector]] = {}

    def estimate(i: int, x: Vector) -> Vector:
        t, before, h = last.get(i, (0, x, []))
        found = gradient(i, x, t + 1)
        if t:
            found = plus(found, plus(h, gradient(i, before, t + 1), -1), 1 - b)
        last[i] = t + 1, x, found
        return found

    return estimate


# Channels


def direct(compress: Compress = list) -> Channel:
    """C(w); dense unless said otherwise."""
    return lambda w, t: compress(w)


def error_feedback(compress: Compress, beta: float = 1.0, d: int = D) -> Channel:
    """CD-Adam paper, section 4, with a decay: c = C(w + βδ), δ ← w + βδ − c."""
    delta = [0.0] * d

    def send(w: Vector, t: int) -> Vector:
        nonlocal delta
        wanted = plus(w, delta, beta)
        c = compress(wanted)
        delta = plus(wanted, c, -1)
        return c

    return send


def markov(compress: Compress, dense_start: bool = False, start: Sequence[float] = (0.0,) * D) -> Channel:
    """CD-Adam's Algorithm 1, lines 5 to 12, EF21 (2021): c = C(w − ŵ), ŵ ← ŵ + c."""
    known = list(start)

    def send(w: Vector, t: int) -> Vector:
        nonlocal known
        difference = plus(w, known, -1)
        known = plus(known, difference if dense_start and t == 1 else compress(difference))
        return known

    return send


def averaged(channel: Channel, eta: float, double: bool) -> Channel:
    """EF21-SGDM (Fatkhullin, Tyurin and Richtárik 2023): v ← (1−η)v + ηw, v₁ = w₁; for SGD2M u of v likewise."""
    averages: list[Vector] = []

    def send(w: Vector, t: int) -> Vector:
        for number in range(1 + double):
            if t == 1:
                averages.append(w)
            w = averages[number] = plus([(1 - eta) * a for a in averages[number]], w, eta)
        return channel(w, t)

    return send


def int_sgd(
    n: int, largest: int, beta: float, drawn: Callable[[int, int], Vector]
) -> tuple[Callable[[int], Channel], Callable[[], Channel]]:
    """IntSGD's uplink of every worker, and its downlink, after which the scale of the next round is known.

    drawn: uniform numbers of a round and a worker.
    """
    scale, r = 0.0, 0.0

    def up(i: int) -> Channel:
        def send(w: Vector, t: int) -> Vector:
            if t == 1:
                return w
            sent = []
            for value, u in zip(w, drawn(t, i), strict=True):
                wanted = min(max(scale * value, -largest), largest)
                below = math.floor(wanted)
                sent.append((below + 1 if u < wanted - below else below) / scale)
            return sent

        return send

    def down() -> Channel:
        def send(w: Vector, t: int) -> Vector:
            nonlocal scale, r
            square = sum(value * value for value in w)
            r = square if t == 1 else beta * r + (1 - beta) * square
            scale = math.sqrt(len(w)) / math.sqrt(2 * n * (r + 1e-16))
            return w

        return send

    return up, down


def econtrol(compress: Compress, eta: float, dense_start: bool) -> Channel:
    """EControl (Gao, Islamov and Stich 2023): c = C(w − h + ηe), h ← h + c, e ← e + w − h with the new h."""
    h, e = [0.0] * D, [0.0] * D

    def send(w: Vector, t: int) -> Vector:
        nonlocal h, e
        wanted = plus(plus(w, h, -1), e, eta)
        h = plus(h, wanted if dense_start and t == 1 else compress(wanted))
        e = plus(e, plus(w, h, -1))
        return h

    return send


def diana(compress: Drawn, rate: float, learnt: bool) -> Channel:
    """DIANA (Mishchenko et al. 2019): c = C(w − h), received h + c, or with `learnt` the new h ← h + a·c."""
    h = [0.0] * D

    def send(w: Vector, t: int) -> Vector:
        nonlocal h
        c, before = compress(plus(w, h, -1), t), h
        h = plus(h, c, rate)
        return h if learnt else plus(before, c)

    return send


def loco(compress: Compress, beta: float, reset: int | None, kept: Compress = list) -> Channel:
    """LoCo (Xie et al. 2024) as DeepSpeed's kernel: s = w + e, q = C(s), e ← kept(βe + (1−β)(s − q)), 0 at resets."""
    e = [0.0] * D

    def send(w: Vector, t: int) -> Vector:
        nonlocal e
        s = plus(w, e)
        q = compress(s)
        e = kept(plus([beta * a for a in e], plus(s, q, -1), 1 - beta))
        e = [0.0] * D if reset is not None and t % reset == 0 else e
        return q

    return send


def marina(compress: Drawn, coins: Sequence[bool]) -> Channel:
    """MARINA (Gorbunov et al. 2021, Algorithm 1): w where the coin shows heads, else ĝ ← ĝ + C(w − w')."""
    before, known = [0.0] * D, [0.0] * D

    def send(w: Vector, t: int) -> Vector:
        nonlocal before, known
        known = w if coins[t - 1] else plus(known, compress(plus(w, before, -1), t))
        before = w
        return known

    return send


def dasha(compress: Drawn, a: float, start: str) -> Channel:
    """DASHA (Tyurin and Richtárik 2023): ĝ ← ĝ + C(w − h − a(ĝ − h)), h ← w; ĝ = h = w in a dense round 1."""
    h, known = [0.0] * D, [0.0] * D

    def send(w: Vector, t: int) -> Vector:
        nonlocal h, known
        if t == 1 and start == "share":
            h = w
        wanted = plus(plus(w, h, -1), plus(known, h, -1), -a)
        known = plus(known, w if t == 1 and start == "dense" else compress(wanted, t))
        h = w
        return known

    return send


def signs(sent: float, kept: float) -> Channel:
    """Signum (Bernstein et al. 2019), Lion (Liu et al. 2024): ±1 of β₁m + (1−β₁)w, m ← β₂m + (1−β₂)w; +1 at zero."""
    m = [0.0] * D

    def send(w: Vector, t: int) -> Vector:
        nonlocal m
        found = [1.0 if value >= 0 else -1.0 for value in plus([sent * a for a in m], w, 1 - sent)]
        m = plus([kept * a for a in m], w, 1 - kept)
        return found

    return send


def vote(tie: int) -> Channel:
    """The sign that more workers sent, of the mean of all."""
    return direct(lambda w: [float(tie if value == 0 else math.copysign(1, value)) for value in w])


# Steps


def sgd(lr: float, weight_decay: float = 0.0) -> Step:
    """x ← x − α(u + λx)."""
    return lambda x, u: plus(x, plus(u, x, weight_decay), -lr)


def adam(lr: float, amsgrad: bool, beta1: float = 0.9, beta2: float = 0.99, nu: float = 1e-8, d: int = D) -> Step:
    """Algorithm 1, lines 13 to 16: no bias correction, ν inside the root; Adam is without line 15."""
    m, v, v_hat = [0.0] * d, [0.0] * d, [0.0] * d

    def step(x: Vector, u: Vector) -> Vector:
        for k in range(d):
            m[k] = beta1 * m[k] + (1 - beta1) * u[k]  # line 13
            v[k] = beta2 * v[k] + (1 - beta2) * u[k] ** 2  # line 14
            v_hat[k] = max(v_hat[k], v[k]) if amsgrad else v[k]  # line 15
        return [x[k] - lr * m[k] / math.sqrt(v_hat[k] + nu) for k in range(d)]  # line 16

    return step


def primal(lr: float, start: Vector, compress: Compress) -> Step:
    """EF21-P (Gruntkowska, Tyurin and Richtárik 2022): the server's y ← y − αu, and x ← x + C(y − x)."""
    y, sent = list(start), markov(compress, start=start)

    def step(x: Vector, u: Vector) -> Vector:
        nonlocal y
        y = plus(y, u, -lr)
        return sent(y, 0)

    return step
