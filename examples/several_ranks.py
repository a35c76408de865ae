"""Training on several ranks of torch.distributed, by torch's own ways and by loops of other projects; knows no RepDL.

    pip install transformers accelerate lightning                                # for the last three programs
    repdl run --ranks 4 examples/several_ranks.py gpt                            # four ranks on one machine
    torchrun --nproc-per-node 4 -m repdl run examples/several_ranks.py gpt       # the same digest
    torchrun --nproc-per-node 4 examples/several_ranks.py gpt                    # torch alone

Rank 0 prints the digest of what all ranks have trained. docs/ranks.md has what this prints in several settings.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

STEPS, TOKENS, WIDTH, HEADS, LENGTH = 4, 48, 48, 24, 24
"""Divisible by 1, 2, 3, 4, 6 and 8 ranks."""
Trained = Iterable[torch.Tensor]
"""What decides the digest: parameters, and buffers that change."""
Item = tuple[torch.Tensor, torch.Tensor]


class Attention(nn.Module):
    """Of as many heads as the layers give, which may be those of a rank."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = *x.shape[:2], -1, WIDTH // HEADS
        q, k, v = (layer(x).view(shape).transpose(1, 2) for layer in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.n1, self.n2, self.attention = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
        self.up, self.down, self.dropout = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.n1(x))
        return x + self.dropout(self.down(F.gelu(self.up(self.n2(x)))))


class GPT(nn.Module):
    def __init__(self, dropout: float = 0.1) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(TOKENS, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, TOKENS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, replicas: int, replica: int, clips: bool = True) -> None:
    """Some steps of a GPT on tokens, whose batches belong to replicas."""
    batches = torch.randint(TOKENS, (STEPS, replicas, 3, LENGTH + 1))
    torch.manual_seed(10 + replica)  # of dropout
    for batch in batches[:, replica]:
        optimizer.zero_grad()
        F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten()).backward()
        if clips:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()


def begin() -> tuple[int, int]:
    """The rank, and how many there are."""
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    return dist.get_rank(), dist.get_world_size()


def images() -> nn.Sequential:
    """LeNet for 12 x 12 pixels, with batch normalisation."""
    first = nn.Conv2d(1, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)
    second = nn.Conv2d(6, 16, 2), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 5))


def lenet() -> Trained:
    """DistributedDataParallel and a DistributedSampler."""
    rank, world = begin()
    net = images()
    model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = TensorDataset(torch.randn(8 * STEPS * world, 1, 12, 12), torch.randint(5, (8 * STEPS * world,)))
    for x, y in DataLoader(data, 8, sampler=DistributedSampler(data, world, rank)):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return net.state_dict().values()


def gpt() -> Trained:
    """DistributedDataParallel, AdamW, clipping and dropout."""
    rank, world = begin()
    model = nn.parallel.DistributedDataParallel(GPT(), bucket_cap_mb=0.05)
    train(model, torch.optim.AdamW(model.parameters(), lr=1e-2), world, rank)
    return model.parameters()


def zero() -> Trained:
    """The state of the optimizer shared among ranks."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    rank, world = begin()
    model = nn.parallel.DistributedDataParallel(GPT())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-2)
    train(model, optimizer, world, rank, clips=False)
    return model.parameters()


def fsdp2() -> Trained:
    """Parameters shared among ranks, bfloat16 on the way."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    rank, world = begin()
    model: Any = GPT()
    mesh = init_device_mesh("cpu", (world,))
    dtypes: dict[str, Any] = {"param_dtype": torch.bfloat16, "reduce_dtype": torch.float32}
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=MixedPrecisionPolicy(**dtypes))
    fully_shard(model, mesh=mesh, mp_policy=MixedPrecisionPolicy(**dtypes, output_dtype=torch.float32))
    train(model, torch.optim.AdamW(model.parameters(), lr=1e-2), world, rank)
    return [parameter.full_tensor() for parameter in model.parameters()]


