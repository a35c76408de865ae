"""What READMEs and docstrings claim: what code prints, what is covered, which models convert, which text says it."""

from __future__ import annotations

import contextlib
import inspect
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from torch import nn

import repdl
from repdl.callcache import c_extension
from repdl.errors import UnsupportedError
from repdl.nn.modules import Layer
from repdl.registry import OPS
from repdl.testing import processes

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
COVERED_PAGE = (ROOT / "docs/reference/covered.md").read_text()
READMES = {str(p.relative_to(ROOT)): p.read_text() for p in (ROOT / "README.md", *ROOT.glob("packages/*/README.md"))}


def blocks(text: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def output(code: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as stream, repdl.random.fork_rng(), torch.random.fork_rng():
        try:
            exec(code, {"__name__": "__main__"})
        finally:
            repdl.disable()
    return stream.getvalue()


def rows(header: str) -> dict[str, str]:
    """First cell -> second of the table of the page with that header."""
    table = COVERED_PAGE.split(f"\n{header}\n")[1].split("\n\n")[0]
    return {cells[1].strip(): cells[2].strip() for cells in (line.split("|") for line in table.splitlines()[1:])}


def names(text: str) -> list[str]:
    return re.findall(r"`([A-Za-z_]\w*)`", text)


def printed(code: str) -> str:
    """What the last line says that it prints."""
    return code.rpartition("# ")[2].strip()


# The first snippets.

FIRST = blocks(README)[:2]


@pytest.mark.parametrize("code", FIRST)
def test_docs__first_snippets_print_what_they_say(code: str) -> None:
    assert re.fullmatch("[0-9a-f]{64}", printed(code))
    assert output(code).strip() == printed(code)
    with repdl.use_backend("reference"):
        assert output(code).strip() == printed(code)


@pytest.mark.parametrize("level", ["default", "avx512"])
def test_docs__snippet_of_random_numbers_prints_what_it_says(level: str) -> None:
    (code,) = [block for block in blocks(README) if "seed_everything" in block]
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": level}
    done = processes.python("-c", code, environment=environment)
    assert done.stdout.strip() == printed(code), done.stderr


@pytest.mark.parametrize("code", FIRST)
@pytest.mark.parametrize("seed", [0, 1])
def test_docs__first_snippets_do_not_depend_on_torchs_numbers(seed: int, code: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        assert output(code).strip() == printed(code)


@pytest.mark.parametrize("code", FIRST)
def test_docs__first_snippets_on_a_processor_that_torch_takes_for_another(code: str) -> None:
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": "default", "REPDL_CPU_ISA": "baseline"}
    done = processes.python("-c", code, environment=environment)
    assert done.stdout.strip() == printed(code), done.stderr


@pytest.mark.parametrize("name", READMES)
def test_docs__snippets_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for code in blocks(READMES[name]):
        output(code)


PAGES = [ROOT / "docs" / f"{name}.md" for name in ("index", "get-started")]
PAGES += [
    path
    for name in ("tutorials", "howto", "background", "reference", "internals")
    for path in sorted((ROOT / "docs" / name).glob("*.md"))
]


def run_page(page: str) -> None:
    """The blocks of a page in turn, in one namespace; `print(...)  # text` says what it prints."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for code in blocks(page):
        said = re.findall(r"^print\(.*\)  # (.*)$", code, re.MULTILINE)
        with contextlib.redirect_stdout(io.StringIO()) as stream:
            exec(code, namespace)
        assert not said or stream.getvalue().splitlines() == said, code


OF_OTHERS = {"fine-tune": ("transformers", "accelerate")}
"""Packages that a page needs."""
NIGHTLY = [pytest.param(p, marks=pytest.mark.nightly) if p.stem in OF_OTHERS else p for p in PAGES]


@pytest.mark.parametrize("path", NIGHTLY, ids=lambda path: path.relative_to(ROOT / "docs").with_suffix("").as_posix())
def test_docs__pages_print_what_they_say(path: Path) -> None:
    for package in OF_OTHERS.get(path.stem, ()):
        pytest.importorskip(package, reason="installed by `nox -s nightly`")
    if path.stem == "call-cache" and c_extension() is None:
        pytest.skip("there is no call cache: REPDL_CALL_CACHE is 0, or torch < 2.10 has no DLPack exchange API")
    with repdl.random.fork_rng(), torch.random.fork_rng():
        try:
            run_page(path.read_text())
        finally:
            repdl.disable()


def test_docs__a_page_that_prints_something_else_is_noticed() -> None:
    with pytest.raises(AssertionError):
        run_page("```python\nprint(1 + 1)  # 3\n```")


# The pages about the code: what they name is there.

INTERNALS = [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs/internals").glob("*.md"))]
FOLDERS = "packages", "tests", "tools", "docs", "benchmarks", "examples"
NAMED = re.compile(r"`(?P<path>[\w./-]+\.(?:py|hpp|cpp|cu|cmake|json|md)|[\w./-]+/)(?::(?P<name>\w+))?`")
DEFINED = r"(?:\b(?:def|class|struct)\s+{0}\b|\b{0}\s*\(|^{0}\s*[:=])"


def sources() -> dict[str, Path]:
    """Files and folders of the checkout by their paths, those of a folder with a slash at the end."""
    found = {f"/{top}/": ROOT / top for top in FOLDERS}
    for top in FOLDERS:
        for folder, inner, files in os.walk(ROOT / top):
            inner[:] = [name for name in inner if name not in ("__pycache__", "build", "_skbuild", "generated")]
            for name in (*files, *(f"{name}/" for name in inner)):
                path = os.path.join(folder, name)
                found["/" + os.path.relpath(path, ROOT) + ("/" if name.endswith("/") else "")] = Path(path)
    return found


def unknown(page: str, known: Mapping[str, Path]) -> list[str]:
    """The files, folders and names in files that a page has and the checkout has not. `core/` is that of repdl."""
    missing = []
    for found in NAMED.finditer(re.sub(r"```.*?```", "", page, flags=re.DOTALL)):
        path = re.sub("^core/", "packages/repdl-core/src/repdl/", found["path"])
        files = [file for name, file in known.items() if name.endswith("/" + path)]
        defined = re.compile(DEFINED.format(found["name"]), re.MULTILINE)
        if not files or (found["name"] and not any(defined.search(file.read_text()) for file in files)):
            missing.append(found[0])
    return missing


def test_docs__internals_name_what_is_there() -> None:
    known = sources()
    for page in INTERNALS:
        missing = unknown(page.read_text(), known)
        assert not missing, f"{page.relative_to(ROOT)} names {missing}, which the checkout does not have"
    assert unknown("`registry/define.py:define` `nowhere.py` `registry/define.py:nothing` `repdl/nowhere/`", known) == [
        *("`nowhere.py`", "`registry/define.py:nothing`", "`repdl/nowhere/`")
    ]


def test_docs__internals_are_short() -> None:
    for page in INTERNALS:
        for paragraph in re.split(r"\n\n|\n(?=- |\d\. |\|)", page.read_text()):
            assert len(paragraph.split()) <= 120, f"{page.relative_to(ROOT)}: {paragraph[:60]}..."
    assert len(INTERNALS[0].read_text().split()) <= 900, "ARCHITECTURE.md is one page: docs/internals has the rest"


def test_docs__snippets_about_torchs_ops_run() -> None:
    for code in blocks((ROOT / "docs/torch-ops.md").read_text()):
        assert "2 findings not reproducible" in output(code)


@pytest.mark.parametrize("name", READMES)
def test_docs__installs_from_folders_that_exist(name: str) -> None:
    """Nothing is on an index: `pip install repdl-...` would find nothing, or a stranger's."""
    lines = re.findall(r"^pip install ([^#&\n]*)", READMES[name], re.MULTILINE)
    assert lines
    for line in lines:
        for word in line.split():
            assert word == "nox" or (ROOT / word / "pyproject.toml").is_file(), f"{name}: pip install {line}"
    assert "not on an index" in READMES[name]


# The table of what is covered.

COVERED = rows("| part | covered |")


def test_docs__every_function_is_in_the_table_and_every_name_exists() -> None:
    functions = set(repdl.ops.__all__)
    listed: list[str] = []
    for part, cell in COVERED.items():
        found = names(cell)
        options = {p for f in functions & set(found) for p in inspect.signature(getattr(repdl.ops, f)).parameters}
        options |= {"decoupled_weight_decay"} if part.startswith("optimizers") else set()
        known = functions | set(repdl.nn.__all__) | set(repdl.optim.__all__) | options
        assert set(found) <= known, f"{part}: {set(found) - known}"
        listed += [f for f in found if f in functions]
    missing = functions - set(listed)
    assert not missing, f"docs/reference/covered.md does not name {sorted(missing)}"
    assert len(listed) == len(set(listed)), "named twice"


def test_docs__every_function_takes_float64() -> None:
    """As the page says."""
    assert not [op.name for op in OPS.values() if op.storage and torch.float64 not in op.storage.dtypes.supported]


def test_docs__every_exact_function_is_proven_on_all_arguments() -> None:
    """Each has its lines in the table, without hardware FMA and with it, of one hash."""
    text = (ROOT / "docs/correctly-rounded-functions.md").read_text()
    proven = re.findall(rf"^\| (\w+) \| (x86-64|x86-64-v3) \| {2**32} \| \d+ \| 0 \| (\w+) \|", text, re.MULTILINE)
    (part,) = (part for part in COVERED if "correctly-rounded-functions.md" in part)
    exact = [name for name in names(COVERED[part]) if name != "pow"]
    assert len(exact) >= 13
    for name in exact:
        lines = {build: digest for function, build, digest in proven if function == name}
        assert lines.keys() == {"x86-64", "x86-64-v3"} and len(set(lines.values())) == 1, name


def layers() -> set[str]:
    classes = {name: getattr(repdl.nn, name) for name in repdl.nn.__all__}
    return {n for n, c in classes.items() if isinstance(c, type) and issubclass(c, Layer) and c is not Layer}


def test_docs__layers_and_optimizers() -> None:
    assert set(names(COVERED["layers (repdl-nn)"])) - {"Flatten", "from_torch_module"} == layers()
    optimizers = {n for n in repdl.optim.__all__ if isinstance(getattr(repdl.optim, n), type)}
    others = {"decoupled_weight_decay", *(op.name for op in OPS.values() if op.mutates)}
    assert set(names(COVERED["optimizers (repdl-optim)"])) - others == optimizers
    table = READMES["packages/repdl-nn/README.md"].split("| family | layers |")[1].split("\n\n")[0]
    torchs = {"Sequential", "ModuleList", "ModuleDict", "Flatten", "Unflatten", "Identity"}
    assert set(names(table)) == layers() | torchs


# The contract: pages, and those that docstrings cite.


def test_docs__pages_are_what_the_registry_says() -> None:
    command = [sys.executable, str(ROOT / "tools/texts.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_docs__packages_import_their_modules(tmp_path: Path) -> None:
    """Nobody writes the line of a new module by hand, and none is missing."""
    command = [sys.executable, str(ROOT / "tools/imports.py")]
    done = subprocess.run([*command, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    names = "repdl-core/src/repdl/ops", "repdl-nn/src/repdl/nn/modules", "repdl-optim/src/repdl/optim"
    folders = [tmp_path / "packages" / name for name in names]
    for name, folder in zip(names, folders):
        shutil.copytree(ROOT / "packages" / name, folder)
        (folder / "brand_new.py").write_text('__all__ = ["brand_new"]\n')
        (folder / "_private.py").write_text('__all__ = ["private"]\n')
        (folder / "no_names.py").write_text("")
    assert subprocess.run([*command, "--check", "--root", str(tmp_path)], check=False).returncode == 1
    subprocess.run([*command, "--root", str(tmp_path)], check=True)
    for name, folder in zip(names, folders):
        before = (ROOT / "packages" / name / "__init__.py").read_text().splitlines()
        added = set((folder / "__init__.py").read_text().splitlines()) - set(before)
        assert added == {f"from {name.partition('/src/')[2].replace('/', '.')}.brand_new import *"}


TEXTS = {path.stem: path.read_text() for path in (ROOT / "packages/repdl-core/src/repdl/contract/v1").glob("*.md")}


@pytest.mark.parametrize("name", ["repdl-core", "repdl-nn", "repdl-optim", "repdl-cpu", "repdl-cuda"])
def test_docs__every_contract_that_is_cited_exists(name: str) -> None:
    for path in (ROOT / "packages" / name / "src").rglob("*.py"):
        for cited, version in re.findall(r"Contract: (\w+) (v\d)\b", path.read_text()):
            assert version == "v1" and cited in TEXTS, f"{path.relative_to(ROOT)} cites {cited} {version}"


def test_docs__functions_cite_the_text_of_their_op() -> None:
    for name in repdl.ops.__all__:
        (cited,) = re.findall(r"Contract: (\w+) v1", getattr(repdl.ops, name).__doc__)
        assert (cited == OPS[name].family) if name in OPS else f"{name}(" in TEXTS[cited], f"{name} cites {cited}"


def test_docs__layers_cite_the_text_of_what_they_call() -> None:
    for name in layers():
        layer = getattr(repdl.nn, name)
        (cited,) = re.findall(r"Contract: (\w+) v1", layer.__doc__)
        methods = [method for base in layer.__mro__ if issubclass(base, Layer) for method in vars(base).values()]
        called = {n for method in methods if inspect.isfunction(method) for n in method.__code__.co_names}
        called.add(getattr(layer, "_function", ""))
        texts = [getattr(repdl.ops, n).__doc__ for n in called & set(repdl.ops.__all__)]
        if layer.__module__.endswith(".transformer"):  # its parts call what it cites
            continue
        registered = {OPS[n].family for n in called & OPS.keys()}
        cites = cited in registered or any(f"Contract: {cited} v1" in text for text in texts)
        assert cites, f"{name} cites {cited}, calls {called}"


# Which models convert.


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.norm(self.conv(x))
        out += x
        return self.relu(out)


def resnet() -> nn.Module:
    stem = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*stem, Residual(4), Residual(4), nn.AdaptiveAvgPool2d((1, 1)), nn.Flatten(), nn.Linear(4, 3))


class SqueezeExcitation(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool, self.gate = nn.AdaptiveAvgPool2d(1), nn.Sigmoid()
        self.fc1, self.act, self.fc2 = nn.Conv2d(channels, 2, 1), nn.SiLU(), nn.Conv2d(2, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return repdl.ops.mul(x, self.gate(self.fc2(self.act(self.fc1(self.pool(x))))))


def efficientnet() -> nn.Module:
    block = [nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.BatchNorm2d(4), nn.SiLU(), SqueezeExcitation(4)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(4, 3)]
    return nn.Sequential(nn.Conv2d(1, 4, 3, 2), nn.BatchNorm2d(4), nn.SiLU(), *block, *head)


class Inverted(nn.Module):
    """An inverted residual block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        wide = 2 * channels
        expand = [nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True)]
        depthwise = [nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(True)]
        self.conv = nn.Sequential(
            *expand, *depthwise, nn.Conv2d(wide, channels, 1, bias=False), nn.BatchNorm2d(channels)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(x)


def mobilenet() -> nn.Module:
    stem = [nn.Conv2d(1, 4, 3, 2, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU6(inplace=True)]
    return nn.Sequential(*stem, Inverted(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(4, 3))


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.pool = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU()), nn.MaxPool2d(2)
        self.middle, self.up = nn.Conv2d(4, 6, 3, padding=1), nn.ConvTranspose2d(6, 4, 2, stride=2)
        self.last, self.head = nn.Conv2d(8, 3, 3, padding=1), nn.AdaptiveAvgPool2d(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        down = self.down(x)
        joined = torch.cat([self.up(self.middle(self.pool(down))), down], dim=1)
        return self.head(self.last(joined)).flatten(1)


class Transformer(nn.Module):
    """Pixels of 17 greys are tokens; the first attends to those before it, the second to all."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(17, 4, padding_idx=0), nn.Embedding(16, 4)
        self.attention, self.norm = nn.MultiheadAttention(4, 2, dropout=0.1, batch_first=True), nn.LayerNorm(4)
        self.encoder, self.head = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), nn.Linear(64, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        at = (images[:, 0, ::2, ::2] * 16).long().flatten(1)
        x = self.tokens(at) + self.places(torch.arange(16).expand_as(at))
        causal = torch.ones(16, 16, dtype=torch.bool).triu(1)
        x = self.norm(x + self.attention(x, x, x, need_weights=False, attn_mask=causal)[0])
        return self.head(self.encoder(x).flatten(1))


def vgg(*classifier: nn.Module) -> nn.Module:
    features = [nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)]
    features += [nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*features, *classifier, nn.Linear(6 * 2 * 2, 8), nn.ReLU(), nn.Linear(8, 3))


def lenet() -> nn.Module:
    head = [nn.Flatten(), nn.Linear(6 * 2 * 2, 8), nn.ReLU(), nn.Linear(8, 3)]
    convs = [nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(4, 6, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*convs, nn.MaxPool2d(2), *head)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


class Recurrent(nn.Module):
    """Rows of an image as the steps of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 6, num_layers=2, batch_first=True, bidirectional=True, dropout=0.1)
        self.gru = nn.GRU(12, 5, batch_first=True)
        self.head = nn.Linear(5, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        _, hidden = self.gru(self.lstm(images.squeeze(1))[0])
        return self.head(hidden[0])


# The layers of the models that don't convert; shapes do not matter.
MODELS: dict[str, Callable[[], nn.Module]] = {
    "MLP, also with batch normalisation": mlp,
    "LeNet": lenet,
    "VGG with batch normalisation and dropout, without its adaptive pooling": lambda: vgg(nn.Flatten(), nn.Dropout()),
    "ResNet as torchvision has it": resnet,
    "VGG as torchvision has it": lambda: vgg(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout()),
    "MobileNet": mobilenet,
    "EfficientNet whose squeeze and excitation multiplies with `repdl.ops.mul`": efficientnet,
    "U-Net": UNet,
    "Transformer: BERT, GPT, ViT": Transformer,
    "LSTM, GRU": Recurrent,
}
CONVERTS = rows("| model | converts |")


def test_docs__every_model_is_tried() -> None:
    assert CONVERTS.keys() == MODELS.keys()


def trained(build: Callable[[], nn.Module], threads: int) -> str:
    """The digest of a converted model after two steps on images of 8 by 8."""
    model, passive = repdl.from_torch_module(build()), nn.Flatten
    assert all(isinstance(m, Layer) or list(m.children()) or isinstance(m, passive) for m in model.modules())
    for number, parameter in enumerate(model.parameters()):
        parameter.data = ((torch.arange(parameter.numel()) * 7 % 23 - 11 + number % 3) / 32).view_as(parameter)
    images, target = (torch.arange(5 * 64) * 5 % 17 / 16).view(5, 1, 8, 8), torch.arange(5) % 3
    optimizer, before = repdl.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), repdl.get_num_threads()
    repdl.set_num_threads(threads)
    repdl.random.default_generator.manual_seed(0)
    try:
        for _ in range(2):
            optimizer.zero_grad()
            repdl.ops.cross_entropy(model(images), target).backward()
            optimizer.step()
    finally:
        repdl.set_num_threads(before)
    return repdl.digest(model)


@pytest.mark.parametrize("model", [model for model, says in CONVERTS.items() if says == "yes"])
def test_docs__converts_and_trains(model: str) -> None:
    digest = trained(MODELS[model], 1)
    assert digest == trained(MODELS[model], 3)
    with repdl.use_backend("reference"):
        assert digest == trained(MODELS[model], 1)


@pytest.mark.parametrize("model", [model for model, says in CONVERTS.items() if says != "yes"])
def test_docs__does_not_convert(model: str) -> None:
    with pytest.raises(UnsupportedError) as raised:
        repdl.from_torch_module(MODELS[model]())
    refused = re.findall(r"^  .*: (\w+), ", str(raised.value), re.MULTILINE)
    assert CONVERTS[model].startswith("no: ") and set(refused) == set(names(CONVERTS[model])), raised.value
