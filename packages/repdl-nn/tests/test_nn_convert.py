"""from_torch_module: one test for each thing that it promises to keep or to refuse."""

from __future__ import annotations

import copy
import functools
import pickle
import warnings

import pytest
import torch
from torch.nn.utils import parametrize

import repdl
from repdl import nn
from repdl.errors import ContractError, UnsupportedError


def _block() -> torch.nn.Sequential:
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten()
    )


class Own(torch.nn.Module):
    """A module with its own forward, submodules, attributes and a plain tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)
        self.note = {"depth": [1, 2]}
        self.table = torch.arange(3.0)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))

    def count(self, *_: object) -> None:
        self.calls += 1


class Subclass(torch.nn.Linear):
    """Overrides nothing of the forward pass."""

    def name(self) -> str:
        return "subclass"


class Doubled(torch.nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return 2 * super().forward(input)


class OwnConv(torch.nn.Conv2d):
    def _conv_forward(self, input, weight, bias):
        return super()._conv_forward(input, weight * 2, bias)


class Square(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x


class Centred(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean()


class Mean(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.mean()


def _refused(model: torch.nn.Module, *words: str) -> str:
    with pytest.raises(UnsupportedError) as caught:
        repdl.from_torch_module(model)
    for word in words:
        assert word in str(caught.value)
    return str(caught.value)


# What is kept


def test_convert__classes():
    converted = repdl.from_torch_module(_block())
    assert [type(m) for m in converted] == [nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.Flatten]
    assert type(converted) is torch.nn.Sequential


def test_convert__source_untouched():
    model = _block()
    before, classes = repdl.digest(model), [type(m) for m in model.modules()]
    attributes = [dict(vars(m)) for m in model.modules()]
    converted = repdl.from_torch_module(model)
    with torch.no_grad():
        for tensor in converted.state_dict().values():
            tensor.fill_(7)
    assert repdl.digest(model) == before and [type(m) for m in model.modules()] == classes
    for module, old in zip(model.modules(), attributes, strict=True):
        assert vars(module).keys() == old.keys() and all(vars(module)[key] is old[key] for key in old)


def test_convert__no_memory_is_shared():
    model = Own()
    converted = repdl.from_torch_module(model)
    tensors = [(*m.state_dict().values(), m.table) for m in (model, converted)]
    source, copied = ({t.untyped_storage().data_ptr() for t in several} for several in tensors)
    assert not source & copied and len(source) == len(copied) == 5
    assert converted.note == model.note and converted.note["depth"] is not model.note["depth"]


def test_convert__state_dict_keys_and_bits():
    model = _block()
    ours, theirs = repdl.from_torch_module(model).state_dict(), model.state_dict()
    assert list(ours) == list(theirs) and all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_convert__train_and_eval_mode_of_each_module():
    model = _block()
    model[1].eval()
    converted = repdl.from_torch_module(model)
    assert [m.training for m in converted.modules()] == [m.training for m in model.modules()]
    assert not any(m.training for m in repdl.from_torch_module(model.eval()).modules())


def test_convert__requires_grad():
    model = _block()
    model[0].weight.requires_grad_(False)
    converted = repdl.from_torch_module(model)
    assert [p.requires_grad for p in converted.parameters()] == [p.requires_grad for p in model.parameters()]


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_convert__dtype(dtype):
    converted = repdl.from_torch_module(torch.nn.Linear(2, 2).to(dtype))
    assert converted.weight.dtype == dtype
    with repdl.use_backend("reference"):
        assert converted(torch.ones(1, 2, dtype=dtype)).dtype is dtype
    with pytest.raises(repdl.errors.DTypeError):
        converted(torch.ones(1, 2))


def test_convert__device():
    assert repdl.from_torch_module(torch.nn.Linear(2, 2, device="meta")).weight.device.type == "meta"


def test_convert__memory_format():
    model = torch.nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)
    assert repdl.from_torch_module(model).weight.stride() == model.weight.stride()


def test_convert__forward_and_backward_hooks():
    model, calls = torch.nn.Linear(2, 2), []
    model.register_forward_pre_hook(lambda *_: calls.append("pre"))
    model.register_forward_hook(lambda *_, **__: calls.append("forward"), with_kwargs=True)
    model.register_full_backward_pre_hook(lambda *_: calls.append("backward pre"))
    model.register_full_backward_hook(lambda *_: calls.append("backward"))
    repdl.from_torch_module(model)(torch.ones(1, 2, requires_grad=True)).sum().backward()
    assert calls == ["pre", "forward", "backward pre", "backward"]


def test_convert__state_dict_hooks():
    model, calls = torch.nn.Linear(2, 2), []
    model.register_state_dict_pre_hook(lambda *_: calls.append("save pre"))
    model.register_state_dict_post_hook(lambda *_: calls.append("save"))
    model.register_load_state_dict_pre_hook(lambda *_: calls.append("load pre"))
    model.register_load_state_dict_post_hook(lambda *_: calls.append("load"))
    converted = repdl.from_torch_module(model)
    converted.load_state_dict(converted.state_dict())
    assert calls == ["save pre", "save", "load pre", "load"]


def test_convert__bound_hook_is_bound_to_the_copy():
    model = Own()
    model.first.register_forward_hook(model.count)
    converted = repdl.from_torch_module(model)
    converted(torch.ones(1, 4))
    assert (model.calls, converted.calls) == (0, 1)


def test_convert__extra_attributes():
    model = torch.nn.Linear(2, 2)
    model.label = ["a"]
    converted = repdl.from_torch_module(model)
    assert converted.label == ["a"] and converted.label is not model.label


def test_convert__tied_weights():
    model = Own()
    model.second.weight = model.first.weight
    converted = repdl.from_torch_module(model)
    assert converted.second.weight is converted.first.weight is not model.first.weight


def test_convert__parameters_that_are_views_of_one_storage():
    model, data = Own(), torch.ones(8, 4)
    model.first.weight, model.second.weight = torch.nn.Parameter(data[:4]), torch.nn.Parameter(data[4:])
    model.register_buffer("whole", data)
    converted = repdl.from_torch_module(model)
    with torch.no_grad():
        converted.second.weight.fill_(3)
    assert (converted.whole[4:] == 3).all() and (converted.whole[:4] == 1).all() and (data == 1).all()
    assert torch.equal(converted.first.weight, data[:4]) and converted.first.weight.is_leaf


def test_convert__shared_submodules():
    shared = torch.nn.Linear(2, 2)
    converted = repdl.from_torch_module(torch.nn.Sequential(shared, torch.nn.Sequential(shared), shared))
    assert converted[0] is converted[1][0] is converted[2] and type(converted[0]) is nn.Linear


def test_convert__module_that_is_also_an_attribute():
    model = Own()
    model.order = [model.second, model.first]
    converted = repdl.from_torch_module(model)
    assert converted.order[0] is converted.second and converted.order[1] is converted.first


def test_convert__draws_no_random_number():
    model, state = _block(), torch.get_rng_state()
    repdl.from_torch_module(model)
    assert torch.equal(torch.get_rng_state(), state)


def test_convert__own_module_keeps_its_forward(uniform):
    model, x = Own(), uniform(3, 4)
    converted = repdl.from_torch_module(model)
    assert type(converted) is Own and type(converted.first) is type(converted.second) is nn.Linear
    expected = repdl.ops.linear(x, model.first.weight, model.first.bias)
    assert torch.equal(converted(x), repdl.ops.linear(expected, model.second.weight, model.second.bias))


def test_convert__containers():
    listed = torch.nn.ModuleList([torch.nn.ReLU()])
    model = torch.nn.ModuleDict({"list": listed, "empty": torch.nn.Sequential()})
    converted = repdl.from_torch_module(model)
    assert type(converted) is torch.nn.ModuleDict and type(converted["list"][0]) is nn.ReLU


def test_convert__single_layer_as_root():
    assert type(repdl.from_torch_module(torch.nn.Linear(2, 2))) is nn.Linear


def test_convert__subclass_that_does_not_override_forward(uniform):
    model, x = Subclass(4, 3), uniform(2, 4)
    converted = repdl.from_torch_module(model)
    assert isinstance(converted, Subclass) and isinstance(converted, nn.Linear)
    assert converted.name() == "subclass" and repr(converted) == repr(model)
    assert torch.equal(converted(x), repdl.ops.linear(x, model.weight, model.bias))


def test_convert__converted_subclass_is_pickled_and_copied(uniform):
    converted, x = repdl.from_torch_module(Subclass(4, 3), contract="sequential"), uniform(2, 4)
    for other in (pickle.loads(pickle.dumps(converted)), copy.deepcopy(converted)):
        assert type(other) is type(converted) and other.contract == "sequential"
        assert torch.equal(other(x), converted(x))


def test_convert__converted_model_is_converted_again():
    converted = repdl.from_torch_module(_block())
    again = repdl.from_torch_module(converted, contract="sequential")
    assert again[0] is not converted[0] and type(again[0]) is nn.Conv2d
    assert (again[0].contract, converted[0].contract) == ("sequential", None)


def test_convert__contract_of_every_layer():
    converted = repdl.from_torch_module(_block(), contract="sequential")
    assert [m.contract for m in converted.modules() if isinstance(m, nn.Layer)] == ["sequential"] * 3


def test_convert__loss_with_weight():
    loss = torch.nn.CrossEntropyLoss(torch.ones(3), label_smoothing=0.1, ignore_index=1, reduction="sum")
    converted = repdl.from_torch_module(loss)
    assert type(converted) is nn.CrossEntropyLoss and converted.label_smoothing == 0.1
    assert converted.reduction == "sum" and converted.ignore_index == 1
    assert torch.equal(converted.weight, loss.weight) and converted.weight is not loss.weight


def test_convert__dropout_in_training_and_in_eval_mode():
    x = torch.ones(8, 9, 4, 4)
    for name in ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "AlphaDropout", "FeatureAlphaDropout"):
        source, given = getattr(torch.nn, name), x[0] if name == "Dropout1d" else x
        converted = repdl.from_torch_module(torch.nn.Sequential(source(0.5), torch.nn.ReLU()))
        assert type(converted[0]) is getattr(nn, name) and isinstance(converted[0], source)
        with repdl.random.fork_rng():
            repdl.random.manual_seed(1)
            first, second = converted(given), converted(given)
            repdl.random.manual_seed(1)
            again = pickle.loads(pickle.dumps(converted))(given)
        assert torch.equal(first, again) and not torch.equal(first, second), name
        assert torch.equal(converted.eval()(given), given)
        assert torch.equal(repdl.from_torch_module(source(0.0))(given), given)


# What is refused

Unknown = functools.partial(torch.nn.FractionalMaxPool2d, 2, 1)
"""A layer without a counterpart."""


def test_convert__error_lists_every_module():
    model = torch.nn.Sequential(torch.nn.FractionalMaxPool3d(2, 1), torch.nn.ReLU(), torch.nn.Sequential(Unknown()))
    message = _refused(
        model, "2 modules", "0: FractionalMaxPool3d", "2.0: FractionalMaxPool2d", "Supported:", "register_conversion"
    )
    assert "1: ReLU" not in message


def test_convert__not_strict_warns_once_and_keeps():
    model = torch.nn.Sequential(Unknown(), torch.nn.ReLU(), torch.nn.FractionalMaxPool3d(2, 1))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        converted = repdl.from_torch_module(model, strict=False)
    assert len(caught) == 1
    assert all(name in str(caught[0].message) for name in ("0: FractionalMaxPool2d", "2: FractionalMaxPool3d"))
    assert [type(m) for m in converted] == [torch.nn.FractionalMaxPool2d, nn.ReLU, torch.nn.FractionalMaxPool3d]
    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("ignore:from_torch_module")
class Holder(torch.nn.FractionalMaxPool2d):
    """A class of its own, with a layer below it that torch's has not."""

    def __init__(self) -> None:
        super().__init__(2, 1)
        self.head = torch.nn.Linear(4, 3)

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        return self.head(input)


