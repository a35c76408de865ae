"""weight_norm, spectral_norm and orthogonal, as hooks and parametrizations, made here or converted from torch."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.utils import parametrize

import repdl
from repdl import nn, ops
from repdl.errors import UnsupportedError
from repdl.nn import orthogonal_maps
from repdl.testing.compare import assert_same_bits

pytestmark = pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated")


Make = Callable[[Any, torch.nn.Module], torch.nn.Module]

CALLS: dict[str, Make] = {
    "weight_norm": lambda u, m: u.parametrizations.weight_norm(m),
    "weight_norm_dim_1": lambda u, m: u.parametrizations.weight_norm(m, dim=1),
    "weight_norm_all": lambda u, m: u.parametrizations.weight_norm(m, dim=None),
    "weight_norm_bias": lambda u, m: u.parametrizations.weight_norm(m, "bias"),
    "weight_norm_hook": lambda u, m: u.weight_norm(m),
    "weight_norm_hook_dim_1": lambda u, m: u.weight_norm(m, dim=1),
    "weight_norm_hook_all": lambda u, m: u.weight_norm(m, dim=None),
    "spectral_norm": lambda u, m: u.parametrizations.spectral_norm(m),
    "spectral_norm_dim_1": lambda u, m: u.parametrizations.spectral_norm(m, n_power_iterations=3, dim=1),
    "spectral_norm_vector": lambda u, m: u.parametrizations.spectral_norm(m, "bias"),
    "spectral_norm_hook": lambda u, m: u.spectral_norm(m),
    "spectral_norm_hook_dim_1": lambda u, m: u.spectral_norm(m, n_power_iterations=2, dim=1),
    "orthogonal": lambda u, m: u.parametrizations.orthogonal(m),
    "matrix_exp": lambda u, m: u.parametrizations.orthogonal(m, orthogonal_map="matrix_exp"),
    "cayley": lambda u, m: u.parametrizations.orthogonal(m, orthogonal_map="cayley"),
    "householder": lambda u, m: u.parametrizations.orthogonal(
        m, orthogonal_map="householder", use_trivialization=False
    ),
    "two": lambda u, m: u.parametrizations.spectral_norm(u.parametrizations.weight_norm(m), "weight"),
}


def _linear(kind: Any, shape: tuple[int, int] = (6, 4)) -> Any:
    generator = torch.Generator().manual_seed(2)
    layer = kind(shape[1], shape[0])
    layer.weight.data = torch.randn(shape, generator=generator)
    layer.bias.data = torch.randn(shape[0], generator=generator)
    return layer


def _changed(model: torch.nn.Module) -> None:
    """Other parameters, as training gives them; not the signs of reflections, which torch truncates."""
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32) * 0.1
        if name.endswith("original") and parameter.dim() == 2:
            noise.fill_diagonal_(0.0)
        parameter.data += noise


@pytest.mark.parametrize("name", CALLS)
def test_convert__what_torch_has_made(name):
    """Results and gradients against torch in float64; state dicts both ways, copies, removal; the audit is clean."""
    model = torch.nn.Sequential(CALLS[name](torch.nn.utils, _linear(torch.nn.Linear)), torch.nn.Tanh())
    _changed(model)
    exact = torch.nn.Sequential(CALLS[name](torch.nn.utils, _linear(torch.nn.Linear)), torch.nn.Tanh())
    exact.load_state_dict(model.state_dict())
    for module in exact.modules():
        if isinstance(getattr(module, "base", None), torch.Tensor):
            module.base = module.base.clone()
    exact = exact.double()
    converted = repdl.from_torch_module(model)
    assert isinstance(converted[0], nn.Linear) and type(model[0]).__mro__[-2] is torch.nn.Module
    assert repdl.digest(converted) == repdl.digest(model)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(4))
    for training in (True, False, True):
        converted.train(training), exact.train(training)
        output, expected = converted(x), exact(x.double())
        grad = torch.randn(output.shape, generator=torch.Generator().manual_seed(5))
        gradients = torch.autograd.grad(output, list(converted.parameters()), grad, allow_unused=True)
        others = torch.autograd.grad(expected, list(exact.parameters()), grad.double(), allow_unused=True)
        assert torch.allclose(output.double(), expected, atol=1e-5)
        for a, b in zip(gradients, others, strict=True):
            assert (a is None and b is None) or torch.allclose(a.double(), b, atol=5e-5)
    assert repdl.audit(converted, x).ok
    model.load_state_dict(converted.state_dict())
    converted.load_state_dict(model.state_dict())
    with torch.no_grad():  # torch's deepcopy takes no weight that has a derivative, as hooks leave it
        converted.eval()(x)
        duplicate = copy.deepcopy(converted)
        assert_same_bits(duplicate(x), converted(x))
        if "hook" in name:
            assert_same_bits(pickle.loads(pickle.dumps(converted))(x), converted(x))
    if "hook" not in name:
        with pytest.raises(RuntimeError, match="state_dict"):
            pickle.dumps(converted)  # as torch's own


@pytest.mark.parametrize("name", CALLS)
def test_enable__torchs_have_the_same_bits(name):
    """Made and called under `repdl.enable()`; torch makes orthogonal weights by factorisations."""
    x, layer = torch.randn(3, 4, generator=torch.Generator().manual_seed(4)), _linear(torch.nn.Linear)
    if name in ("orthogonal", "matrix_exp", "cayley", "householder"):
        with repdl.enabled(), pytest.raises(UnsupportedError, match="not reproducible"):
            CALLS[name](torch.nn.utils, layer)(x)
        return
    with repdl.enabled():
        torch.manual_seed(1)
        theirs = CALLS[name](torch.nn.utils, layer)
        _changed(theirs)
    ours = repdl.from_torch_module(theirs)
    found = []
    with repdl.enabled():
        for model in (ours, theirs):
            output = model(x)
            found.append([output, *torch.autograd.grad(output.square().sum(), list(model.parameters()))])
    for a, b in zip(*found, strict=True):
        assert_same_bits(a, b)


@pytest.mark.parametrize("name", CALLS)
def test_convert__removal(name):
    """Leaves a layer of RepDL with the weight it computed; the model it was made from keeps its own."""
    model = torch.nn.Sequential(CALLS[name](torch.nn.utils, _linear(torch.nn.Linear)))
    converted = repdl.from_torch_module(model).eval()
    tensor = "bias" if "bias" in name or "vector" in name else "weight"
    x = torch.ones(2, 4)
    expected = converted(x).detach()
    if "hook" in name:
        remove = nn.utils.remove_weight_norm if "weight" in name else nn.utils.remove_spectral_norm
        remove(converted[0], tensor)
    else:
        nn.utils.parametrize.remove_parametrizations(converted[0], tensor)
    assert type(converted[0]) is nn.Linear and isinstance(getattr(converted[0], tensor), torch.nn.Parameter)
    assert {key for key, _ in converted.named_parameters()} == {"0.weight", "0.bias"}
    assert_same_bits(converted(x).detach(), expected)
    model.eval()(x)
    assert "hook" in name or parametrize.is_parametrized(model[0])


@pytest.mark.parametrize("name", CALLS)
def test_made_here__as_converted(name):
    """Initial values close to torch's, one digest for a seed, and the same keys; with three threads, too."""
    digests = set()
    for threads in (1, 3):
        before = repdl.get_num_threads()
        repdl.set_num_threads(threads)
        repdl.random.manual_seed(1)
        torch.rand(threads)  # on which nothing depends
        layer = CALLS[name](nn.utils, _linear(nn.Linear))
        _changed(layer)
        layer(torch.ones(2, 4)).sum().backward()
        for key, parameter in layer.named_parameters():
            if parameter.grad is not None:
                digests.add((key, repdl.digest({"grad": parameter.grad})))
        digests.add(("state", repdl.digest(layer)))
        repdl.set_num_threads(before)
    assert len(digests) == len({key for key, _ in digests})
    theirs = CALLS[name](torch.nn.utils, _linear(torch.nn.Linear))
    assert layer.state_dict().keys() == theirs.state_dict().keys()
    theirs.load_state_dict(layer.state_dict())


