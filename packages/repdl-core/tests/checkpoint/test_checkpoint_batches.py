"""`Batches`: an epoch that goes on has the batches, and the generators, of one that was not interrupted."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, WeightedRandomSampler, get_worker_info

import repdl
from repdl.checkpoint import Batches, Generators
from repdl.checkpoint.state import Encoded, Run
from repdl.errors import CheckpointError, UnsupportedError


class Noisy(Dataset[torch.Tensor]):
    """Samples that depend on every generator of the process that makes them."""

    def __len__(self) -> int:
        return 11

    def __getitem__(self, index: int) -> torch.Tensor:
        noise = torch.rand(1).item(), random.random(), float(np.random.rand()), repdl.random.rand(1).item()
        return torch.tensor([index, *noise], dtype=torch.float64)


class ByIndex(Noisy):
    """Samples that depend on their index alone."""

    def __getitem__(self, index: int) -> torch.Tensor:
        return repdl.random.rand(3, generator=repdl.random.Generator(0, stream=1 + index)) + index


class Stream(IterableDataset[torch.Tensor]):
    """Numbers from a generator of the process, or one of its own for each epoch."""

    def __init__(self, is_own: bool) -> None:
        self.is_own, self.generator = is_own, None

    def set_epoch(self, epoch: int) -> None:
        if self.is_own:
            self.generator = torch.Generator().manual_seed(epoch)

    def __iter__(self) -> Iterator[torch.Tensor]:
        worker = get_worker_info()
        for i in range(worker.id if worker else 0, 11, worker.num_workers if worker else 1):
            yield torch.rand(1, generator=self.generator) + i


def seed(value: int) -> None:
    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)
    repdl.random.manual_seed(value)


def trained(batches: Batches, epochs: int, stop: int | None = None) -> list[str]:
    """A digest a batch of the batch and of a draw from each generator; ends after `stop` batches."""
    seen: list[str] = []
    while batches.epoch < epochs:
        for batch in batches:
            draws = [torch.rand(2), repdl.random.rand(2), random.random(), float(np.random.rand())]
            seen.append(repdl.digest([batch, draws]))
            if len(seen) == stop:
                return seen
    return seen


def resumed(make: Callable[[], Batches], stop: int) -> tuple[list[str], list[str]]:
    """What a run of two epochs sees in one go, and with a stop; states go through what files hold."""
    seed(0)
    whole = trained(make(), 2)
    seed(0)
    first = make()
    before = trained(first, 2, stop)
    state = (
        Encoded.of({"position": first.state_dict(), "generators": repdl.checkpoint.generators.capture()})
        .copied()
        .decoded(Run({}))
    )
    seed(7)
    second = make()
    second.load_state_dict(state["position"])
    repdl.checkpoint.generators.restore(state["generators"])
    return whole, before + trained(second, 2)


def loader(data: Any = None, **options: Any) -> Callable[[], Batches]:
    reload = options.pop("reload", True)
    kind = options.pop("kind", DataLoader)

    def make() -> Batches:
        source = Noisy() if data is None else data()
        made = {name: value(source) if name in ("sampler", "generator") else value for name, value in options.items()}
        if options.get("num_workers"):
            made["worker_init_fn"] = repdl.random.worker_init_fn
        return Batches(kind(source, **{"batch_size": 3, **made}), reload=reload)

    return make


def order(data: Any) -> Any:
    return repdl.random.sampler(data, seed=3)


def own(data: Any) -> torch.Generator:
    return torch.Generator().manual_seed(5)


LOADERS = {
    "in order": loader(),
    "shuffled": loader(shuffle=True),
    "shuffled by a generator": loader(shuffle=True, generator=own),
    "a sampler's generator": loader(sampler=lambda data: RandomSampler(data, generator=own(data))),
    "with replacement": loader(sampler=lambda data: RandomSampler(data, True, 40, generator=own(data))),
    "weighted": loader(sampler=lambda data: WeightedRandomSampler([1.0, 2.0] * 5 + [3.0], 11)),
    "repdl's order": loader(sampler=order),
    "two workers": loader(shuffle=True, num_workers=2),
    "workers and repdl's order": loader(sampler=order, num_workers=2),
    "skipped": loader(ByIndex, sampler=order, num_workers=2, reload=False),
    "samples by themselves": loader(ByIndex, sampler=order, batch_size=None),
    "samples by themselves, skipped": loader(ByIndex, sampler=order, batch_size=None, num_workers=2, reload=False),
    "a stream": loader(lambda: Stream(True)),
    "a stream in workers": loader(lambda: Stream(False), num_workers=2),
}


@pytest.mark.parametrize("name", LOADERS)
def test_batches__go_on_in_the_middle_of_an_epoch(name: str) -> None:
    """And behind the last batch, which is shorter than the others, of the first and the second epoch."""
    for stop in (1, 4, 6) if "worker" in name or "skipped" in name else range(1, 9):
        whole, joined = resumed(LOADERS[name], stop)
        assert joined == whole, f"after {stop}"


@pytest.mark.parametrize("reload", [True, False])
def test_batches__of_torchdata(reload: bool) -> None:
    torchdata = pytest.importorskip("torchdata.stateful_dataloader")
    for workers in (0, 2):
        kind = torchdata.StatefulDataLoader
        make = loader(ByIndex if not reload else None, shuffle=True, num_workers=workers, reload=reload, kind=kind)
        for stop in (4, 6):
            whole, joined = resumed(make, stop)
            assert joined == whole, f"{workers} workers, after {stop}"
    with pytest.raises(CheckpointError, match=r"sampler is StatefulDataLoader, expected repdl.checkpoint.Batches"):
        repdl.checkpoint.save("c", sampler=make().loader)


def test_batches__the_control_differs() -> None:
    """Samples that depend on the generators of workers, whose batches are skipped."""
    whole, joined = resumed(loader(sampler=order, num_workers=2, reload=False), 2)
    assert joined[:2] == whole[:2] and joined[2] != whole[2]


def test_batches__and_generators_in_a_file_of_torch(tmp_path: Path) -> None:
    """As `Generators` and `Batches` are for programs that save by `torch.save`, whose reader takes no objects."""
    seed(0)
    whole = trained(LOADERS["two workers"](), 2)
    seed(0)
    first = LOADERS["two workers"]()
    before = trained(first, 2, 6)
    torch.save({"batches": first.state_dict(), "generators": Generators().state_dict()}, tmp_path / "c")
    seed(7)
    second, state = LOADERS["two workers"](), torch.load(tmp_path / "c", weights_only=True)
    second.load_state_dict(state["batches"])
    Generators().load_state_dict(state["generators"])
    assert before + trained(second, 2) == whole


DRAWS: dict[str, Callable[[], Any]] = {
    "torch": lambda: torch.rand(1),
    "repdl": lambda: repdl.random.rand(1),
    "numpy": lambda: np.random.rand(),
    "Python": random.random,
}


@pytest.mark.parametrize("name", DRAWS)
def test_batches__of_a_stream_that_draws_from_a_default_generator(name: str) -> None:
    class Drawn(IterableDataset[torch.Tensor]):
        def __iter__(self) -> Iterator[torch.Tensor]:
            for _ in range(8):
                DRAWS[name]()
                yield torch.zeros(1)

    batches = Batches(DataLoader(Drawn(), batch_size=2))
    next(iter(batches))
    with pytest.raises(UnsupportedError, match="draws from a default generator"):
        batches.state_dict()


def test_batches__what_cannot_go_on_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="persistent_workers"):
        loader(num_workers=2, persistent_workers=True)()
    with pytest.raises(CheckpointError, match=r"loader.sampler is RandomSampler"):
        loader(shuffle=True, reload=False)()
    with pytest.raises(CheckpointError, match="loader is list"):
        Batches([])  # type: ignore[arg-type]
    state = {
        "epoch": 0,
        "seen": 5,
        "start": {"generators": repdl.checkpoint.generators.capture(), "own": []},
        "own": [],
    }
    batches = loader()()
    batches.load_state_dict(state)
    with pytest.raises(CheckpointError, match="5 batches of epoch 0 were seen, and the loader has 4"):
        next(iter(batches))
    with pytest.raises(CheckpointError, match="0 generators of the loader, expected one of Batches.state_dict with 1"):
        loader(generator=own)().load_state_dict(state)