def test_convert__not_strict_leaves_what_is_below():
    model = Holder()
    converted = repdl.from_torch_module(model, strict=False)
    assert type(converted.head) is torch.nn.Linear and converted.head is not model.head


def test_convert__modules_below_an_unsupported_one_are_not_listed():
    assert "head: Linear" not in _refused(Holder(), "Holder")


def test_convert__error_leaves_the_source_alone():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), Unknown())
    _refused(model)
    assert type(model[0]) is torch.nn.Linear


def test_convert__subclass_that_overrides_forward():
    """What it calls of its base is the reproducible layer's, and what it calls of torch is RepDL's."""
    model = torch.nn.Sequential(Doubled(2, 2))
    converted = repdl.from_torch_module(model)
    x, weight, bias = torch.ones(3, 2), model[0].weight, model[0].bias
    assert torch.equal(converted(x), repdl.ops.linear(x, weight, bias) * 2)
    assert not repdl.audit(model, x).ok and repdl.audit(converted, x).ok
    assert type(pickle.loads(pickle.dumps(converted))[0]) is type(converted[0]) is not Doubled

    class Own(torch.nn.Linear):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return torch.nn.functional.linear(input, self.weight)

    own = Own(2, 2)
    assert torch.equal(repdl.from_torch_module(own)(x), repdl.ops.linear(x, own.weight))


