"""Ordinary programs whose import lines say repdl.nn in place of torch.nn: they run, and compute the same."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import repdl

pytestmark = pytest.mark.filterwarnings("ignore:Lazy modules", "ignore:.*is deprecated")

RESNET = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.modules.batchnorm import _BatchNorm


def conv3x3(i, o, stride=1):
    return nn.Conv2d(i, o, kernel_size=3, stride=stride, padding=1, bias=False)


class Block(nn.Module):
    def __init__(self, i, o, stride=1):
        super().__init__()
        self.conv1, self.bn1 = conv3x3(i, o, stride), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = conv3x3(o, o), nn.BatchNorm2d(o)
        self.relu = nn.ReLU(inplace=True)
        self.down = nn.Identity()
        if stride != 1 or i != o:
            self.down = nn.Sequential(nn.Conv2d(i, o, 1, stride, bias=False), nn.BatchNorm2d(o))

    def forward(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(out + self.down(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        conv = nn.Conv2d(3, 8, 7, 2, 3, bias=False)
        self.stem = nn.Sequential(conv, nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.layers = nn.ModuleList([Block(8, 8), Block(8, 16, 2)])
        self.pool, self.fc = nn.AdaptiveAvgPool2d((1, 1)), nn.Linear(16, 5)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (_BatchNorm, nn.SyncBatchNorm, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)

    def forward(self, x):
        x = self.stem(x)
        for layer in self.layers:
            x = layer(x)
        return self.fc(torch.flatten(self.pool(x), 1))


def loss(model, x):
    return F.cross_entropy(model(x), torch.tensor([0, 3]), label_smoothing=0.1)


inputs = lambda: torch.linspace(-1, 1, 2 * 3 * 32 * 32).view(2, 3, 32, 32).sin()
"""

GPT = """
import torch
from torch import nn
from torch.nn import functional as F, Parameter


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn = Attention(width, heads)
        fc, out = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.mlp = nn.ModuleDict(dict(fc=fc, act=nn.GELU("tanh"), out=out))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp.out(self.mlp.act(self.mlp.fc(self.ln_2(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(11, 16)
        self.wpe = Parameter(torch.zeros(8, 16))
        self.h = nn.Sequential(*[Block(16, 2) for _ in range(2)])
        self.ln_f, self.lm_head = nn.LayerNorm(16), nn.Linear(16, 11, bias=False)
        self.lm_head.weight = self.wte.weight
        nn.init.normal_(self.wpe, std=0.02)
        self.apply(self._init)

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, mean=0.0, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens):
        return self.lm_head(self.ln_f(self.h(self.wte(tokens) + self.wpe)))


def loss(model, tokens):
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


inputs = lambda: (torch.arange(18) * 5 % 11).view(2, 9)
"""

SEQ2SEQ = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(10, 6, padding_idx=0)
        self.encoder = nn.LSTM(6, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.bridge, self.decoder = nn.Linear(16, 8), nn.LSTMCell(6, 8)
        self.score, self.out = nn.Bilinear(8, 16, 1), nn.Linear(24, 10)
        for name, parameter in self.named_parameters():
            if "weight_hh" in name:
                nn.init.orthogonal_(parameter)

    def forward(self, source, lengths, target):
        packed = pack_padded_sequence(self.embed(source), lengths, batch_first=True, enforce_sorted=False)
        memory, (h, c) = self.encoder(packed)
        memory, _ = pad_packed_sequence(memory, batch_first=True)
        state = tuple(F.tanh(self.bridge(torch.cat([s[-2], s[-1]], 1))) for s in (h, c))
        outputs = []
        for step in self.embed(target).unbind(1):
            state = self.decoder(step, state)
            query = state[0].unsqueeze(1).repeat(1, memory.shape[1], 1)
            weights = F.softmax(self.score(query, memory).squeeze(-1), dim=1)
            outputs.append(self.out(torch.cat([state[0], torch.bmm(weights.unsqueeze(1), memory).squeeze(1)], 1)))
        return torch.stack(outputs, 1)


def loss(model, sequences):
    lengths = torch.tensor([len(s) for s in sequences])
    source = pad_sequence(sequences, batch_first=True)
    target = source[:, :3]
    return F.nll_loss(F.log_softmax(model(source, lengths, target), -1).transpose(1, 2), target, ignore_index=0)


inputs = lambda: [torch.tensor([1, 2, 3]), torch.tensor([4, 5, 6, 7, 8]), torch.tensor([9, 1]), torch.tensor([3, 2, 1])]
"""

VAE = """
import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.LazyConv2d(8, 3, 2, 1), nn.LazyBatchNorm2d(), nn.LeakyReLU(0.2), nn.Flatten(), nn.LazyLinear(2 * 3)
        )
        self.decoder = nn.Sequential(
            nn.Linear(3, 8 * 16), nn.Unflatten(1, (8, 4, 4)), nn.ConvTranspose2d(8, 8, 3, 2, 1, 1), nn.Softplus(),
            nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(8, 4, 3, padding="same", padding_mode="reflect"),
            nn.PixelShuffle(2), nn.AvgPool2d(2), nn.AvgPool2d(2), nn.Sigmoid(),
        )

    def forward(self, x):
        mean, logvar = self.encoder(x).chunk(2, 1)
        return self.decoder(mean + torch.exp(0.5 * logvar)), mean, logvar


def loss(model, x):
    output, mean, logvar = model(x)
    kl = -0.5 * torch.sum(1 + logvar - mean.pow(2) - logvar.exp())
    return F.binary_cross_entropy(output, x, reduction="sum") + kl


