"""Training loops of other projects, unmodified, for `examples/programs.py`: what shuffles, clips, accumulates and steps
is theirs.

    pip install transformers accelerate lightning
    python examples/programs.py trainer accelerate lightning workers
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

STEPS, TOKENS = 10, 99
Trained = tuple[list[float], nn.Module]
Item = tuple[torch.Tensor, torch.Tensor]


def trainer() -> Trained:
    """The `Trainer` of transformers: BERT with dropout, AdamW, warm-up, clipping, a shuffled loader."""
    t = import_module("transformers")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    model = t.BertForSequenceClassification(t.BertConfig(vocab_size=TOKENS, num_labels=3, **sizes))
    texts = [{"input_ids": torch.randint(TOKENS, (12,)), "labels": torch.randint(3, ())} for _ in range(24)]
    with tempfile.TemporaryDirectory() as folder:
        options = {"use_cpu": True, "report_to": "none", "save_strategy": "no", "disable_tqdm": True}
        arguments = t.TrainingArguments(
            folder, max_steps=STEPS, learning_rate=1e-3, warmup_steps=2, logging_steps=1, **options
        )
        loop = t.Trainer(model, arguments, train_dataset=texts)
        loop.remove_callback(t.PrinterCallback)
        loop.train()
    return [row["loss"] for row in loop.state.log_history if "loss" in row], model


def accelerate() -> Trained:
    """A loop of accelerate: bfloat16 where autocast takes it, gradients of two batches a step."""
    a = import_module("accelerate")
    a.state.AcceleratorState._reset_state(True)  # of the one that the Trainer has made
    accelerator = a.Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=2)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    layers = nn.Embedding(TOKENS, 32), nn.TransformerEncoder(layer, 2), nn.Linear(32, TOKENS)
    made = nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=STEPS)
    loader = DataLoader(TensorDataset(torch.randint(TOKENS, (8 * STEPS, 16))), batch_size=4, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(made, optimizer, loader, schedule)
    losses = []
    for (tokens,) in loader:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses, made


def _images() -> nn.Sequential:
    """A network of convolutions for 8 x 8 pixels and 5 classes."""
    layers = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.2)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(128, 5))


def lightning() -> Trained:
    """The `Trainer` of lightning: convolutions, batch normalisation, dropout, SGD, clipping, validation."""
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    lightning = import_module("lightning")
    losses = []

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = _images()

        def training_step(self, batch: Item, index: int) -> torch.Tensor:
            loss = F.cross_entropy(self.model(batch[0]), batch[1])
            losses.append(loss.item())
            return loss

        def validation_step(self, batch: Item, index: int) -> None:
            self.log("accuracy", (self.model(batch[0]).argmax(1) == batch[1]).float().mean())

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    data = TensorDataset(torch.randn(20, 3, 8, 8), torch.randint(5, (20,)))
    module = Module()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    loop = lightning.Trainer(
        accelerator="cpu", max_steps=STEPS, gradient_clip_val=1.0, enable_model_summary=False, **quiet
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # lightning's, about workers
        loop.fit(module, DataLoader(data, batch_size=4, shuffle=True), DataLoader(data, batch_size=10))
    return losses, module


class _Noisy(Dataset[Item]):
    """Images with noise that whoever loads them draws."""

    def __init__(self) -> None:
        self.images, self.labels = torch.randn(4 * STEPS, 3, 8, 8), torch.randint(5, (4 * STEPS,))

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Item:
        image = self.images[index]
        return image + 0.1 * torch.randn_like(image), self.labels[index]


def workers() -> Trained:
    """A DataLoader whose two worker processes draw random numbers."""
    model = _images()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    loader = DataLoader(_Noisy(), batch_size=4, shuffle=True, num_workers=2, multiprocessing_context="fork")
    for images, labels in loader:
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, model


LOOPS: dict[str, Callable[[], Trained]] = {
    "trainer": trainer,
    "accelerate": accelerate,
    "lightning": lightning,
    "workers": workers,
}
