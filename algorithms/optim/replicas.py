"""Compressed gradients between the replicas of a sharded model: FSDP2 on a mesh of replicas and shards (HSDP)."""

import re
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.fsdp._fully_shard._fsdp_common import FSDPMeshInfo, HSDPMeshInfo

from ..comm.consistency import check_consistency
from ..core.algorithm import Algorithm
from ..core.bit_counter import BitCounter
from ..utils.seeding import keyed_seed
from .compressed_mean import CompressedMean, check_sends_gradients, chosen_method
from .optimizer_state import check_state, state_digest
from .param_groups import Partition, partitioned


class CompressedReplicas:
    """The mean of the replicas' gradients, as a method's two channels deliver it: one `CompressedMean` a shard.

    FSDP averages a unit's gradient over the shards of a replica, as always, and every rank has its shard of the
    mean. The ranks that hold the same shard in other replicas are the workers of that shard, and the one of replica
    0 is its server. A shard's vector [d] is this rank's part of the unit's parameters that require gradients, without
    padding; float32 where they are of 16 bits. A round is one backward pass that reduces the unit's gradient.

    `units` has a `CompressedMean` for every unit that has coordinates here, by the name of its module. `meter` adds
    up what this rank sent and received between replicas, and `skipped` the rounds whose gradient was not finite.
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
                f"clip={algorithm.clip}: a rank has a shard and cannot clip by the norm of the whole gradient; call "
                "torch.nn.utils.clip_grad_norm_ after backward"
            )
        groups = _param_groups(model)
        first = next(iter(groups.values()))
        info, device = first.mesh_info, first.device
        described = re.sub(" at 0x[0-9a-f]+", "", repr(algorithm))
        self._identity = {
            "mesh": f"{info.replicate_mesh_size} replicas of {info.shard_mesh_size} shards",
            "replica": info.replicate_mesh_rank,
            "shard": info.shard_mesh_rank,
            "algorithm": described,
            "seed": seed,
            "partition": partition,
        }
        hooks = {name: _Hook(name, group, scaler) for name, group in groups.items()}
        for hook in hooks.values():
            for sizes in hook.of_shards:  # all of them, so that all ranks refuse
                check_sends_gradients(partitioned(algorithm, partition, sizes), sum(sizes))
        shapes = {name: [tuple(param.sharded_param.shape) for param in hook.params] for name, hook in hooks.items()}
        compared = self._identity | {"replica": "any", "shapes": shapes}
        check_consistency(device, info.replicate_process_group, **compared)
        for name, hook in hooks.items():
            hook.register(algorithm, partition, keyed_seed(seed, "unit", name, "shard", info.shard_mesh_rank))
        self.units = {name: hook.mean for name, hook in hooks.items() if hook.mean}
        self._identity["d"] = {name: (sum(hook.sizes), str(hook.dtype)) for name, hook in hooks.items()}

    @property
    def meter(self) -> BitCounter:
        """The communication of all units together."""
        meters = [unit.meter for unit in self.units.values()]
        fields = ("bits_up", "bits_down", "payload_bytes")
        return BitCounter(*(sum(getattr(meter, field) for meter in meters) for field in fields))

    @property
    def skipped(self) -> int:
        """How often a unit's round was skipped."""
        return sum(unit.skipped for unit in self.units.values())

    def state_dict(self) -> dict:
        """This rank's state, in nested dicts of tensors and numbers, with a digest."""
        state = self._state()
        return {**state, "digest": state_digest(state)}

    def load_state_dict(self, state_dict: dict) -> None:
        """Go on from what `state_dict` gave on the same rank of an equal mesh.

        Raises ValueError for the state of another rank, mesh, algorithm, seed or partition, for one of something
        else, and for a damaged one; then nothing has changed.
        """
        check_state(state_dict, self._state(), self._identity, type(self).__name__)
        for name, unit in self.units.items():
            unit.load(state_dict["units"][name])

    def _state(self) -> dict[str, Any]:
        return {"of": self._identity, "units": {name: unit.state() for name, unit in self.units.items()}}


