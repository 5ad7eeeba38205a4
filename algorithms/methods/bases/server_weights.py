"""A server that holds the model: steps go up, the model comes down."""

from dataclasses import dataclass

from torch import Tensor

from ...compressors.base import Payload
from ...core.algorithm import Algorithm, Payloads, ReplicaState, ServerState
from ...utils.seeding import MessageKey


@dataclass
class ServerWeights(ServerState):
    """A server that holds the model."""

    x: Tensor  # [*T, d]


@dataclass(frozen=True)
class ServerModel(Algorithm):
    """Rounds in which workers send steps s_i, the server moves by x ← x − mean_i s_i, and replicas take over what the
    downlink makes of x.

    Its `update` takes no step. What `clip` bounds is the mean step by which the server moves its weights.
    """

    is_coordinatewise = True

    def start_server(self, x: Tensor) -> ServerWeights:
        state = super().start_server(x)
        return ServerWeights(aggregate=state.aggregate, memory=state.memory, x=x)

    def aggregate(self, payloads: Payloads, state: ServerState, t: int) -> Tensor:
        return self.mean(payloads, state.aggregate.shape[-1], t)

    def server_message(
        self, aggregate: Tensor, state: ServerState, t: int, seed: int, norm: Tensor | None = None
    ) -> tuple[Payload, ServerWeights]:
        assert isinstance(state, ServerWeights)
        x = state.x - self.clipped_aggregate(aggregate, norm)
        payload, memory = self.downlink.send(x, state.memory, MessageKey(seed, "down", t))
        return payload, ServerWeights(aggregate=aggregate, memory=memory, x=x)

    def received(self, payload: Payload, state: ReplicaState, t: int) -> Tensor:
        return self.downlink.receive(self.downlink.decode(payload, state.x.shape[-1], t), state.x)

    def apply_signal(
        self, signal: Tensor, state: ReplicaState, lr: float | Tensor, t: int, norm: Tensor | None = None
    ) -> ReplicaState:
        return ReplicaState(x=signal, signal=state.x - signal, moments=state.moments)

    def step_size(self, smoothness: float, worker_smoothness: float, workers: int, d: int) -> float:
        raise ValueError("theory gives no step size for a server that holds the model; set task.step_unit=one")


def of_workers(lr: float | Tensor) -> float | Tensor:
    """A step size, a float or [*T, 1], for vectors [*T, W, d]."""
    return lr.unsqueeze(-2) if isinstance(lr, Tensor) else lr
