"""repdl.nn in the place of torch.nn: every public name is there, or an error says why not."""

from __future__ import annotations

import importlib
import pickle
from types import ModuleType

import pytest
import torch

import repdl
from repdl import nn
from repdl.errors import UnsupportedError
from repdl.nn import left_out

MODULES = (
    "nn",
    "nn.functional",
    "nn.init",
    "nn.modules",
    "nn.parallel",
    "nn.parameter",
    "nn.utils",
    "nn.utils.parametrizations",
    "nn.utils.parametrize",
    "nn.utils.prune",
    "nn.utils.rnn",
    "nn.utils.stateless",
)


def _public(module: ModuleType) -> list[str]:
    return [name for name in dir(module) if not name.startswith("_")]


@pytest.mark.parametrize("module", MODULES)
def test_names__each_of_torchs_is_there_or_says_why(module):
    """The interface, which is what torch itself defines there, is there or in the table, with a reason of its own."""
    torchs, ours = importlib.import_module(f"torch.{module}"), importlib.import_module(f"repdl.{module}")
    unknown = []
    for name in _public(torchs):
        if hasattr(ours, name):
            continue
        if not hasattr(ours, "__getattr__"):  # a module of which torch's __all__ is the interface
            if name in getattr(torchs, "__all__", []):
                unknown.append(name)
            continue
        with pytest.raises(left_out.LeftOutError, match=name) as raised:
            getattr(ours, name)
        assert str(raised.value).startswith(f"repdl.{module}.{name}: ")
        known = name in left_out.NAMES.get(module, {}) or isinstance(getattr(torchs, name), ModuleType)
        if left_out.is_interface(torchs, name) and not known:
            unknown.append(name)
    assert not unknown


def test_names__reasons_are_needed():
    """Nothing stands in the tables that is there, or that torch never had."""
    for module, names in left_out.NAMES.items():
        ours = importlib.import_module(f"repdl.{module}")
        assert not [name for name in names if hasattr(ours, name)]
    assert all(
        hasattr(torch.nn, name) or hasattr(torch.nn.parallel, name)
        for name in left_out.CLASSES.keys()
        - {
            "LinearCrossEntropyLoss"  # which an older torch lacks
        }
    )


def test_names__none_is_torchs_arithmetic():
    """What repdl.nn shares with torch.nn are containers, layers that move data, and types; of its functions, none."""
    same = {name for name in _public(torch.nn) if getattr(nn, name, None) is getattr(torch.nn, name)}
    assert {name for name in same if isinstance(getattr(nn, name), type)} == {
        *("Buffer", "ChannelShuffle", "Container", "Flatten", "Identity", "Module", "ModuleDict", "ModuleList"),
        *("Parameter", "ParameterDict", "ParameterList", "PixelShuffle", "PixelUnshuffle", "Sequential", "Unflatten"),
        *("UninitializedBuffer", "UninitializedParameter"),
    }
    functions = nn.functional, torch.nn.functional
    shared = {
        name for name in _public(functions[1]) if getattr(functions[0], name, None) is getattr(*functions[1:], name)
    }
    assert {name for name in shared if callable(getattr(functions[0], name))} - {"Tensor"} == {*nn.functional.MOVES}


def test_names__neither_has_it():
    for module in ("nn", "nn.functional", "nn.utils", "nn.init", "nn.parallel"):
        with pytest.raises(AttributeError, match=f"module 'repdl.{module}' has no attribute 'nonsense'"):
            getattr(importlib.import_module(f"repdl.{module}"), "nonsense")  # noqa: B009
    assert not hasattr(nn, "_private") and not hasattr(nn.functional, "conv_tbc")


def test_left_out__classes_are_asked_for_and_never_made():
    """`isinstance` works as in programs that convert or initialise modules by kind; torch's code is never reached."""
    across, base = nn.CrossMapLRN2d, nn.RNNBase
    assert isinstance(torch.nn.CrossMapLRN2d(2), across) and not isinstance(nn.LocalResponseNorm(2), across)
    assert isinstance(nn.LSTM(1, 1), base) and issubclass(nn.GRU, base) and isinstance(nn.GRUCell(1, 1), nn.RNNCellBase)
    assert not isinstance(nn.Linear(1, 1), (nn.DataParallel, nn.parallel.DistributedDataParallel))
    assert nn.DataParallel is nn.parallel.DataParallel
    with pytest.raises(UnsupportedError, match="is left out; LocalResponseNorm computes the same"):
        across(2)
    with pytest.raises(UnsupportedError, match="base of RNN, LSTM and GRU"):
        type("Mine", (base,), {})


def test_modules__have_torchs_private_bases():
    from repdl.nn.common_types import _size_2_t
    from repdl.nn.modules.batchnorm import _BatchNorm
    from repdl.nn.modules.conv import _ConvNd
    from repdl.nn.modules.loss import _Loss, _WeightedLoss
    from repdl.nn.modules.utils import _pair

    assert isinstance(nn.BatchNorm2d(2), _BatchNorm) and isinstance(nn.Conv2d(1, 1, 1), _ConvNd)
    assert isinstance(nn.MSELoss(), _Loss) and isinstance(nn.NLLLoss(), _WeightedLoss)
    assert _pair(3) == (3, 3) and _size_2_t is not None and nn.modules.utils._pair is _pair