inputs = lambda: (torch.arange(2 * 64) % 9 / 8.0).view(2, 1, 8, 8)
"""

DCGAN = """
import torch
import torch.nn as nn
import torch.nn.parallel
from torch.nn.utils import spectral_norm
from torch.nn.utils.parametrizations import weight_norm


def weights_init(m):
    classname = m.__class__.__name__
    if classname.find("Conv") != -1:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif classname.find("BatchNorm") != -1:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(
            nn.ConvTranspose2d(5, 8, 4, 1, 0, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
            nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False), nn.Tanh(),
        )
        self.generator.apply(weights_init)
        self.critic = nn.Sequential(
            spectral_norm(nn.Conv2d(1, 8, 4, 2, 1, bias=False)), nn.LeakyReLU(0.2, inplace=True),
            nn.Dropout2d(0.0), weight_norm(nn.Conv2d(8, 1, 4, 1, 0, bias=False)), nn.Flatten(0),
        )

    def forward(self, noise):
        return self.critic(self.generator(noise))


def loss(model, noise):
    model = model.module if isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)) else model
    criterion = nn.BCEWithLogitsLoss()
    fake = model.generator(noise)
    return criterion(model.critic(fake), torch.ones(3)) + criterion(model.critic(fake.detach()), torch.zeros(3))


inputs = lambda: torch.linspace(-1, 1, 15).view(3, 5, 1, 1)
"""

FORECAST = """
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parameter import Parameter
from torch.nn.utils.parametrizations import orthogonal


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tcn = nn.Sequential(nn.ConstantPad1d((2, 0), 0.0), nn.Conv1d(2, 8, 3), nn.GLU(1), nn.GroupNorm(2, 4))
        self.gru = nn.GRU(4, 6, batch_first=True)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, 12, 0.0, batch_first=True), 1)
        self.mix = orthogonal(nn.Linear(6, 6))
        self.prototypes = nn.ParameterList([Parameter(torch.ones(6)) for _ in range(2)])
        self.scale = nn.ParameterDict({"a": Parameter(torch.full((1,), 0.5))})
        self.head = nn.utils.skip_init(nn.Linear, 6, 3)
        self.head.reset_parameters()

    def forward(self, x):
        h = self.tcn(x).transpose(1, 2)
        h = self.mix(self.encoder(self.gru(h)[0]))[:, -1]
        h = F.layer_norm(h, (6,)) * self.prototypes[0] + self.prototypes[1]
        return self.head(F.normalize(F.dropout(h, 0.5, training=False), dim=-1))


def loss(model, x):
    return F.smooth_l1_loss(model(x), torch.zeros(4, 3)) + nn.HuberLoss()(F.hardswish(model(x)), torch.ones(4, 3))


inputs = lambda: torch.linspace(0, 9, 4 * 2 * 7).view(4, 2, 7).cos()
"""

PROGRAMS = {"resnet": RESNET, "gpt": GPT, "seq2seq": SEQ2SEQ, "vae": VAE, "dcgan": DCGAN, "forecast": FORECAST}
_BROADCAST = "aten.sum.dim_IntList"  # the gradient of what torch's own + and * repeat
TORCHS = {
    "gpt": {_BROADCAST},
    "seq2seq": {_BROADCAST, "aten.bmm.default"},
    "vae": {"aten.exp.default", "aten.sum.default"},
    "forecast": {_BROADCAST},
}
"""What of a program the import line does not reach: torch's own functions, which an audit shows."""


def _run(source: str, package: str) -> dict[str, Any]:
    """The names of a program whose import lines say `package`."""
    lines = re.sub(r"^(import|from) torch\.nn", rf"\1 {package}.nn", source, flags=re.M)
    lines = re.sub(r"^from torch import nn", f"from {package} import nn", lines, flags=re.M)
    names: dict[str, Any] = {"__name__": f"program_{package}"}
    exec(compile(lines, f"<{package}>", "exec"), names)
    return names


def _trained(names: dict[str, Any], model: torch.nn.Module, utils: Any, steps: int = 2) -> list[float]:
    """Losses of training, gradients clipped."""
    losses = []
    for _ in range(steps):
        model.zero_grad()
        loss = names["loss"](model, names["inputs"]())
        loss.backward()
        utils.clip_grad_norm_(model.parameters(), 1.0)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter -= 0.1 * parameter.grad
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs__import_repdl_nn_as_torch_nn(name):
    """From one seed one digest, losses as torch's from the same initial values, and layers of RepDL alone."""
    program, theirs = _run(PROGRAMS[name], "repdl"), _run(PROGRAMS[name], "torch")
    digests, losses = set(), []
    for noise in (1, 2):
        repdl.random.manual_seed(0)
        torch.rand(noise)
        model = program["Model"]()
        if name == "vae":
            program["loss"](model.eval(), program["inputs"]())  # lazy layers take their sizes
            model.train()
        state = {key: value.clone() for key, value in model.state_dict().items()}
        losses = _trained(program, model, repdl.nn.utils)
        digests.add(repdl.digest(model))
    assert len(digests) == 1
    assert losses[-1] < losses[0] or name == "dcgan"
    kinds = {type(m) for m in model.modules() if type(m).__module__.startswith("torch.nn.modules")}
    assert {kind.__name__ for kind in kinds} <= {
        *("Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Identity", "Flatten"),
        *("Unflatten", "PixelShuffle"),
    }
    other = theirs["Model"]()
    if name == "vae":
        theirs["loss"](other.eval(), theirs["inputs"]())
        other.train()
    other.load_state_dict(state)
    expected = _trained(theirs, other, torch.nn.utils)
    assert losses == pytest.approx(expected, rel=1e-3)
    inputs = program["inputs"]()
    report = repdl.audit(lambda: program["loss"](model, inputs))
    assert {row.op for row in report.refused} == TORCHS.get(name, set()), report