def test_weight_norm__formula():
    layer = nn.utils.parametrizations.weight_norm(_linear(nn.Linear))
    hooked = nn.utils.weight_norm(_linear(nn.Linear))
    v = _linear(nn.Linear).weight.detach()
    g = ops.vector_norm(v, dim=1, keepdim=True) * 3
    layer.parametrizations.weight.original0.data = hooked.weight_g.data = g
    expected = ops.mul(v, ops.div(g, ops.vector_norm(v, dim=1, keepdim=True)))
    hooked(torch.ones(1, 4))
    assert_same_bits(layer.weight.detach(), expected)
    assert_same_bits(hooked.weight.detach(), expected)
    other = nn.utils.parametrizations.weight_norm(_linear(nn.Linear))
    other.load_state_dict(hooked.state_dict())
    assert_same_bits(other.weight.detach(), expected)


def test_spectral_norm__formula():
    """The first vectors are drawn for u, then for v; the power method's halves have opposite orders in both."""
    weight = _linear(nn.Linear).weight.detach()
    made = nn.utils.parametrizations.SpectralNorm(weight, generator=repdl.random.Generator(9))
    generator = repdl.random.Generator(9)
    u, v = (ops.normalize(repdl.random.randn(n, generator=generator), dim=0) for n in (6, 4))
    first = u, v

    def step(u: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        u = ops.normalize(ops.mv(weight, v), dim=0)
        return u, ops.normalize(ops.mv(weight.t(), u), dim=0)

    for _ in range(16):
        u, v = step(u, v)
    used = made(weight)  # after one more than the first 15
    assert_same_bits(used, ops.div(weight, ops.dot(u, ops.mv(weight, v))))
    assert_same_bits(made._u, u)
    assert_same_bits(made.eval()(weight), used)
    hooked = nn.utils.spectral_norm(_linear(nn.Linear), generator=repdl.random.Generator(9))
    assert_same_bits(hooked.weight_u, first[0])
    hooked(torch.ones(1, 4))
    v = ops.normalize(ops.mv(weight.t(), first[0]), dim=0)
    u = ops.normalize(ops.mv(weight, v), dim=0)
    assert_same_bits(hooked.weight.detach(), ops.div(weight, ops.dot(u, ops.mv(weight, v))))
    singular = torch.linalg.svdvals(weight.double())[0]
    assert abs(torch.linalg.matrix_norm(used.double(), 2) - 1) < 0.1 * singular


def test_spectral_norm__two_calls_before_the_backward_pass():
    """As a discriminator is trained: the second call changes u and v, not what the first one saved."""
    for make in (nn.utils.spectral_norm, nn.utils.parametrizations.spectral_norm):
        layer = make(_linear(nn.Linear), generator=repdl.random.Generator(0))
        (layer(torch.ones(2, 4)).sum() - layer(-torch.ones(2, 4)).sum()).backward()


@pytest.mark.parametrize("name", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(5, 5), (7, 3), (3, 7), (2, 4, 3), (1, 1)])
def test_orthogonal__maps(name, shape):
    """Orthogonal to rounding, against torch in float64, forward and gradient; a matrix of a batch alone as in it."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1)) * 2
    x.diagonal(dim1=-2, dim2=-1).sign_()
    maps = torch.nn.utils.parametrizations._OrthMaps
    ours = nn.utils.parametrizations.Orthogonal(x, maps[name], use_trivialization=False)
    theirs = torch.nn.utils.parametrizations._Orthogonal(x, maps[name], use_trivialization=False)
    for dtype, tolerance in ((torch.float32, 2e-5), (torch.float64, 1e-12)):
        a = x.to(dtype).requires_grad_()
        b = x.double().requires_grad_()
        q, expected = ours(a), theirs(b)
        assert torch.allclose(q.double(), expected, atol=tolerance), (q - expected).abs().max()
        grad = torch.randn(q.shape, generator=torch.Generator().manual_seed(2))
        gradients = [torch.autograd.grad(y, z, grad.to(y.dtype))[0] for y, z in ((q, a), (expected, b))]
        assert torch.allclose(gradients[0].double(), gradients[1], atol=10 * tolerance)
        if len(shape) == 3:
            assert_same_bits(ours(x.to(dtype)[1]), q[1].detach())


def test_orthogonal__second_derivatives():
    signs = torch.eye(3, 2).double()  # which are truncated, and have no derivative
    square = torch.randn(3, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    for name in torch.nn.utils.parametrizations._OrthMaps:
        ours = nn.utils.parametrizations.Orthogonal(square, name, use_trivialization=False)
        call = (lambda y, f=ours: f(y.tril(-1) + signs)) if name.name == "householder" else ours
        assert torch.autograd.gradgradcheck(call, square, fast_mode=True), name


def test_orthogonal__assignment_and_base():
    """What is assigned comes back, made orthogonal; that of torch's QR for a base."""
    for shape in ((5, 5), (6, 4), (4, 6), (2, 4, 3)):
        weight = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        for name in ("matrix_exp", "cayley", "householder"):
            for module, utils in ((torch.nn.Module(), torch.nn.utils), (torch.nn.Module(), nn.utils)):
                module.register_parameter("weight", torch.nn.Parameter(weight.clone()))
                utils.parametrizations.orthogonal(module, orthogonal_map=name)
                assert module.parametrizations.weight[0].base.shape[-1] == max(shape[-2:])
            tall = module.weight.detach() if shape[-2] >= shape[-1] else module.weight.detach().mT
            eye = torch.eye(tall.shape[-1])
            assert torch.allclose(tall.mT @ tall, eye, atol=1e-5)
            before = module.weight.detach().clone()
            module.weight = before
            assert torch.allclose(module.weight, before, atol=1e-5)
    module = _linear(nn.Linear)
    nn.utils.parametrizations.orthogonal(module, orthogonal_map="householder", use_trivialization=False)
    q = torch.linalg.qr(_linear(nn.Linear).weight.double())[0]
    assert torch.allclose(module.weight.double().abs(), q.abs(), atol=1e-5)
    assert torch.equal(module.parametrizations.weight.original.diagonal().abs(), torch.ones(4))


