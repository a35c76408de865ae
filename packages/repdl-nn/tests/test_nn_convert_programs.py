"""Ordinary models, written with functions of torch, that convert and train as they are.

Each is trained as a converted model in a program of torch, and as it is in a program under `repdl.enable()`: the same
bits.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import repdl


class Decoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.place = torch.nn.Embedding(11, 8), torch.nn.Parameter(torch.zeros(6, 8))
        self.qkv, self.out = torch.nn.Linear(8, 24), torch.nn.Linear(8, 8)
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.scale, self.shift = torch.nn.Parameter(torch.ones(8)), torch.nn.Parameter(torch.zeros(8))

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(*x.shape[:2], 2, 4).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        first = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        scores = q @ k.transpose(-2, -1) / 4**0.5
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        second = torch.softmax(scores.masked_fill(~mask, float("-inf")), -1) @ v
        return self.out((first + second).transpose(1, 2).reshape(x.shape))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.place[: tokens.shape[1]].expand(len(tokens), -1, -1)
        x = x + self.attention(F.layer_norm(x, (8,), self.scale, self.shift))
        x = x + self.down(F.gelu(self.up(F.layer_norm(x, (8,)))))
        return x @ self.embed.weight.T


class Images(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.Conv2d(4, 4, 3)
        self.norm, self.last = torch.nn.BatchNorm2d(4), torch.nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.norm(self.first(x))), 2)
        x = F.relu(self.second(x)).flatten(1)
        return F.log_softmax(self.last(x), 1)


class Sequences(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(11, 6)
        self.lstm, self.gru = torch.nn.LSTM(6, 5, batch_first=True, bidirectional=True), torch.nn.GRU(6, 5)
        self.last, self.weight = torch.nn.Linear(25, 5), torch.nn.Parameter(torch.ones(10))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = F.dropout(self.embed(tokens), 0.25, self.training)
        states, _ = self.lstm(x)
        _, last = self.gru(x.transpose(0, 1))
        mask = (tokens != 0).unsqueeze(-1)
        states = torch.where(mask, states * self.weight, torch.zeros(()))
        mean = states.sum(1) / mask.sum(1).clamp(min=1)
        return self.last(torch.cat([mean, states.mean(1), last[0]], 1))


TOKENS = (torch.arange(24) * 7 % 11).view(4, 6)
PROGRAMS: list[tuple[Callable[[], torch.nn.Module], torch.Tensor, torch.Tensor]] = [
    (Decoder, TOKENS, (TOKENS + 1) % 11),
    (Images, torch.linspace(-2, 2, 4 * 64).view(4, 1, 8, 8), torch.tensor([0, 1, 2, 4])),
    (Sequences, TOKENS, torch.tensor([0, 1, 2, 4])),
]


def prepared(make: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    model = make()
    for number, parameter in enumerate(model.parameters()):
        values = torch.arange(parameter.numel()) * 7 % (13 + number) - 6
        parameter.data = values.view_as(parameter) / 16
    return model


def trained(
    model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, loss: Callable[..., torch.Tensor]
) -> dict[str, torch.Tensor]:
    optim = pytest.importorskip("repdl.optim")
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    for _ in range(3):
        output = model(x)
        value = loss(output.flatten(0, -2), y.flatten())
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    return {"loss": value.detach(), "output": output.detach(), **model.state_dict()}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program[0].__name__)
def test_program__has_the_bits_of_enable(program: tuple[Callable[[], torch.nn.Module], torch.Tensor, torch.Tensor]):
    make, x, y = program
    model, same = repdl.from_torch_module(prepared(make)), prepared(make)
    repdl.random.manual_seed(5)
    found = trained(model, x, y, repdl.nn.functional.cross_entropy)
    with repdl.enabled():
        torch.manual_seed(5)
        expected = trained(same, x, y, F.cross_entropy)
    assert repdl.digest(found) == repdl.digest(expected), {
        name: (value - expected[name]).abs().max().item() for name, value in found.items()
    }
