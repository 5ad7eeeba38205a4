"""Parts of methods."""

from ...compressors.base import Compressor, Floats, Identity, Payload
from ...core.aggregation import Mean, SendersMean
from ...core.algorithm import Algorithm, Answer, Payloads, ReplicaState, Sent, ServerState, Stage, Wanted, WorkerState
from ...core.channels import Channel, Direct, ErrorFeedback, Markov, dense
from ...core.update_rules import SGD, Adam, AdamMoments, AMSGrad, Lr, Moments, Momentum, Update, check_range
from ...utils.seeding import MessageKey, keyed_seed
from ...utils.words import check_words