def test_orthogonal__solve_eliminates_in_order():
    """A step of the elimination by hand."""
    m, b = torch.tensor([[3.0, 1.0], [-1.0, 7.0]]), torch.tensor([[1.0], [2.0]])
    f = m[1, 0] / m[0, 0]
    last = (b[1, 0] - f * b[0, 0]) / (m[1, 1] - f * m[0, 1])
    first = (b[0, 0] - m[0, 1] * last) / m[0, 0]
    assert_same_bits(orthogonal_maps.solve(m, b, "v1"), torch.stack([first, last]).view(2, 1))


def test_compile__as_called(uniform):
    """Whole graphs; how often matrix_exp halves follows from values, which a graph does not know."""
    x = uniform(2, 4)
    for name in ("weight_norm", "spectral_norm"):
        layer = CALLS[name](nn.utils, _linear(nn.Linear)).eval()
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        outputs = compiled(x), layer(x)
        assert_same_bits(*(y.detach() for y in outputs))
        gradients = [torch.autograd.grad(y.sum(), list(layer.parameters())) for y in outputs]
        for a, b in zip(*gradients):
            assert_same_bits(a, b)
        torch._dynamo.reset()


def test_errors():
    u, layer = nn.utils.parametrizations, nn.Linear(3, 2)
    for call, error, message in (
        (lambda: u.spectral_norm(layer, dim=2), IndexError, "dim is 2"),
        (lambda: u.spectral_norm(layer, n_power_iterations=0), ValueError, "expected 1 or more"),
        (lambda: nn.utils.spectral_norm(layer, n_power_iterations=0), ValueError, "expected 1 or more"),
        (lambda: u.spectral_norm(layer, "nothing"), ValueError, "no parameter or buffer nothing"),
        (lambda: u.orthogonal(layer, "bias"), ValueError, "bias.dim"),
        (lambda: u.orthogonal(layer, orthogonal_map="qr"), ValueError, "matrix_exp, cayley, householder"),
        (lambda: nn.utils.weight_norm(layer, "nothing"), TypeError, "expected a parameter"),
        (lambda: nn.utils.weight_norm(nn.utils.weight_norm(nn.Linear(1, 1))), RuntimeError, "hook already"),
        (lambda: nn.utils.spectral_norm(nn.utils.spectral_norm(nn.Linear(1, 1)), "weight_orig", dim=0), None, ""),
        (lambda: u.weight_norm(layer, contract="nonsense"), ValueError, "nonsense"),
    ):
        if error is None:
            call()
            continue
        with pytest.raises(error, match=message):
            call()
    assert not parametrize.is_parametrized(layer)
    u.orthogonal(layer, orthogonal_map="cayley", use_trivialization=False)
    with pytest.raises(NotImplementedError, match="can't be assigned to cayley"):
        layer.weight = torch.eye(2, 3)


