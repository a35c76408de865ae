"""Which op made a tensor: the entry that wrote last what it shows."""

from __future__ import annotations

import torch
from torch.multiprocessing.reductions import StorageWeakRef

Geometry = tuple[int, tuple[int, ...], tuple[int, ...], torch.dtype]
Maker = tuple[int, int]


class Makers:
    """The entries whose outputs tensors are, by storage and what a tensor shows of it."""

    def __init__(self) -> None:
        # A reference keeps the key from being that of another storage.
        self._known: dict[int, tuple[StorageWeakRef, dict[Geometry, Maker]]] = {}
        self._most = 1 << 12

    def maker(self, tensor: torch.Tensor) -> Maker | None:
        """The entry that made a tensor, None if none is known to have."""
        known = self._known.get(_key(tensor))
        return None if known is None else known[1].get(_geometry(tensor))

    def made(self, tensor: torch.Tensor, maker: Maker, writes: bool) -> None:
        """`tensor` is an output. `writes`: its memory was written, and other views of it show something else now."""
        key = _key(tensor)
        if key not in self._known:
            self._known[key] = StorageWeakRef(tensor.untyped_storage()), {}
        geometries = self._known[key][1]
        if writes:
            geometries.clear()
        geometries[_geometry(tensor)] = maker
        if len(self._known) > self._most:
            self._known = {key: value for key, value in self._known.items() if not value[0].expired()}
            self._most = 2 * len(self._known) + (1 << 12)


def _key(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _geometry(tensor: torch.Tensor) -> Geometry:
    return int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride(), tensor.dtype


__all__ = ["Maker", "Makers"]
