"""DTensors in checkpoints: the part of this rank, and how the parts make the whole.

The mesh itself is that of the model that a state is loaded into.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from repdl.errors import CheckpointError


def is_dtensor(value: Any) -> bool:
    """Whether a value is a DTensor; without torch.distributed.tensor there is none."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def parts_of(path: str, tensor: Any) -> dict[str, Any]:
    """The local tensor of a DTensor, its placements and what else makes it again.

    Raises:
        CheckpointError: if it is a sum that was not taken yet, or sharded in another way than `Shard` does it.
    """
    from torch.distributed.tensor import Replicate, Shard

    placements: list[int | None] = []
    for placement in tensor.placements:
        if type(placement) is Shard:
            placements.append(placement.dim)
        elif type(placement) is Replicate:
            placements.append(None)
        else:
            raise CheckpointError(f"checkpoint: {path} is a DTensor placed by {placement}, expected Shard or Replicate")
    local = tensor.detach().to_local()
    made = {"local": local, "placements": placements, "shape": tensor.shape, "stride": tensor.stride()}
    return {**made, "mesh": mesh_name(tensor.device_mesh)}


def mesh_name(mesh: Any) -> str:
    """The ranks and the names of the dimensions of a mesh."""
    return f"{mesh.mesh.tolist()} {mesh.mesh_dim_names}"


def meshes_of(models: Iterable[torch.nn.Module]) -> dict[str, Any]:
    """The meshes of the parameters and buffers of models, by name."""
    tensors: list[Any] = [tensor for model in models for tensor in (*model.parameters(), *model.buffers())]
    return {mesh_name(t.device_mesh): t.device_mesh for t in tensors if is_dtensor(t)}


def made_of(parts: Mapping[str, Any], meshes: Mapping[str, Any]) -> Any:
    """The DTensor that `parts_of` has taken apart.

    Raises:
        CheckpointError: if no model has its mesh.
    """
    from torch.distributed.tensor import DTensor, Replicate, Shard

    if parts["mesh"] not in meshes:
        raise CheckpointError(
            f"checkpoint: a DTensor is in it on the mesh {parts['mesh']}, and the models that were passed have "
            f"{', '.join(meshes) or 'none'}; expected the same mesh"
        )
    mesh = meshes[parts["mesh"]]
    placements = [Replicate() if dim is None else Shard(dim) for dim in parts["placements"]]
    local = parts["local"].to(mesh.device_type)
    return DTensor.from_local(
        local, mesh, placements, run_check=False, shape=parts["shape"], stride=parts["stride"]
    )  # fmt: skip


__all__ = ["is_dtensor", "made_of", "mesh_name", "meshes_of", "parts_of"]
