"""Time of training steps by torch and by RepDL, compiled and not: four sides that take turns in one process.

    python benchmarks/compiled.py [--threads 1] [--rounds 7] [--only gpt2,lenet] [--json compiled.json]

`torch` is torch alone, `inductor` its compiler, `repdl` the same program under `repdl.enable()`, and `compiled` that
with `torch.compile(backend="repdl")`. A step is the forward pass, the loss, the backward pass and AdamW. BERT, GPT-2,
ViT and ConvNeXt are those of transformers, of width 256, or 768 where the name says so. Prints the medians in
milliseconds, the median of the rounds' ratios to torch's time (less than 1 is faster), and the seconds of the first
compiled step.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from processor import this_processor
from torch import nn
from turns import turn

import repdl

Made = tuple[nn.Module, Callable[[Any], torch.Tensor]]
"""A model, and the loss by a function that runs as it does."""
SIDES = ("torch", "inductor", "repdl", "compiled")
COMPILERS = {"inductor": "inductor", "compiled": "repdl"}
TOKENS = 1000


def _texts(name: str, width: int, layers: int, batch: int) -> Made:
    t: Any = import_module("transformers")
    tokens = torch.randint(TOKENS, (batch, 128))
    model: nn.Module
    if name == "bert":
        sizes = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": width // 64}
        model = t.BertForMaskedLM(t.BertConfig(vocab_size=TOKENS, intermediate_size=4 * width, **sizes))
    else:
        sizes = {"n_embd": width, "n_layer": layers, "n_head": width // 64, "n_positions": 128}
        model = t.GPT2LMHeadModel(t.GPT2Config(vocab_size=TOKENS, bos_token_id=0, eos_token_id=0, **sizes))
    return model, lambda run: run(input_ids=tokens, labels=tokens).loss


def _images(name: str) -> Made:
    t: Any = import_module("transformers")
    model: nn.Module
    if name == "vit":
        sizes = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
        model = t.ViTForImageClassification(t.ViTConfig(image_size=64, patch_size=8, num_labels=10, **sizes))
    else:
        stages = {"hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 4, 2], "drop_path_rate": 0.1}
        model = t.ConvNextForImageClassification(t.ConvNextConfig(num_labels=10, **stages))
    images, labels = torch.randn(8, 3, 64, 64), torch.randint(10, (8,))
    return model, lambda run: run(pixel_values=images, labels=labels).loss


class UNet(nn.Module):
    """Two levels of convolutions with group norms, as in a model of diffusion."""

    def __init__(self, channels: int = 64) -> None:
        super().__init__()

        def block(given: int, made: int) -> nn.Module:
            norm = nn.GroupNorm(8, made)
            return nn.Sequential(nn.Conv2d(given, made, 3, padding=1), norm, nn.SiLU(), nn.Dropout(0.1))

        self.first, self.down = block(3, channels), block(channels, 2 * channels)
        self.middle, self.up = block(2 * channels, 2 * channels), block(3 * channels, channels)
        self.pool, self.last = nn.AvgPool2d(2), nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        high = self.first(x)
        low = self.down(self.pool(high))
        low = low + self.middle(low)
        low = nn.functional.interpolate(low, scale_factor=2.0)
        result: torch.Tensor = self.last(self.up(torch.cat([high, low], 1)))
        return result


def unet() -> Made:
    images, noise = torch.randn(8, 3, 32, 32), torch.randn(8, 3, 32, 32)
    return UNet(), lambda run: nn.functional.mse_loss(run(images + noise), noise)


class Words(nn.Module):
    """A language model of torch's LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.head = nn.Embedding(TOKENS, 256), nn.Linear(256, TOKENS)
        self.lstm = nn.LSTM(256, 256, 2, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.head(self.lstm(self.token(tokens))[0])
        return result


def lstm() -> Made:
    tokens = torch.randint(TOKENS, (16, 32))
    return Words(), lambda run: nn.functional.cross_entropy(run(tokens).flatten(0, 1), tokens.flatten())


def lenet() -> Made:
    first = nn.Conv2d(1, 6, 5), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)
    second = nn.Conv2d(6, 16, 5), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)
    images, labels = torch.randn(64, 1, 28, 28), torch.arange(64) % 10
    model = nn.Sequential(*first, *second, nn.Flatten(), nn.Linear(256, 10))
    return model, lambda run: nn.functional.cross_entropy(run(images), labels)


