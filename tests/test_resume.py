"""Checkpoints of other projects under `repdl.enable()`: what resumes exactly, and what a user adds where it does not.

docs/howto/resume.md says what is asserted here.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

import repdl
from repdl.checkpoint import Batches, Generators

pytestmark = pytest.mark.nightly
LAST = 12
"""Steps of a run: two epochs of 5, and 2."""
STOPS = {"in the middle of an epoch": 7, "at its end": 10}


class Tokens(Dataset[Any]):
    def __init__(self, is_noisy: bool) -> None:
        self.tokens, self.is_noisy = torch.arange(120).view(20, 6) * 7 % 11, is_noisy

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        tokens = self.tokens[index].clone()
        if self.is_noisy:
            tokens[0] = torch.randint(11, (1,)).item()
        return {"input_ids": tokens, "labels": tokens}


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.inner, self.outer = nn.Embedding(11, 8), nn.Linear(8, 16), nn.Linear(16, 11)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor, **ignored: Any) -> dict[str, torch.Tensor]:
        logits = self.outer(F.dropout(F.gelu(self.inner(self.embed(input_ids))), 0.2, self.training))
        return {"loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten())}


def seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def loader(is_noisy: bool) -> Any:
    return DataLoader(Tokens(is_noisy), 4, shuffle=True, num_workers=2)


def parts(model: nn.Module) -> tuple[Any, Any]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    return optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, LAST)


class Plain:
    """`torch.save` of state dicts and of torch's generator; or of `Batches` and `Generators`."""

    def __init__(self, folder: Path, is_noisy: bool, adds: bool) -> None:
        self.file, self.adds = folder / "state", adds
        self.model = Model()
        self.optimizer, self.schedule = parts(self.model)
        self.batches = Batches(loader(is_noisy)) if adds else loader(is_noisy)
        self.number = 0

    def objects(self) -> dict[str, Any]:
        known = {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule}
        return known | ({"batches": self.batches, "generators": Generators()} if self.adds else {})

    def train(self, stop: int) -> None:
        skip = 0 if self.adds else self.number % 5
        while self.number < stop:
            for i, batch in enumerate(self.batches):
                if i < skip:
                    continue
                self.model(**batch)["loss"].backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
                self.optimizer.step()
                self.schedule.step()
                self.optimizer.zero_grad()
                self.number += 1
                if self.number == stop:
                    break
            skip = 0

    def save(self) -> None:
        state = {name: value.state_dict() for name, value in self.objects().items()}
        torch.save(state | {"number": self.number, "torch": torch.get_rng_state()}, self.file)

    def load(self) -> None:
        state = torch.load(self.file)
        for name, value in self.objects().items():
            value.load_state_dict(state[name])
        self.number = state["number"]
        torch.set_rng_state(state["torch"])


class Accelerate(Plain):
    """`save_state` of accelerate; `Batches` is registered with it."""

    def __init__(self, folder: Path, is_noisy: bool, adds: bool) -> None:
        accelerate = pytest.importorskip("accelerate", reason="installed by `nox -s nightly`")
        super().__init__(folder, is_noisy, False)
        self.accelerator = accelerate.Accelerator(cpu=True)
        prepared = self.accelerator.prepare(self.model, self.optimizer, self.batches, self.schedule)
        self.model, self.optimizer, self.batches, self.schedule = prepared
        if adds:
            self.adds, self.batches = True, Batches(self.batches)
            self.accelerator.register_for_checkpointing(self.batches)

    def save(self) -> None:
        self.accelerator.save_state(str(self.file))

    def load(self) -> None:
        self.number = int(self.file.with_name("number").read_text())
        self.accelerator.load_state(str(self.file))


