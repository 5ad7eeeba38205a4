"""Compressed gradients between replicas of a sharded model (FSDP2 on a mesh of replicas and shards, HSDP)."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_common import FSDPMeshInfo, HSDPMeshInfo

from ..comm.consistency import check_consistency, is_finite
from ..comm.gather_broadcast import convert_collective_errors
from ..comm.nodes import Nodes
from ..core.algorithm import Algorithm
from ..core.bit_counter import BitCounter
from ..utils.seeding import keyed_seed
from .compressed_mean import CompressedMean, check_sends_gradients
from .flat_params import FlatView
from .optimizer_state import check_state, describe, with_digest
from .param_groups import Partition, resolve_method, with_partition


class CompressedReplicas:
    """Averages gradients over replicas by a method's two channels, with one `CompressedMean` per shard of a unit.

    As usual FSDP averages a unit's gradient over the ranks of a replica, and every rank has its shard of the mean.
    The ranks with the same shard in all replicas are its workers, and the one in replica 0 is its server. A shard's
    vector [d] is this rank's part of the unit's parameters that require gradients, without padding. It is float32 for
    16-bit parameters. A round is one backward pass that averages over replicas.

    `units` has the `CompressedMean` of every unit with coordinates on this rank, by the name of its module. `meter`
    adds up what this rank sent and received between replicas, and `skipped` the rounds whose gradient was not finite.
    `state_dict` holds this rank's memories; save and load it on every rank.
    """

    def __init__(
        self,
        model: nn.Module,
        algorithm: Algorithm,
        seed: int,
        scaler: torch.amp.GradScaler | None,
        partition: Partition,
    ) -> None:
        if algorithm.clip is not None:
            raise ValueError(
                f"clip={algorithm.clip}: a rank has only a shard and cannot clip by the norm of the whole gradient; "
                "call torch.nn.utils.clip_grad_norm_ after backward"
            )
        groups = _param_groups(model)
        first = next(iter(groups.values()))
        info, device = first.mesh_info, first.device
        self._identity = {
            "mesh": f"{info.replicate_mesh_size} replicas of {info.shard_mesh_size} shards",
            "replica": info.replicate_mesh_rank,
            "shard": info.shard_mesh_rank,
            "algorithm": describe(algorithm),
            "seed": seed,
            "partition": partition,
        }
        hooks = {name: _Hook(name, group, scaler) for name, group in groups.items()}
        for hook in hooks.values():
            for sizes in hook.shard_sizes:  # all of them, so that all ranks refuse
                check_sends_gradients(with_partition(algorithm, partition, [(size,) for size in sizes]), sum(sizes))
        shapes = {name: [tuple(param.sharded_param.shape) for param in hook.params] for name, hook in hooks.items()}
        compared = self._identity | {"replica": "any", "shapes": shapes}
        check_consistency(device, info.replicate_process_group, **compared)
        nodes = Nodes(info.replicate_process_group)
        for name, hook in hooks.items():
            hook.register(algorithm, partition, nodes, keyed_seed(seed, "unit", name, "shard", info.shard_mesh_rank))
        self.units = {name: hook.mean for name, hook in hooks.items() if hook.mean}
        self._identity["d"] = {name: (sum(hook.sizes), str(hook.dtype)) for name, hook in hooks.items()}

    @property
    def meter(self) -> BitCounter:
        """Communication of all units together."""
        meters = [unit.meter for unit in self.units.values()]
        fields = ("bits_up", "bits_down", "payload_bytes")
        return BitCounter(*(sum(getattr(meter, field) for meter in meters) for field in fields))

    @property
    def skipped(self) -> int:
        """Skipped rounds of all units together."""
        return sum(unit.skipped for unit in self.units.values())

    def state_dict(self) -> dict:
        """Return this rank's state, in nested dicts of tensors and numbers, with a digest."""
        return with_digest(self._state())

    def load_state_dict(self, state_dict: dict) -> None:
        """Load the result of `state_dict` on the same rank of an equal mesh.

        Raises ValueError for a damaged state, and for one of another rank, mesh, algorithm, seed, partition or class.
        Then nothing has changed.
        """
        check_state(state_dict, self._state(), self._identity, type(self).__name__)
        for name, unit in self.units.items():
            unit.load(state_dict["units"][name])

    def _state(self) -> dict[str, Any]:
        return {"of": self._identity, "units": {name: unit.state() for name, unit in self.units.items()}}


