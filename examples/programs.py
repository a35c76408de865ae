"""Train models of other projects, unmodified, with torch's own initial values, dropout, optimizer and clipping.

    pip install transformers accelerate lightning
    python examples/programs.py                    # all of them, under repdl.enable()
    python examples/programs.py gpt2 llama --plain # by torch alone
    python examples/programs.py --time             # the time of a step in the steady state, against torch alone
    python examples/programs.py --device cuda      # on a GPU: the same digests

Nothing here knows of RepDL but the lines that call `repdl.enabled` and `repdl.digest`. examples/loops.py has programs
whose whole loop is another project's. docs/programs.md has what this prints under several settings.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from typing import Any

import torch
import torch.nn.functional as F
from loops import LOOPS, STEPS, TOKENS
from torch import nn

import repdl

Loss = Callable[[], torch.Tensor]
Program = tuple[nn.Module, Loss]
SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def transformers() -> Any:
    """The package; nothing is downloaded."""
    return import_module("transformers")


def _of_tokens(model: nn.Module) -> Program:
    tokens = torch.randint(TOKENS, (4, 16))
    return model, lambda: model(input_ids=tokens, labels=tokens).loss


def bert(attention: str) -> Program:
    t = transformers()
    return _of_tokens(t.BertForMaskedLM(t.BertConfig(vocab_size=TOKENS, attn_implementation=attention, **SMALL)))


def gpt2(attention: str) -> Program:
    t = transformers()
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 32, "bos_token_id": 0, "eos_token_id": 0}
    return _of_tokens(t.GPT2LMHeadModel(t.GPT2Config(vocab_size=TOKENS, attn_implementation=attention, **sizes)))


def llama(attention: str) -> Program:
    t = transformers()
    config = t.LlamaConfig(vocab_size=TOKENS, num_key_value_heads=2, attn_implementation=attention, **SMALL)
    return _of_tokens(t.LlamaForCausalLM(config))


def t5() -> Program:
    t = transformers()
    sizes = {"d_model": 32, "num_layers": 2, "num_heads": 4, "d_kv": 8, "d_ff": 64, "decoder_start_token_id": 0}
    return _of_tokens(t.T5ForConditionalGeneration(t.T5Config(vocab_size=TOKENS, **sizes)))


def _of_images(model: nn.Module, size: int) -> Program:
    images, labels = torch.randn(4, 3, size, size), torch.randint(5, (4,))
    return model, lambda: model(pixel_values=images, labels=labels).loss


def vit(attention: str) -> Program:
    t = transformers()
    config = t.ViTConfig(image_size=16, patch_size=4, num_labels=5, attn_implementation=attention, **SMALL)
    return _of_images(t.ViTForImageClassification(config), 16)


def convnext() -> Program:
    t = transformers()
    sizes = {"hidden_sizes": [8, 16, 32, 64], "depths": [1, 1, 2, 1], "drop_path_rate": 0.1, "num_labels": 5}
    return _of_images(t.ConvNextForImageClassification(t.ConvNextConfig(**sizes)), 32)


def efficientnet() -> Program:
    t = transformers()
    config = t.EfficientNetConfig(width_coefficient=0.25, depth_coefficient=0.25, hidden_dim=320, num_labels=5)
    return _of_images(t.EfficientNetForImageClassification(config), 32)


def encoder() -> Program:
    """torch's own encoder."""
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    layers = nn.Embedding(TOKENS, 32), nn.TransformerEncoder(layer, 2), nn.Linear(32, TOKENS)
    model, tokens = nn.Sequential(*layers), torch.randint(TOKENS, (4, 16))
    return model, lambda: F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())


class Recurrent(nn.Module):
    """A language model of torch's LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.head = nn.Embedding(TOKENS, 32), nn.Linear(32, TOKENS)
        self.lstm = nn.LSTM(32, 32, 2, dropout=0.1, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(self.token(tokens))[0])


def lstm() -> Program:
    model, tokens = Recurrent(), torch.randint(TOKENS, (4, 16))
    return model, lambda: F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())


PROGRAMS: dict[str, Callable[[], Program]] = {
    "bert": lambda: bert("sdpa"),
    "bert-eager": lambda: bert("eager"),
    "gpt2": lambda: gpt2("sdpa"),
    "gpt2-eager": lambda: gpt2("eager"),
    "llama": lambda: llama("sdpa"),
    "llama-eager": lambda: llama("eager"),
    "t5": t5,
    "vit": lambda: vit("sdpa"),
    "vit-eager": lambda: vit("eager"),
    "convnext": convnext,
    "efficientnet": efficientnet,
    "encoder": encoder,
    "lstm": lstm,
}


def made(name: str) -> tuple[nn.Module, Loss, Any, Any]:
    """A model of a seed, its loss, an optimizer and a schedule."""
    torch.manual_seed(0)
    model, loss = PROGRAMS[name]()
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=1e-3)
    return model, loss, optimizer, torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=STEPS)


def step(model: nn.Module, loss: Loss, optimizer: Any, schedule: Any) -> float:
    """A training step; the loss before it."""
    optimizer.zero_grad()
    value = loss()
    value.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    return value.item()


def trained(name: str) -> tuple[float, float, str]:
    """The first loss, the last one, and the digest of the model after some steps."""
    if name in LOOPS:
        torch.manual_seed(0)
        losses, model = LOOPS[name]()
    else:
        program = made(name)
        losses, model = [step(*program) for _ in range(STEPS)], program[0]
    return losses[0], losses[-1], repdl.digest(model.state_dict())


WARM, MEASURED = 12, 12
"""Steps of a turn: before the clock starts, in which calls are recorded, and while it runs."""


def time_ratio(name: str, rounds: int = 7) -> tuple[float, float]:
    """Milliseconds of a step by torch alone, and the median ratio of one under `enable()` to it, in the steady state.

    Turns of the two alternate.
    """
    programs = {False: made(name), True: made(name)}
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for ours in (False, True):
            with repdl.enabled() if ours else nullcontext():
                for _ in range(WARM):
                    step(*programs[ours])
                begin = time.perf_counter()
                for _ in range(MEASURED):
                    step(*programs[ours])
                times[ours].append((time.perf_counter() - begin) / MEASURED * 1e3)
    ratios = [b / a for a, b in zip(times[False], times[True])]
    return statistics.median(times[False]), statistics.median(ratios)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [*PROGRAMS, *LOOPS]
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"of {', '.join(names)}; default: all")
    parser.add_argument("--plain", action="store_true", help="by torch alone")
    parser.add_argument("--time", action="store_true", help="the time of a step in place of the digest")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--device", default="cpu", help="of the models; those of loops.py are for cpu")
    args = parser.parse_args()
    known = [*PROGRAMS] if args.time or args.device != "cpu" else names
    if unknown := set(args.programs) - set(known):
        parser.error(f"unknown {sorted(unknown)}, expected some of {', '.join(known)}")
    if args.threads:
        torch.set_num_threads(args.threads)
        repdl.set_num_threads(args.threads)
    torch.set_default_device(args.device)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    for name in args.programs or known:
        if args.time:
            milliseconds, ratio = time_ratio(name)
            says = f"enabled / torch {ratio:.2f}, {MEASURED} steps after {WARM} a turn"
            print(f"{name:12} torch {milliseconds:8.2f} ms, {says}", flush=True)
            continue
        with nullcontext() if args.plain else repdl.enabled():
            first, last, digest = trained(name)
        print(f"{name:12} loss {first:8.4f} -> {last:8.4f}  {digest}", flush=True)


if __name__ == "__main__":
    main()