def test_orthogonal__user_model_keeps_its_class_of_its_own():
    """Removal from a converted model does not take the property from the class of the one it was made from."""

    class Holder(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.eye(2) * 3)
            self.body = torch.nn.Linear(2, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return repdl.nn.functional.linear(self.body(x), self.weight)

    model = torch.nn.utils.parametrizations.weight_norm(Holder())
    converted = repdl.from_torch_module(model)
    assert type(converted) is not type(model) and isinstance(converted, Holder)
    nn.utils.parametrize.remove_parametrizations(converted, "weight")
    assert type(converted) is Holder and torch.equal(model.weight, torch.eye(2) * 3)
    converted(torch.ones(1, 2)).sum().backward()


def test_convert__layers_of_repdl_with_torchs_arithmetic():
    """A layer stays, what torch put on it is converted; removal leaves the layer it was copied from whole."""
    layer = torch.nn.utils.parametrizations.spectral_norm(_linear(nn.Linear))
    hooked = torch.nn.utils.weight_norm(_linear(nn.Linear))
    converted = repdl.from_torch_module(torch.nn.Sequential(layer, torch.nn.utils.weight_norm(nn.Linear(6, 2)))).eval()
    assert repdl.audit(converted, torch.ones(1, 4)).ok
    assert isinstance(converted[0].parametrizations.weight[0], nn.utils.parametrizations.SpectralNorm)
    nn.utils.parametrize.remove_parametrizations(converted[0], "weight")
    assert layer.eval().weight.shape == (6, 4) and type(converted[0]) is nn.Linear
    assert not repdl.audit(hooked, torch.ones(1, 4)).ok  # which was not converted


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm__of_torch_under_enable(dim: int | None) -> None:
    x = repdl.random.randn(2, 3, 8, generator=repdl.random.Generator(1))
    layers = [m.Conv1d(3, 4, 3) for m in (nn, torch.nn)]
    layers[1].load_state_dict(layers[0].state_dict())
    ours = nn.utils.parametrizations.weight_norm(layers[0], dim=dim)
    expected = ours(x)
    ops.sum(ops.square(expected)).backward()
    with repdl.enabled():
        theirs = torch.nn.utils.parametrizations.weight_norm(layers[1], dim=dim)
        found = theirs(x)
        found.square().sum().backward()
    assert_same_bits(found.detach(), expected.detach())
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert a.grad is not None and b.grad is not None
        assert_same_bits(a.grad, b.grad)
