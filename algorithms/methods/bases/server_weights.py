"""A server with the model: steps go up, the model comes down."""

from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from . import Algorithm, Answer, Lr, MessageKey, Payload, ReplicaState, ServerState


@dataclass
class ServerWeights(ServerState):
    x: Tensor  # [*T, d]


@dataclass(frozen=True)
class ServerModel(Algorithm):
    """Rounds in which workers send steps s_i, and the server sets x ← x − mean_i s_i, with this mean clipped to
    `clip`. Replicas copy x from the downlink. Its `update` makes no step."""

    is_coordinatewise = True
    server_holds_model = True

    def start_server(self, x: Tensor) -> ServerWeights:
        return ServerWeights(**vars(super().start_server(x)), x=x)

    def step_server(self, state: ServerWeights, u: Tensor, t: int) -> ServerWeights:
        """Step the server by the mean u of the messages."""
        return replace(state, x=state.x - u)

    def server_message(self, aggregate: Tensor, state: Any, t: int, seed: int, norm: Tensor | None = None) -> Answer:
        state = self.step_server(state, self.clip_aggregate(aggregate, norm), t)
        payload, memory = self.downlink.send(state.x, state.memory, MessageKey(seed, "down", t))
        return payload, replace(state, aggregate=aggregate, memory=memory)

    def receive(self, payload: Payload, state: ReplicaState, t: int) -> Tensor:
        return self.downlink.receive(self.downlink.decode(payload, state.x.shape[-1], t), state.x)

    def apply_signal(self, signal: Tensor, state: ReplicaState, lr: Lr, t: int, norm: Tensor | None) -> ReplicaState:
        return ReplicaState(x=signal, signal=state.x - signal, moments=state.moments)

    def step_size(self, smoothness: float, worker_smoothness: float, workers: int, d: int) -> float:
        raise ValueError("theory gives no step size for a server that holds the model; set task.step_unit=one")


def worker_lr(lr: Lr) -> float | Tensor:
    """Return a step size, a float or [*T, 1], in a form for vectors [*T, W, d]."""
    return lr.unsqueeze(-2) if isinstance(lr, Tensor) else lr