def test_functional__in_place():
    """The function of the same name, written into its argument."""
    values = {"hardtanh_": (-0.5, 0.5), "leaky_relu_": (0.2,), "rrelu_": (0.1, 0.3), "threshold_": (0.1, 2.0)}
    for name in nn.functional.IN_PLACE:
        x = torch.arange(-8, 8) / 8
        expected = getattr(nn.functional, name[:-1])(x, *values.get(name, ()))
        output = getattr(nn.functional, name)(x, *values.get(name, ()))
        assert output is x and torch.equal(x, expected), name
        assert torch.allclose(
            expected, getattr(torch.nn.functional, name[:-1])(torch.arange(-8, 8) / 8, *values.get(name, ()))
        )


def test_functional__with_indices_and_upsample():
    x = torch.arange(64.0).reshape(1, 1, 4, 4, 4).sin()
    for name in nn.functional.WITH_INDICES:
        dims = int(name[-len("d_with_indices") - 1])
        image = x.flatten(2, 4 - dims + 1) if dims < 3 else x
        ours, theirs = getattr(nn.functional, name)(image, 2), getattr(torch.nn.functional, name)(image, 2)
        assert all(map(torch.equal, ours, theirs)), name
    image = x[:, 0]
    for name, options in (("upsample", {"mode": "nearest"}), ("upsample_nearest", {}), ("upsample_bilinear", {})):
        with pytest.warns(UserWarning, match=f"{name} is deprecated"):
            ours = getattr(nn.functional, name)(image, scale_factor=2, **options)
        mode = {"mode": "bilinear", "align_corners": True} if name.endswith("bilinear") else {"mode": "nearest"}
        assert torch.equal(ours, nn.functional.interpolate(image, scale_factor=2, **mode))


def test_init__deprecated_names():
    a, b = torch.empty(3, 4), torch.empty(3, 4)
    for name in ("uniform", "xavier_normal", "kaiming_uniform", "orthogonal"):
        with pytest.warns(FutureWarning, match=f"{name} is deprecated"):
            getattr(nn.init, name)(a, generator=repdl.random.Generator(1))
        getattr(nn.init, name + "_")(b, generator=repdl.random.Generator(1))
        assert torch.equal(a, b)


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_lazy__become_layers_and_draw_from_the_generator():
    shapes = {"Linear": (2, 3), "1d": (2, 3, 5), "2d": (2, 3, 5, 5), "3d": (2, 3, 5, 5, 5)}
    for name in (n for n in _public(torch.nn) if n.startswith("Lazy")):
        target = getattr(nn, name.removeprefix("Lazy"))
        shape = shapes["Linear"] if name == "LazyLinear" else shapes[name[-2:]]
        args = (4,) if name == "LazyLinear" else (4, 2) if "Conv" in name else ()
        layer = getattr(nn, name)(*args, contract="sequential", generator=repdl.random.Generator(3))
        assert isinstance(layer, target) and layer.contract == "sequential"
        output = layer(torch.ones(shape))
        assert type(layer) is target and layer.contract == "sequential"
        sizes = (3, *args) if args else (3,)
        options = {"affine": True, "track_running_stats": True} if "Norm" in name else {}  # torch's lazy defaults
        eager = target(*sizes, **options, contract="sequential", generator=repdl.random.Generator(3))
        assert torch.equal(output, eager(torch.ones(shape))) and layer.state_dict().keys() == eager.state_dict().keys()
        assert all(torch.equal(a, b) for a, b in zip(layer.state_dict().values(), eager.state_dict().values())), name
        assert type(pickle.loads(pickle.dumps(layer))) is target
        theirs = getattr(torch.nn, name)(*args)
        theirs.load_state_dict(eager.state_dict())


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_lazy__converts_before_its_first_input():
    """The initial values are then RepDL's too, if its generator is seeded; those of a state stay."""
    model = torch.nn.Sequential(
        torch.nn.LazyConv2d(4, 3), torch.nn.LazyBatchNorm2d(), torch.nn.Flatten(), torch.nn.LazyLinear(2)
    )
    x = (torch.arange(2 * 3 * 25) % 7 / 8).reshape(2, 3, 5, 5)
    digests = set()
    with repdl.random.fork_rng():
        for _ in range(2):
            converted = repdl.from_torch_module(model)
            repdl.random.manual_seed(5)
            converted(x).sum().backward()
            assert [type(m) for m in converted] == [nn.Conv2d, nn.BatchNorm2d, torch.nn.Flatten, nn.Linear]
            digests.add(repdl.digest(converted))
    assert len(digests) == 1 and isinstance(model[0], torch.nn.LazyConv2d)
    filled = repdl.from_torch_module(model)
    filled.load_state_dict(converted.state_dict())
    assert repdl.digest(filled) in digests
