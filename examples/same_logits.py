"""The logits of a language model by every way of computing them, compared bit for bit.

    python examples/same_logits.py            # under repdl.enable(): 0 of all elements differ
    python examples/same_logits.py --plain    # by torch alone

Whoever trains on tokens that a model has drawn needs the probabilities that it drew them with: those of a forward pass
of training should be those of decoding. A decoder and a mixture of experts of transformers compute the logits of some
sequences at once (prefill), one sequence at a time, one token at a time with the cache, in two parts with the cache, in
a batch with other sequences, and in the forward pass of training. Needs transformers.
"""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Iterator
from importlib import import_module
from inspect import signature
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"  # the models are made here
logging.getLogger("transformers").setLevel(logging.ERROR)

import torch  # noqa: E402

import repdl  # noqa: E402

SEQUENCES, TOKENS, WORDS = 5, 24, 160


def models() -> Iterator[tuple[str, torch.nn.Module]]:
    """Small models with initial values, by name and attention."""
    t: Any = import_module("transformers")
    sizes: dict[str, Any] = {
        "vocab_size": WORDS, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    }  # fmt: skip
    experts: dict[str, Any] = {"num_local_experts": 4, "num_experts_per_tok": 2}
    for attention in ("eager", "sdpa"):
        llama = t.LlamaConfig(**sizes, attn_implementation=attention)
        yield f"Llama, {attention}", t.LlamaForCausalLM(llama)
        mixtral = t.MixtralConfig(**sizes, **experts, attn_implementation=attention)
        yield f"Mixtral, {attention}", t.MixtralForCausalLM(mixtral)


def in_parts(model: Any, ids: torch.Tensor, length: int) -> torch.Tensor:
    """Logits of so many tokens at a time, with the cache of those before."""
    # Newer releases of transformers have another name for it.
    name = "cache" if "cache" in signature(model.forward).parameters else "past_key_values"
    cache = {name: import_module("transformers").DynamicCache(config=model.config)}
    return torch.cat([model(part, **cache, use_cache=True).logits for part in ids.split(length, 1)], 1)


def ways(model: Any, ids: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """The logits of all tokens, (sequences, tokens, words), by each way."""
    model.eval()
    with torch.no_grad():
        yield "one sequence at a time", torch.cat([model(row[None]).logits for row in ids])
        yield "one token at a time", in_parts(model, ids, 1)
        yield "in two parts", in_parts(model, ids, TOKENS // 2)
        yield (
            "among other sequences",
            model(torch.cat([ids.flip(0), ids, ids + 1]) % WORDS).logits[len(ids) : 2 * len(ids)],
        )
    model.train()
    yield "training", model(ids, labels=ids).logits.detach()
    model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plain", action="store_true", help="by torch alone")
    parser.add_argument("--threads", type=int, help="default: torch's")
    args = parser.parse_args()
    if args.threads is not None:
        torch.set_num_threads(args.threads)
    if not args.plain:
        repdl.enable()
    torch.manual_seed(0)
    ids = torch.randint(WORDS, (SEQUENCES, TOKENS))
    for name, model in models():
        with torch.no_grad():
            prefill = model.eval()(ids).logits
        print(f"{name}: {prefill.numel()} logits, digest of the prefill {repdl.digest(prefill)[:16]}")
        for way, logits in ways(model, ids):
            differ = int((logits.view(torch.int32) != prefill.view(torch.int32)).sum())
            print(f"  {way}: {differ} differ")


if __name__ == "__main__":
    main()
