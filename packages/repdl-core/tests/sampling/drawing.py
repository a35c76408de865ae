"""Data that draw, in a module that a spawned worker can import."""

from __future__ import annotations

import torch
from torch.utils.data import Dataset

from repdl import random
from repdl.random import Generator


class Drawn(Dataset[torch.Tensor]):
    """Samples that draw: from the default generator, one of their own from outside, or one of the index."""

    def __init__(self, generator: Generator | None = None, of_index: bool = False) -> None:
        self.generator, self.of_index = generator, of_index

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        generator = Generator(7, stream=index) if self.of_index else self.generator
        return random.rand(2, generator=generator)


AT_IMPORT = Generator(3)


class DrawnAtImport(Dataset[torch.Tensor]):
    """Draws from a generator that each process makes that imports this file."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return random.rand(3, generator=AT_IMPORT)