def test_convert__subclass_that_overrides_part_of_the_forward_pass():
    _refused(OwnConv(1, 1, 1), "OwnConv, overrides _conv_forward of Conv2d")


def test_convert__subclass_that_computes_its_weight():
    computed = type("Computed", (torch.nn.Linear,), {"weight": property(lambda self: self.raw * 2)})
    module = computed.__new__(computed)
    torch.nn.Module.__init__(module)
    _refused(module, "computes weight")


def test_convert__forward_replaced_on_the_instance():
    model = torch.nn.Linear(2, 2)
    model.forward = functools.partial(torch.nn.Linear.forward, model)
    _refused(model, "forward replaced on the instance")


def test_convert__own_module_without_submodules():
    """It needs no registration: what it computes is computed by RepDL."""
    converted = repdl.from_torch_module(torch.nn.Sequential(Square(), Mean()))
    x = torch.linspace(-2, 2, 1000)
    assert torch.equal(converted(x), repdl.ops.mean(repdl.ops.mul(x, x)))


def test_convert__subclass_of_unsupported_layer():
    _refused(type("Mine", (torch.nn.FractionalMaxPool2d,), {})(2, 1), "derives from torch's FractionalMaxPool2d")


def test_convert__own_parametrization():
    """It is computed as any code of one's own. Those of torch convert (test_nn_parametrizations.py)."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    parametrize.register_parametrization(model[0], "weight", Square())
    repdl.from_torch_module(model)(torch.ones(1, 2))
    parametrize.register_parametrization(model[0], "weight", Centred())
    found = repdl.from_torch_module(model)(torch.ones(1, 2))
    with repdl.enabled():
        assert torch.equal(found, model(torch.ones(1, 2)))


def test_convert__parameter_hook():
    model = torch.nn.Linear(2, 2)
    model.bias.register_hook(lambda grad: grad)
    _refused(model, "hooks on its parameter bias")


@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_convert__lazy_subclass():
    """What it becomes is its own to say; torch's own classes become RepDL's layers (test_nn_lazy.py)."""
    model = type("Mine", (torch.nn.LazyLinear,), {})(2)
    _refused(model, "Mine, is lazy")
    model(torch.ones(1, 3))
    assert type(repdl.from_torch_module(model)) is nn.Linear


def test_convert__compiled():
    _refused(torch.compile(torch.nn.Linear(2, 2), backend="eager"), "OptimizedModule, is compiled")


def test_convert__compiled_in_place_is_not_compiled_in_the_copy():
    model = torch.nn.Linear(2, 2)
    model.compile(backend="eager")
    assert repdl.from_torch_module(model)._compiled_call_impl is None


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_convert__quantised():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    _refused(torch.ao.quantization.quantize_dynamic(model), "0: Linear, has no reproducible counterpart")


def test_convert__data_parallel():
    _refused(torch.nn.DataParallel(torch.nn.Linear(2, 2)), "DataParallel, wraps a model")


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_convert__scripted():
    _refused(torch.jit.script(torch.nn.Linear(2, 2)), "RecursiveScriptModule, is compiled by torch.jit")


def test_convert__traced_by_fx():
    _refused(torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(2, 2))), "traced by torch.fx")


def test_convert__modules_in_a_plain_list():
    model = Own()
    model.hidden = [torch.nn.Linear(2, 2)]
    _refused(model, "holds modules in its attribute hidden")


def test_convert__deepcopy_that_returns_the_original():
    model = Own()
    model.first = type("Single", (torch.nn.Linear,), {"__deepcopy__": lambda self, memo: self})(4, 4)
    _refused(model, "first (Single) has a __deepcopy__ that returns the original")
    assert not isinstance(model.first, nn.Layer)


def test_convert__unknown_contract():
    with pytest.raises(ContractError):
        repdl.from_torch_module(torch.nn.Linear(2, 2), contract="nonsense")


def test_convert__not_a_module():
    with pytest.raises(TypeError, match="expected a torch.nn.Module"):
        repdl.from_torch_module(torch.ones(2))