class _Hook:
    """Replaces FSDP's all-reduce of a unit's gradient."""

    def __init__(self, name: str, group: Any, scaler: torch.amp.GradScaler | None) -> None:
        self.name, self.group, self.info, self.scaler = name, group, group.mesh_info, scaler
        self.params = _trainable(group)
        self.padded = [param.padded_sharded_param_size.numel() for param in self.params]
        self.sizes = [param.sharded_size.numel() for param in self.params]
        self.dtype = torch.promote_types(self.params[0].sharded_param.dtype, torch.float32)  # 16 bits are too few
        shards = self.info.shard_mesh_size
        shard_sizes = ([_coordinates(param, shards, shard) for param in self.params] for shard in range(shards))
        self.shard_sizes = [[size for size in sizes if size] for sizes in shard_sizes if any(sizes)]
        self.mean: CompressedMean | None = None
        self.accumulated: Tensor | None = None

    def register(self, algorithm: Algorithm, partition: Partition, nodes: Nodes, seed: int) -> None:
        """Make FSDP call this hook instead of its all-reduce."""
        if any(self.sizes):
            algorithm = with_partition(algorithm, partition, [(size,) for size in self.sizes if size])
            zeros = torch.zeros(sum(self.sizes), dtype=self.dtype, device=self.group.device)
            self.mean = CompressedMean(algorithm, zeros, seed, nodes, self.scaler)
        self.group._all_reduce_hook = self
        # With a mesh of replicas torch averages over them before it calls the hook; a mesh of shards avoids this.
        shards = FSDPMeshInfo(self.info.mesh, shard_mesh_dim=self.info.shard_mesh_dim)
        shards.reduce_scatter_process_group = self.info.reduce_scatter_process_group
        if self.group.post_forward_mesh_info == self.info:
            self.group.post_forward_mesh_info = shards
        self.group.mesh_info = shards

    def parameters(self) -> list[Tensor]:
        """Return this rank's part of the parameters."""
        return [param.sharded_param.to_local() for param in self.params]

    def _is_finite_in_all_shards(self, gradient: Tensor) -> bool:
        finite = torch.tensor(is_finite(gradient), dtype=torch.uint8, device=gradient.device)
        with convert_collective_errors():
            dist.all_reduce(finite, dist.ReduceOp.MIN, self.info.shard_process_group)
        return bool(finite)

    @torch.no_grad()
    def __call__(self, reduced: Tensor) -> None:
        """Overwrite this replica's gradient with the compressed mean over replicas.

        reduced: this rank's shard of the unit's gradient, with each parameter padded to its longest shard, on the
        all-reduce's stream. Raises ValueError if a parameter has no gradient, Disagreement and LostContact.
        """
        if reduced.is_cuda:
            reduced.record_stream(torch.cuda.current_stream())  # it was allocated on the reduce-scatter's stream
        if _trainable(self.group) != self.params or len(reduced) != sum(self.padded):
            if self.mean and self.group.all_reduce_grads:  # the other replicas wait for this rank
                self.mean.round(None, self.parameters(), FlatView([], [], reduced))
            raise ValueError(
                f"module {self.name!r}: a parameter has no gradient, or its requires_grad changed; "
                "call model.set_reduce_scatter_unused_params(True), or freeze parameters before compress_replicas"
            )
        parts = [part[:size] for part, size in zip(reduced.split(self.padded), self.sizes, strict=True)]
        gradient = torch.cat(parts).to(self.dtype)
        if self.accumulated is not None:
            gradient += self.accumulated
        if not self.group.all_reduce_grads:  # set_requires_all_reduce(False)
            self.accumulated = gradient
            reduced.zero_()
            return
        self.accumulated = None
        if not self._is_finite_in_all_shards(gradient):  # the memories of all shards stay as they were
            gradient.fill_(torch.nan)
        if not self.mean:
            return
        mean = torch.empty_like(gradient)
        self.mean.round(gradient, self.parameters(), FlatView([mean], [len(mean)], mean))
        if self.group.gradient_divide_factor is not None:  # torch then sums over replicas
            mean = mean * self.info.replicate_mesh_size
        for part, received in zip(parts, mean.split(self.sizes), strict=True):
            part.copy_(received)


