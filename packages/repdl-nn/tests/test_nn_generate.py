"""A decoder of texts: logits have the same bits in one pass, in pieces of a prompt, and a token at a time."""

from __future__ import annotations

import pytest
import torch

from repdl import nn
from repdl.nn import functional as F
from repdl.random import Generator

Cache = list[tuple[torch.Tensor, torch.Tensor]]
WIDTH, HEADS, LAYERS, TOKENS, LONGEST = 32, 2, 2, 50, 530


class Block(torch.nn.Module):
    """A layer of GPT-2 (https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf)."""

    def __init__(self, generator: Generator) -> None:
        super().__init__()
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, generator=generator)
        self.out = nn.Linear(WIDTH, WIDTH, generator=generator)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, generator=generator)
        self.down = nn.Linear(4 * WIDTH, WIDTH, generator=generator)

    def forward(self, x: torch.Tensor, cache: Cache | None, layer: int) -> torch.Tensor:
        batch, length, _ = x.shape
        heads = self.qkv(self.before_attention(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mask, before = None, 0
        if cache is not None:
            if layer < len(cache):
                key, value = (torch.cat(pair, 2) for pair in zip(cache[layer], (key, value)))
                cache[layer] = key, value
            else:
                cache.append((key, value))
            before = key.shape[2] - length
            mask = torch.arange(key.shape[2]) <= torch.arange(before, key.shape[2]).unsqueeze(1)
        attended = F.scaled_dot_product_attention(query, key, value, mask, is_causal=mask is None)
        x = F.add(x, self.out(attended.transpose(1, 2).reshape(x.shape)))
        return F.add(x, self.down(F.gelu(self.up(self.before_mlp(x)), approximate="tanh")))


class Decoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = Generator(3)
        self.token = nn.Embedding(TOKENS, WIDTH, generator=generator)
        self.place = nn.Embedding(LONGEST, WIDTH, generator=generator)
        self.blocks = torch.nn.ModuleList(Block(generator) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: torch.Tensor, cache: Cache | None = None) -> torch.Tensor:
        before = cache[0][0].shape[2] if cache else 0
        x = F.add(self.token(tokens), self.place(torch.arange(before, before + tokens.shape[1])))
        for layer, block in enumerate(self.blocks):
            x = block(x, cache, layer)
        return F.linear(self.norm(x), self.token.weight)

    def generate(self, tokens: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """`count` tokens after those given, the likeliest each, and the logits that they were chosen by."""
        cache: Cache = []
        logits = [self(tokens, cache)]
        for _ in range(count):
            tokens = torch.cat((tokens, logits[-1][:, -1:].argmax(-1)), 1)
            logits.append(self(tokens[:, -1:], cache))
        return tokens, torch.cat(logits, 1)


@pytest.fixture(scope="module")
def model() -> Decoder:
    return Decoder().eval()


@pytest.mark.parametrize("prompt", [1, 20, 253, 510])
@torch.no_grad()
def test_generate__has_the_logits_of_one_pass(model: Decoder, prompt: int) -> None:
    """Across the ends of chunks of 256 terms, for two texts at once and for each alone."""
    tokens = torch.randint(TOKENS, (2, prompt), generator=torch.Generator().manual_seed(1))
    texts, logits = model.generate(tokens, 9)
    assert torch.equal(model(texts), logits)
    assert torch.equal(model(texts[1:]), logits[1:])
    longer = torch.cat((texts, texts[:, :1]), 1)
    assert torch.equal(model(longer)[:, :-1], logits)


@pytest.mark.parametrize(("length", "piece"), [(40, 1), (300, 7), (300, 64), (300, 255), (300, 256), (300, 299)])
@torch.no_grad()
def test_generate__prompts_in_pieces(model: Decoder, length: int, piece: int) -> None:
    tokens = torch.randint(TOKENS, (1, length), generator=torch.Generator().manual_seed(2))
    cache: Cache = []
    assert torch.equal(torch.cat([model(part, cache) for part in tokens.split(piece, 1)], 1), model(tokens))