def resumed(kind: type[Plain], folder: Path, stop: int, is_noisy: bool, adds: bool) -> tuple[str, str]:
    seed(0)
    whole = kind(folder, is_noisy, adds)
    whole.train(LAST)
    seed(0)
    first = kind(folder, is_noisy, adds)
    first.train(stop)
    (folder / "number").write_text(str(stop))
    first.save()
    seed(99)
    second = kind(folder, is_noisy, adds)
    second.load()
    second.train(LAST)
    return repdl.digest(whole.model.state_dict()), repdl.digest(second.model.state_dict())


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("kind", [Plain, Accelerate])
def test_resume__with_what_a_user_adds(kind: type[Plain], stop: str, tmp_path: Path) -> None:
    with repdl.enabled():
        whole, joined = resumed(kind, tmp_path, STOPS[stop], is_noisy=True, adds=True)
    assert whole == joined


@pytest.mark.parametrize("kind", [Plain, Accelerate])
def test_resume__without_it(kind: type[Plain], tmp_path: Path) -> None:
    """The end of an epoch is exact; in the middle the order of the data is another one."""
    with repdl.enabled():
        for stop, same in ((10, True), (7, False)):
            whole, joined = resumed(kind, tmp_path, stop, is_noisy=False, adds=False)
            assert (whole == joined) is same, stop


@pytest.mark.parametrize("stop, is_noisy, same", [(7, False, True), (10, True, True), (7, True, False)])
def test_resume__trainer(stop: int, is_noisy: bool, same: bool, tmp_path: Path) -> None:
    """transformers skips the batches that were seen, but workers do not load them: their generators begin anew."""
    transformers = pytest.importorskip("transformers", reason="installed by `nox -s nightly`")
    options = {"max_steps": LAST, "save_steps": stop, "per_device_train_batch_size": 4, "dataloader_num_workers": 2}
    options |= {"lr_scheduler_type": "cosine", "max_grad_norm": 0.5, "learning_rate": 0.05, "report_to": []}
    digests = []
    with repdl.enabled():
        for begin, checkpoint in ((0, None), (99, str(tmp_path / f"checkpoint-{stop}"))):
            seed(begin)
            known = transformers.TrainingArguments(str(tmp_path), use_cpu=True, disable_tqdm=True, **options)
            trainer = transformers.Trainer(Model(), known, train_dataset=Tokens(is_noisy))
            trainer.train(resume_from_checkpoint=checkpoint)
            digests.append(repdl.digest(trainer.model.state_dict()))
    assert (digests[0] == digests[1]) is same


@pytest.mark.parametrize("stop", STOPS.values())
@pytest.mark.parametrize("adds", [True, False])
def test_resume__lightning(adds: bool, stop: int, tmp_path: Path) -> None:
    """lightning saves no generator; it asks a loader for its state, and `Batches` has one."""
    lightning = pytest.importorskip("lightning", reason="installed by `nox -s nightly`")

    class Module(lightning.LightningModule):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = Model()

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            return self.model(**batch)["loss"]

        def configure_optimizers(self) -> Any:
            optimizer, schedule = parts(self)
            return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    class SavedGenerators(lightning.Callback):  # type: ignore[name-defined]
        loaded = None

        def state_dict(self) -> dict[str, Any]:
            return Generators().state_dict()

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.loaded = state

        def on_train_start(self, *arguments: Any) -> None:
            if self.loaded is not None:
                Generators().load_state_dict(self.loaded)

    saver = lightning.pytorch.callbacks.ModelCheckpoint
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    digests = []
    with repdl.enabled():
        for begin, checkpoint in ((0, None), (99, tmp_path / f"step={stop}.ckpt")):
            seed(begin)
            module, data = Module(), loader(is_noisy=True)
            saves = saver(tmp_path, "{step}", every_n_train_steps=stop, save_top_k=-1)
            callbacks = [saves, *([SavedGenerators()] if adds else [])]
            trainer = lightning.Trainer(
                max_steps=LAST, gradient_clip_val=0.5, callbacks=callbacks, default_root_dir=tmp_path, **quiet
            )
            trainer.fit(module, Batches(data) if adds else data, ckpt_path=checkpoint)
            digests.append(repdl.digest(module.state_dict()))
    assert (digests[0] == digests[1]) is adds