def compress_replicas(
    model: nn.Module,
    algorithm: Algorithm | str,
    seed: int = 0,
    scaler: torch.amp.GradScaler | None = None,
    partition: Partition = "whole",
    **options: Any,
) -> CompressedReplicas:
    """Compress gradients between the replicas of a model that `fully_shard` put on a mesh of replicas and shards.

        mesh = init_device_mesh("cuda", (2, 8), mesh_dim_names=("replicate", "shard"))
        fully_shard(model, mesh=mesh)
        replicas = compress_replicas(model, "loco")

    Call it after the last `fully_shard`, on every rank. Between replicas the algorithm's messages replace the
    all-reduce; inside a replica nothing changes. The optimizer in the loop makes the step, and the algorithm's own
    update is not used. Every shard of a unit has its own scale and memory.

    algorithm: a name of conf/algorithm, with `options` of its function, or the result of such a function. It must
    send gradients. scaler: the loop's GradScaler, if any; memories are kept without its scale. partition: "layer"
    gives every parameter's part of a shard its own scale.

    Needs torch 2.13. Raises ValueError for a model without replicas, not sharded by `fully_shard` alone, or with an
    all-reduce hook. It also rejects a method that clips or sends anything but gradients, an unknown name or option,
    and a compressor that cannot take so few coordinates. Raises Disagreement if replicas differ in algorithm, seed or
    parameters, and LostContact. Then the model is as it was.
    """
    return CompressedReplicas(model, resolve_method(algorithm, options), seed, scaler, partition)


def _param_groups(model: nn.Module) -> dict[str, Any]:
    """Return FSDP's parameter groups by module name. Raises ValueError if one cannot be compressed."""
    if torch.__version__ < "2.13":
        raise ValueError(f"compress_replicas needs torch 2.13 or newer; here is {torch.__version__}")
    trained: dict[str, Any] = {}
    for name, module in model.named_modules():
        groups = module._get_fsdp_state()._fsdp_param_groups if isinstance(module, FSDPModule) else []
        if len(groups) > 1:
            raise ValueError(f"module {name!r}: fully_shard with several meshes is not supported")
        if not groups or groups[0] in trained.values():  # several modules may be one unit
            continue
        group = groups[0]
        params = _trainable(group)
        if group._all_reduce_hook is not None:
            raise ValueError(f"module {name!r}: it already has an all-reduce hook; call compress_replicas once")
        if not isinstance(group.mesh_info, HSDPMeshInfo):
            raise ValueError(
                f"module {name!r}: its mesh lacks the two dimensions of replicas and shards; give fully_shard a "
                "mesh such as init_device_mesh('cuda', (2, 8), mesh_dim_names=('replicate', 'shard'))"
            )
        if any(param.sharded_param.device_mesh.ndim > 2 for param in params):
            raise ValueError(f"module {name!r}: tensor parallelism is not supported; shard by fully_shard alone")
        if params:
            trained[name] = group
    if not trained:
        raise ValueError(
            "no parameter that requires a gradient is sharded by fully_shard; call it first (FSDP 1 is not "
            "supported; with the whole model on every rank use DistributedDataParallel and `compressed`)"
        )
    return trained


def _trainable(group: Any) -> list[Any]:
    return [param for param in group.fsdp_params if param.sharded_param.requires_grad]


def _coordinates(param: Any, shards: int, shard: int) -> int:
    """Return a parameter's coordinates in a shard: torch gives each shard ⌈n/S⌉ rows until none are left."""
    shape, axis = param.sharded_param.shape, param.fsdp_placement.dim
    rows = -(-shape[axis] // shards)
    return min(rows, max(0, shape[axis] - shard * rows)) * (shape.numel() // max(1, shape[axis]))