class _Hook:
    """What FSDP calls instead of its own all-reduce of a unit's gradient."""

    def __init__(self, name: str, group: Any, scaler: torch.amp.GradScaler | None) -> None:
        self.name, self.group, self.info, self.scaler = name, group, group.mesh_info, scaler
        self.params = _trained(group)
        self.padded = [param.padded_sharded_param_size.numel() for param in self.params]
        self.sizes = [param.sharded_size.numel() for param in self.params]
        self.dtype = torch.promote_types(self.params[0].sharded_param.dtype, torch.float32)  # 16 bits are too few
        shards = self.info.shard_mesh_size
        of_shards = ([_coordinates(param, shards, shard) for param in self.params] for shard in range(shards))
        self.of_shards = [[size for size in sizes if size] for sizes in of_shards if any(sizes)]
        self.mean: CompressedMean | None = None
        self.kept: Tensor | None = None

    def register(self, algorithm: Algorithm, partition: Partition, seed: int) -> None:
        """Put this in the place of the all-reduce."""
        if any(self.sizes):
            algorithm = partitioned(algorithm, partition, [size for size in self.sizes if size])
            zeros = torch.zeros(sum(self.sizes), dtype=self.dtype, device=self.group.device)
            self.mean = CompressedMean(algorithm, zeros, seed, self.info.replicate_process_group)
        self.group._all_reduce_hook = self
        # On a mesh of replicas torch averages over them before it calls the hook, on one of shards alone it does not.
        shards = FSDPMeshInfo(self.info.mesh, shard_mesh_dim=self.info.shard_mesh_dim)
        shards.reduce_scatter_process_group = self.info.reduce_scatter_process_group
        if self.group.post_forward_mesh_info == self.info:
            self.group.post_forward_mesh_info = shards
        self.group.mesh_info = shards

    def parameters(self) -> Tensor:
        """A new vector [d] of this rank's part of the parameters."""
        parts = [param.sharded_param.to_local().detach().flatten() for param in self.params]
        return torch.cat([part.to(self.group.device, self.dtype) for part in parts])

    @torch.no_grad()
    def __call__(self, reduced: Tensor) -> None:
        """Replace a replica's gradient by the compressed mean over replicas.

        reduced: this rank's part of the unit's gradient, each parameter's padded to the longest part, on the stream
        of the all-reduce. Raises ValueError where a parameter has no gradient, Disagreement and LostContact.
        """
        if reduced.is_cuda:
            reduced.record_stream(torch.cuda.current_stream())  # it was allocated on the reduce-scatter's
        if _trained(self.group) != self.params or len(reduced) != sum(self.padded):
            if self.mean and self.group.all_reduce_grads:  # the other replicas wait for this rank
                self.mean.round(None, self.parameters())
            raise ValueError(
                f"module {self.name!r}: a parameter got no gradient, or requires_grad changed later; "
                "call model.set_reduce_scatter_unused_params(True), or freeze parameters before compress_replicas"
            )
        if not self.mean:
            return
        parts = [part[:size] for part, size in zip(reduced.split(self.padded), self.sizes, strict=True)]
        gradient = torch.cat(parts).to(self.dtype)
        if self.kept is not None:
            gradient += self.kept
        if not self.group.all_reduce_grads:  # set_requires_all_reduce(False)
            self.kept = gradient
            reduced.zero_()
            return
        self.kept = None
        scale = self.scaler.get_scale() if self.scaler else 1.0
        mean = scale * self.mean.round(gradient / scale, self.parameters())
        if self.group.gradient_divide_factor is not None:  # torch then adds replicas up
            mean *= self.info.replicate_mesh_size
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
    """Let a model that `fully_shard` put on a mesh of replicas and shards average its replicas by an algorithm.

        mesh = init_device_mesh("cuda", (2, 8), mesh_dim_names=("replicate", "shard"))
        fully_shard(model, mesh=mesh)
        replicas = compress_replicas(model, "loco")

    Call it after the last `fully_shard`, on every rank. Shards are gathered and reduced as before; between replicas
    the algorithm's messages take the place of the all-reduce. The step stays that of the optimizer in the loop, and
    the algorithm's own update is not used. Every unit's shard has its own scale and memory. partition: "layer" gives
    every parameter's part of a shard a scale of its own.

    algorithm: a name of conf/algorithm, with `options` of its function, or what such a function made; it sends
    gradients. scaler: the loop's GradScaler where it has one; gradients are remembered without its scale.

    Raises ValueError for a model without replicas or not sharded by `fully_shard` alone, for one that has an
    all-reduce hook, for a method that sends anything but gradients or clips, for an unknown name or option, and for a
    compressor that cannot take so few coordinates; Disagreement where the replicas do not have the same algorithm,
    seed and parameters; LostContact. Then the model is as it was.
    """
    return CompressedReplicas(model, chosen_method(algorithm, options), seed, scaler, partition)


def _param_groups(model: nn.Module) -> dict[str, Any]:
    """FSDP's groups of parameters by the names of their modules. Raises ValueError where one cannot be compressed."""
    found: dict[str, Any] = {}
    for name, module in model.named_modules():
        if isinstance(module, FSDPModule):
            groups = module._get_fsdp_state()._fsdp_param_groups
            if len(groups) > 1:
                raise ValueError(f"module {name!r}: fully_shard with several meshes is not supported")
            if groups and groups[0] not in found.values():  # several modules may be one unit
                found[name] = groups[0]
    trained = {}
    for name, group in found.items():
        params = _trained(group)
        if group._all_reduce_hook is not None:
            raise ValueError(f"module {name!r}: has an all-reduce hook already; call compress_replicas once")
        if not isinstance(group.mesh_info, HSDPMeshInfo):
            raise ValueError(
                f"module {name!r}: its mesh has not the two dimensions of replicas and shards; give fully_shard a "
                "mesh such as init_device_mesh('cuda', (2, 8), mesh_dim_names=('replicate', 'shard'))"
            )
        if any(param.sharded_param.device_mesh.ndim > 2 for param in params):
            raise ValueError(f"module {name!r}: tensor parallelism is not supported, shard by fully_shard alone")
        if params:
            trained[name] = group
    if not trained:
        raise ValueError(
            "fully_shard sharded no parameter of this model that requires a gradient; call it first (FSDP 1 is not "
            "supported, and with the whole model on every rank DistributedDataParallel takes `compressed`)"
        )
    return trained


def _trained(group: Any) -> list[Any]:
    return [param for param in group.fsdp_params if param.sharded_param.requires_grad]


def _coordinates(param: Any, shards: int, shard: int) -> int:
    """How many coordinates of a parameter a shard has: torch gives every shard ⌈n/S⌉ rows while there are any."""
    shape, axis = param.sharded_param.shape, param.fsdp_placement.dim
    rows = -(-shape[axis] // shards)
    return min(rows, max(0, shape[axis] - shard * rows)) * (shape.numel() // max(1, shape[axis]))