MODELS: dict[str, Callable[[], Made]] = {
    "bert": lambda: _texts("bert", 256, 4, 4),
    "bert_768": lambda: _texts("bert", 768, 2, 2),
    "gpt2": lambda: _texts("gpt2", 256, 4, 4),
    "gpt2_768": lambda: _texts("gpt2", 768, 2, 2),
    "vit": lambda: _images("vit"),
    "convnext": lambda: _images("convnext"),
    "unet": unet,
    "lstm": lstm,
    "lenet": lenet,
}


def steps(name: str, side: str) -> Callable[[], None]:
    torch.manual_seed(0)
    model, loss = MODELS[name]()
    optimizer = torch.optim.AdamW(model.train().parameters())
    run = torch.compile(model, backend=COMPILERS[side]) if side in COMPILERS else model

    def step() -> None:
        optimizer.zero_grad()
        loss(run).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def measured(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of each side, ratios to torch's, and seconds of the first compiled step."""
    calls = {side: steps(name, side) for side in SIDES}
    times: dict[str, list[float]] = {side: [] for side in SIDES}
    first: dict[str, float] = {}
    for number in range(-1, args.rounds):  # a round before the clock starts
        for side in SIDES if number % 2 else SIDES[::-1]:
            with repdl.enabled() if side in ("repdl", "compiled") else nullcontext():
                begin = time.perf_counter()
                calls[side]()
                first.setdefault(side, time.perf_counter() - begin)
                milliseconds = turn(calls[side], args.seconds)
            if number >= 0:
                times[side].append(milliseconds)
    ratios = {side: [a / b for a, b in zip(times[side], times["torch"])] for side in SIDES[1:]}
    return {
        "milliseconds": {side: round(statistics.median(values), 3) for side, values in times.items()},
        "ratio to torch": {side: round(statistics.median(values), 3) for side, values in ratios.items()},
        "seconds of the first step": {side: round(first[side], 1) for side in COMPILERS},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, metavar="N")
    parser.add_argument("--rounds", type=int, default=7, metavar="N")
    parser.add_argument("--seconds", type=float, default=0.5, metavar="S", help="of a turn")
    parser.add_argument("--only", default=",".join(MODELS), help="names, with commas between")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the figures go, too")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    repdl.set_num_threads(args.threads)
    print("| model | torch, ms | inductor | repdl | compiled | first, inductor | first, compiled |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    found: dict[str, Any] = {}
    for name in args.only.split(","):
        found[name] = of = measured(name, args)
        torch.compiler.reset()
        figures = [f"{of['milliseconds']['torch']:.2f}"]
        figures += [f"{ratio:.2f}" for ratio in of["ratio to torch"].values()]
        figures += [f"{seconds:.1f}" for seconds in of["seconds of the first step"].values()]
        print(f"| {name} | {' | '.join(figures)} |", flush=True)
    means = {side: statistics.geometric_mean(of["ratio to torch"][side] for of in found.values()) for side in SIDES[1:]}
    print("geometric means of the ratios: " + ", ".join(f"{side} {mean:.2f}" for side, mean in means.items()))
    if args.json:
        described: dict[str, Any] = {"processor": this_processor(), "threads": args.threads}
        described |= {"torch": torch.__version__, "models": found}
        args.json.write_text(json.dumps(described, indent=1) + "\n")


if __name__ == "__main__":
    main()
