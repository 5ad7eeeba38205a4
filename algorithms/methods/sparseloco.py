"""SparseLoCo: many local steps of AdamW, then the largest of the workers' displacements, in two bits."""

from typing import Literal

from ..compressors.chunk_top_k import ChunkTopK
from ..utils.layout import Layout
from .bases import Algorithm, Direct, ErrorFeedback, Mean, SendersMean, Update, check_words, dense
from .bases.local_steps import LocalSteps, Nesterov
from .bases.streaming import streaming


def sparseloco(
    compressor: ChunkTopK,
    update: Update,
    workers: int,
    period: int = 15,  # H, rounds from one exchange to the next
    decay: float = 0.95,  # β, how much of e_i is kept from one exchange to the next
    outer_lr: float = 1.0,  # η of the outer step
    aggregate: Literal["all", "senders"] = "all",  # the workers of a coordinate's mean; senders: those that sent it
    fragments: int = 1,  # P, parts of the model, exchanged in turn; must divide H
    delay: int = 0,  # τ, rounds from an exchange until workers take its result
    mixing: float = 1.0,  # a, the share of x in the new x_i, in (0, 1]
    d: int | None = None,
    layout: Layout = (),
) -> Algorithm:
    """DiLoCo with decaying error feedback on the workers instead of outer momentum.

        worker   x_i ← x_i − α·step(g_i), with the gradient g_i at x_i;  in rounds that H divides:
                 e_i ← βe_i + (x − x_i),  c_i = C(e_i),  e_i ← e_i − c_i
        server   z = mean_i c_i;  with `aggregate: senders` every coordinate's mean over the workers that sent it
        replica  x ← x − ηz,  x_i ← x

    State: x_i, the inner moments and e_i [d] on every worker, e_i zero at the start; x and an unused b [d].
    n = `workers`.
    Wire: in rounds that H divides one message of C up; down the coordinates that any worker sent, at most
    nk of a chunk of s, at 32 + ⌈log₂ s⌉ bits each. All at 32d bits, if that is not more. 0 in the other rounds. `d`
    is the run's; without it, the choice is for whole chunks. Fragments all take the choice for d.
    Fragments: with `fragments` one of P parts of the model is exchanged every H/P rounds, and τ rounds later workers
    set x_i ← (1 − a)x_i + ax on it (Streaming DiLoCo, `bases.streaming`).
    Source: Sarfi, Thérien, Lidin and Belilovsky, Communication Efficient LLM Pre-training with SparseLoCo, 2025
    (arXiv 2508.15706), by a transcription of its algorithm. `aggregate: senders` is its code's (CCLoco) mean, up to n
    times as long. H, β, η and k = 32 of 4,096 are CCLoco's for 500M parameters, the two bits of a value templar's.
    Differences: Chunks are consecutive coordinates of the flat vector, there squares of 64 × 64 of matrices. There η
    multiplies e_i too, and workers gather all messages. Papers count only the uplink.
    """
    check_words(sparseloco, locals())
    sent = ChunkTopK(min(workers * compressor.k, compressor.chunk), compressor.chunk)
    size = sent.chunk if d is None else d
    up = ErrorFeedback(compressor, decay=decay)
    down = Direct(sent) if sent.bits(size) < 32 * size else dense()
    combine = Mean() if aggregate == "all" else SendersMean()
    whole = LocalSteps(up, down, Nesterov(rate=outer_lr), inner=update, period=period, combine=combine)
    return streaming(whole, layout, fragments, delay, mixing)