def tensor_parallel() -> Trained:
    """Columns and rows of layers shared among ranks."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    _, world = begin()
    model = GPT(dropout=0.0)
    plan: dict[str, Any] = {f"attention.{name}": ColwiseParallel() for name in "qkv"} | {"up": ColwiseParallel()}
    plan |= {name: RowwiseParallel() for name in ("attention.o", "down")}
    for block in model.blocks:
        parallelize_module(block, init_device_mesh("cpu", (world,)), plan)
    train(model, torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False), 1, 0, clips=False)
    return [getattr(parameter, "full_tensor", lambda p=parameter: p)() for parameter in model.parameters()]


def accelerate() -> Trained:
    """A loop of accelerate: bfloat16 where autocast takes it, gradients of two batches a step."""
    a = import_module("accelerate")
    accelerator = a.Accelerator(cpu=True, mixed_precision="bf16", gradient_accumulation_steps=2)
    a.utils.set_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    made = nn.Sequential(nn.Embedding(TOKENS, 32), nn.TransformerEncoder(layer, 2), nn.Linear(32, TOKENS))
    optimizer = torch.optim.AdamW(made.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=10)
    loader = DataLoader(TensorDataset(torch.randint(TOKENS, (192, 16))), batch_size=4, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(made, optimizer, loader, schedule)
    a.utils.set_seed(7, device_specific=True)
    for (tokens,) in loader:
        with accelerator.accumulate(model):
            accelerator.backward(F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()))
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    return made.parameters()


def trainer() -> Trained:
    """The `Trainer` of transformers: GPT-2 with dropout, AdamW, warm-up, clipping, gradients of two batches a step."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    t = import_module("transformers")
    t.set_seed(0)
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "bos_token_id": 0, "eos_token_id": 0}
    model = t.GPT2LMHeadModel(t.GPT2Config(vocab_size=TOKENS, **sizes))
    tokens = torch.randint(TOKENS, (96, 12))
    with tempfile.TemporaryDirectory() as folder:
        options = {"use_cpu": True, "report_to": "none", "save_strategy": "no", "disable_tqdm": True}
        options |= {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}
        arguments = t.TrainingArguments(folder, max_steps=STEPS, learning_rate=1e-3, warmup_steps=2, **options)
        loop = t.Trainer(model, arguments, train_dataset=[{"input_ids": x, "labels": x} for x in tokens])
        loop.remove_callback(t.PrinterCallback)
        loop.train()
    return model.parameters()


def lightning() -> Trained:
    """The `Trainer` of lightning: convolutions, batch normalisation, SGD, clipping, validation."""
    logging.getLogger("lightning").setLevel(logging.ERROR)
    lightning = import_module("lightning")

    class Module(lightning.LightningModule):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.model = images()

        def training_step(self, batch: Item, index: int) -> torch.Tensor:
            loss = F.cross_entropy(self.model(batch[0]), batch[1])
            self.log("loss", loss, sync_dist=True)
            return loss

        def validation_step(self, batch: Item, index: int) -> None:
            self.log("accuracy", (self.model(batch[0]).argmax(1) == batch[1]).float().mean(), sync_dist=True)

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    lightning.seed_everything(0, verbose=False)
    data = TensorDataset(torch.randn(64, 1, 12, 12), torch.randint(5, (64,)))
    module = Module()
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    machines = int(os.environ["WORLD_SIZE"]) // local
    loop = lightning.Trainer(
        accelerator="cpu", strategy="ddp", devices=local, num_nodes=machines, max_steps=8, gradient_clip_val=1.0,
        enable_model_summary=False, **quiet,
    )  # fmt: skip
    loop.fit(module, DataLoader(data, batch_size=4, shuffle=True), DataLoader(data, batch_size=8))
    return (*module.state_dict().values(), *(value.reshape(1) for value in loop.callback_metrics.values()))


OF_TORCH: dict[str, Callable[[], Trained]] = {
    "lenet": lenet,
    "gpt": gpt,
    "zero": zero,
    "fsdp2": fsdp2,
    "tensor-parallel": tensor_parallel,
}
OF_OTHERS: dict[str, Callable[[], Trained]] = {"accelerate": accelerate, "trainer": trainer, "lightning": lightning}
"""Each of these begins torch.distributed itself."""


def digest_of_all(tensors: Trained) -> str:
    """Of what every rank has, in the order of ranks."""
    mine = hashlib.sha256(b"".join(x.detach().cpu().numpy().tobytes() for x in tensors)).hexdigest()
    everyone: list[Any] = [None] * dist.get_world_size() if dist.is_initialized() else [mine]
    if dist.is_initialized():
        dist.all_gather_object(everyone, mine)
    return hashlib.sha256("".join(everyone).encode()).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    programs = OF_TORCH | OF_OTHERS
    parser.add_argument("programs", nargs="+", metavar="PROGRAM", help=f"of {', '.join(programs)}")
    args = parser.parse_args()
    if unknown := set(args.programs) - set(programs):
        parser.error(f"unknown {sorted(unknown)}, expected some of {', '.join(programs)}")
    warnings.simplefilter("ignore")
    for name in args.programs:
        digest = digest_of_all(programs[name]())
        if not dist.is_initialized() or dist.get_rank() == 0:
            print("digest", name, digest, flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()  # else torch may abort at the end


if __name__ == "__main__":
    main()
