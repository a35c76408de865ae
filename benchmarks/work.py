"""What benchmarks/kernels.py measures, and cuda_kernels.py in part: each piece of work torch's way and ours, with its bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

import repdl
from repdl.registry import functions
from repdl.testing.cases.pointwise.elementwise import EXACT

F = torch.nn.functional
ops = repdl.ops
Call = Callable[[], Any]


@dataclass
class Work:
    """One line of the table.

    Args:
        torchs: torch's ways; the fastest counts.
        bound: what torch's time / ours is to reach; 0 for none.
        group: collects lines whose geometric mean is to reach 1.
        excess: microseconds that ours may take more, instead of a ratio.
    """

    name: str
    torchs: tuple[Call, ...]
    ours: Call
    bound: float
    group: str = ""
    excess: float = 0.0


def rand(*shape: int) -> torch.Tensor:
    return torch.rand(shape) - 0.5


def mm_work() -> Iterator[Work]:
    for n in (128, 256, 512, 1024, 2048):
        a, b = rand(n, n), rand(n, n)
        for ta in (False, True):
            for tb in (False, True):
                x, y = a.t() if ta else a, b.t() if tb else b
                label = "n" if not (ta or tb) else "t" * ta + "n" * (not ta) + "t" * tb + "n" * (not tb)
                yield Work(
                    f"mm {n}^3 {label}",
                    (lambda x=x, y=y: torch.mm(x, y),),
                    lambda a=a, b=b, ta=ta, tb=tb: ops.mm(a, b, ta, tb),
                    1.05,
                )
    for m, k, n in ((4096, 4096, 64), (100, 120, 400)):
        a, b = rand(m, k), rand(k, n)
        yield Work(f"mm {m}x{k}x{n}", (lambda a=a, b=b: torch.mm(a, b),), lambda a=a, b=b: ops.mm(a, b), 1.05)
    a, b = rand(78400, 64), rand(78400, 10)
    yield Work("mm 64x10, k = 78400", (lambda: torch.mm(a.t(), b),), lambda: ops.mm(a, b, True), 1.5)
    w = rand(4096, 4096)
    for rows in (1, 8):
        x = rand(rows, 4096)
        yield Work(f"linear {rows} rows 4096x4096", (lambda x=x: F.linear(x, w),), lambda x=x: ops.linear(x, w), 1.0)
    p, q = rand(96, 128, 64), rand(96, 64, 128)
    yield Work("bmm 96 x (128x64x128)", (lambda: torch.bmm(p, q),), lambda: ops.bmm(p, q), 1.05)


# ResNet-50's distinct convolutions: in, out, side, kernel, stride, padding.
RESNET50 = [
    (3, 64, 224, 7, 2, 3), (64, 64, 56, 1, 1, 0), (64, 64, 56, 3, 1, 1), (64, 256, 56, 1, 1, 0), (256, 64, 56, 1, 1, 0),
    (256, 128, 56, 1, 1, 0), (128, 128, 56, 3, 2, 1), (128, 512, 28, 1, 1, 0), (256, 512, 56, 1, 2, 0),
    (512, 128, 28, 1, 1, 0), (128, 128, 28, 3, 1, 1), (512, 256, 28, 1, 1, 0), (256, 256, 28, 3, 2, 1),
    (256, 1024, 14, 1, 1, 0), (512, 1024, 28, 1, 2, 0), (1024, 256, 14, 1, 1, 0), (256, 256, 14, 3, 1, 1),
    (1024, 512, 14, 1, 1, 0), (512, 512, 14, 3, 2, 1), (512, 2048, 7, 1, 1, 0), (1024, 2048, 14, 1, 2, 0),
    (2048, 512, 7, 1, 1, 0), (512, 512, 7, 3, 1, 1),
]  # fmt: skip


def conv_calls(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, stride: int, padding: int, groups: int, part: str
) -> tuple[tuple[Call, ...], Call]:
    """torch's ways (contiguous, channels_last) and ours for one part of a convolution."""
    options = ([stride] * 2, [padding] * 2, [1, 1])
    grad = rand(*F.conv2d(x, w, b, stride, padding, 1, groups).shape)
    layouts = [
        tuple(t.to(memory_format=layout) for t in (x, w, grad))
        for layout in (torch.contiguous_format, torch.channels_last)
    ]
    if part == "forward":
        torchs = [lambda x=x, w=w: F.conv2d(x, w, b, stride, padding, 1, groups) for x, w, _ in layouts]
        return tuple(torchs), lambda: ops.conv2d(x, w, b, stride, padding, 1, groups)
    mask = [part == "grad_input", part == "grad_weight", False]
    backward = torch.ops.aten.convolution_backward
    torchs = [
        lambda x=x, w=w, g=g: backward(g, x, w, None, *options, False, [0, 0], groups, mask) for x, w, g in layouts
    ]
    if part == "grad_input":
        ours: Call = lambda: functions.conv2d_grad_input(grad, w, x.shape[2:], *options, groups, "v1")
    else:
        ours = lambda: functions.conv2d_grad_weight(grad, x, w.shape[2:], *options, groups, "v1")
    return tuple(torchs), ours


def conv_work(images: int = 16) -> Iterator[Work]:
    """`images` is the batch of ResNet-50's convolutions."""
    parts = ("forward", "grad_input", "grad_weight")
    for part in parts:
        for c, o, side, k, s, p in RESNET50:
            x, w = rand(images, c, side, side), rand(o, c, k, k)
            name = f"conv {part} {c}->{o} {side}^2 {k}x{k} /{s}"
            yield Work(
                name, *conv_calls(x, w, None, s, p, 1, part), 0.8 if part == "forward" else 0.0, f"ResNet-50 {part}"
            )
    for part in parts:
        yield Work(
            f"depthwise 3x3 {part}", *conv_calls(rand(16, 128, 56, 56), rand(128, 1, 3, 3), None, 1, 1, 128, part), 1.0
        )
        yield Work(
            f"grouped 3x3 {part}", *conv_calls(rand(16, 128, 28, 28), rand(128, 4, 3, 3), None, 1, 1, 32, part), 1.0
        )
        yield Work(f"MNIST conv1 {part}", *conv_calls(rand(100, 1, 28, 28), rand(6, 1, 5, 5), None, 1, 2, 1, part), 1.0)
        yield Work(
            f"MNIST conv2 {part}", *conv_calls(rand(100, 6, 14, 14), rand(16, 6, 5, 5), None, 1, 0, 1, part), 1.0
        )


def reduction_work() -> Iterator[Work]:
    x, row = rand(4096, 4096), rand(10_000_000)
    for name in ("sum", "mean"):
        ours, torchs = getattr(ops, name), getattr(torch, name)
        for dim in (None, 0, 1):
            yield Work(
                f"{name} (4096, 4096) dim={dim}",
                (lambda f=torchs, d=dim: f(x) if d is None else f(x, d),),
                lambda f=ours, d=dim: f(x, d),
                1.0,
            )
        yield Work(f"{name} 1e7", (lambda f=torchs: f(row),), lambda f=ours: f(row), 1.0)


def normalisation_work(times: int = 1) -> Iterator[Work]:
    """`times` as many rows or images."""
    for shape in ((128 * times, 1000), (64 * times, 32000), (16384 * times, 21), (4 * times, 21, 128, 128)):
        x, g = rand(*shape) * 8, rand(*shape)
        t = torch.randint(shape[1], (shape[0], *shape[2:]))
        for name in ("softmax", "log_softmax"):
            theirs, ours = getattr(F, name), getattr(ops, name)
            yield Work(f"{name} {shape}", (lambda f=theirs, x=x: f(x, 1),), lambda f=ours, x=x: f(x, 1), 1.0)
            y = theirs(x, 1)
            aten = getattr(torch.ops.aten, f"_{name}_backward_data")
            repd = getattr(functions, f"{name}_backward")
            yield Work(
                f"{name} {shape} backward",
                (lambda f=aten, g=g, y=y: f(g, y, 1, torch.float32),),
                lambda f=repd, g=g, y=y: f(g, y, 1, "v1"),
                1.0,
            )
        yield Work(
            f"cross_entropy {shape}",
            (lambda x=x, t=t: F.cross_entropy(x, t),),
            lambda x=x, t=t: ops.cross_entropy(x, t),
            1.0,
        )
        leaf = x.clone().requires_grad_()

        def both(f: Any, leaf: torch.Tensor = leaf, t: torch.Tensor = t) -> None:
            leaf.grad = None
            f(leaf, t).backward()

        yield Work(
            f"cross_entropy {shape} with backward",
            (lambda f=both: f(F.cross_entropy),),
            lambda f=both: f(ops.cross_entropy),
            1.0,
        )
    images = 16 * times
    x = rand(images, 64, 56, 56)
    w, b, m, v = rand(64), rand(64), torch.zeros(64), torch.ones(64)
    bn = lambda f: f(x, m, v, w, b, True)
    yield Work(f"batch_norm ({images}, 64, 56, 56)", (lambda: bn(F.batch_norm),), lambda: bn(ops.batch_norm), 1.0)
    leaf = x.clone().requires_grad_()

    def bn_both(f: Any) -> None:
        leaf.grad = None
        f(leaf, m, v, w, b, True).backward(x)

    yield Work("batch_norm with backward", (lambda: bn_both(F.batch_norm),), lambda: bn_both(ops.batch_norm), 1.0)

    for sizes in ((4096 * times, 1024), (64 * times, 128, 768)):
        n, rows = sizes[-1], [*sizes[:-1], 1]
        x, g, w, b = rand(*sizes), rand(*sizes), rand(n), rand(n)
        mean, rstd = x.mean(-1, keepdim=True), x.var(-1, keepdim=True).rsqrt()
        yield Work(
            f"layer_norm {sizes}",
            (lambda x=x, n=n, w=w, b=b: F.layer_norm(x, [n], w, b),),
            lambda x=x, n=n, w=w, b=b: ops.layer_norm(x, [n], w, b),
            1.0,
        )
        given = (g, x, [n], mean.view(rows), rstd.view(rows), w)
        yield Work(
            f"layer_norm {sizes} backward",
            (lambda t=given, b=b: torch.ops.aten.native_layer_norm_backward(*t, b, [True] * 3),),
            lambda t=given: functions.layer_norm_backward(*t, contract="v1"),
            1.0,
        )
        yield Work(
            f"rms_norm {sizes}",
            (lambda x=x, n=n, w=w: F.rms_norm(x, [n], w),),
            lambda x=x, n=n, w=w: ops.rms_norm(x, [n], w),
            1.0,
        )
    x, w, b = rand(images, 64, 56, 56), rand(64), rand(64)
    yield Work(
        f"group_norm ({images}, 64, 56, 56) 32 groups",
        (lambda: F.group_norm(x, 32, w, b),),
        lambda: ops.group_norm(x, 32, w, b),
        1.0,
    )
    g, (_, mean, rstd) = rand(*x.shape), torch.native_group_norm(x, w, b, images, 64, 56 * 56, 32, 1e-5)
    yield Work(
        "group_norm backward",
        (lambda: torch.ops.aten.native_group_norm_backward(g, x, mean, rstd, w, images, 64, 56 * 56, 32, [True] * 3),),
        lambda: functions.group_norm_backward(g, x, 32, mean, rstd, w, "v1"),
        1.0,
    )


def elementwise_work(n: int = 20) -> Iterator[Work]:
    """Of 2**n elements."""
    x = rand(1 << n).abs() + 0.1
    bounds = {"exp": 1.0, "log": 1.0, "tanh": 1.0, "erf": 0.6, "sigmoid": 0.6, "relu": 0.0, "sqrt": 0.0}
    for name, bound in (dict.fromkeys(EXACT, 0.0) | bounds).items():
        theirs, ours = getattr(torch, name), getattr(ops, name)
        yield Work(f"{name} 2**{n}", (lambda f=theirs: f(x),), lambda f=ours: f(x), bound)
    for power in (1.5, 3.0):
        yield Work(f"pow 2**{n} by {power}", (lambda p=power: torch.pow(x, p),), lambda p=power: ops.pow(x, p), 0.0)
    yield Work(f"gelu 2**{n}", (lambda: F.gelu(x),), lambda: ops.gelu(x), 0.6)
    yield Work(f"gelu 2**{n} tanh", (lambda: F.gelu(x, approximate="tanh"),), lambda: ops.gelu(x, "tanh"), 0.6)
    yield Work(f"silu 2**{n}", (lambda: F.silu(x),), lambda: ops.silu(x), 0.6)
    y = rand(1 << n)
    yield Work(f"add 2**{n}", (lambda: torch.add(x, y),), lambda: ops.add(x, y), 0.0)
    p = rand(100, 6, 28, 28)
    yield Work(
        "max_pool2d (100, 6, 28, 28) 2x2",
        (lambda: F.max_pool2d(p, 2, return_indices=True),),
        lambda: ops.max_pool2d(p, 2, return_indices=True),
        0.0,
    )


def optimizer_work() -> Iterator[Work]:
    def step(cls: Any, **options: Any) -> Call:
        parameters = [torch.nn.Parameter(rand(1000, 1000)) for _ in range(10)]
        for q in parameters:
            q.grad = rand(1000, 1000)
        return cls(parameters, **options).step

    for name, options in (("Adam", {}), ("SGD", {"momentum": 0.9})):
        theirs, ours = getattr(torch.optim, name), getattr(repdl.optim, name)
        ways = tuple(step(theirs, lr=1e-3, **options, **{way: True}) for way in ("foreach", "fused"))
        yield Work(f"{name} step, 1e7 parameters", ways, step(ours, lr=1e-3, **options), 1.0)
    adamw = tuple(step(torch.optim.AdamW, lr=1e-3, **{way: True}) for way in ("foreach", "fused"))
    ours = step(repdl.optim.Adam, lr=1e-3, weight_decay=1e-2, decoupled_weight_decay=True)
    yield Work("AdamW step, 1e7 parameters", adamw, ours, 1.0)


def random_work(n: int = 10_000_000) -> Iterator[Work]:
    """Draws of `n` elements: torch's generator of the device, and ours."""
    draw, at = repdl.registry.functions, torch.tensor([1, 0, 0])
    like, whole = rand(1)[0].expand(n), torch.zeros((), dtype=torch.int64).expand(n)
    x, g, p = rand(n).requires_grad_(), rand(n), rand(n) + 0.5

    def both(dropout: Call) -> None:
        torch.autograd.grad(dropout(), x, g)

    below = 1.0 - 2.0**-24
    yield Work("rand 1e7", (lambda: torch.rand(n),), lambda: draw.uniform(like, at, 0.0, 1.0, below), 1.0)
    yield Work("randn 1e7", (lambda: torch.randn(n),), lambda: draw.normal(like, at, 0.0, 1.0), 0.8)
    yield Work(
        "exponential 1e7", (lambda: torch.empty(n).exponential_(),), lambda: draw.exponential(like, at, 1.0), 0.0
    )
    yield Work("bernoulli 1e7", (lambda: torch.bernoulli(p),), lambda: draw.bernoulli(p, at), 1.0)
    yield Work(
        "dropout 1e7 with backward",
        (lambda: both(lambda: F.dropout(x, 0.5)),),
        lambda: both(lambda: draw.dropout(x, at, 0.5)),
        1.0,
    )
    yield Work(
        "randint 1e7", (lambda: torch.randint(0, 1000, (n,)),), lambda: draw.random_integers(whole, at, 0, 1000), 0.0
    )
    yield Work("randperm 1e7", (lambda: torch.randperm(n),), lambda: draw.random_permutation(whole, at), 0.5)


def attention_work() -> Iterator[Work]:
    for shape in ((8, 8, 512, 64), (1, 12, 2048, 64)):
        tensors = [rand(*shape) * 4 for _ in range(3)]
        leaves, g = [t.clone().requires_grad_() for t in tensors], rand(*shape)
        for causal in (False, True):
            name = f"attention {shape}{' causal' if causal else ''}"

            def forward(f: Any, tensors: list[torch.Tensor] = tensors, causal: bool = causal) -> None:
                f(*tensors, is_causal=causal)

            def both(f: Any, leaves: Any = leaves, g: torch.Tensor = g, causal: bool = causal) -> None:
                torch.autograd.grad(f(*leaves, is_causal=causal), leaves, g)

            for call, label in ((forward, name), (both, f"{name} with backward")):
                yield Work(
                    label,
                    (lambda f=call: f(F.scaled_dot_product_attention),),
                    lambda f=call: f(ops.scaled_dot_product_attention),
                    0.9,
                )


def _with_gradient(
    name: str, x: torch.Tensor, theirs: Any, ours: Any, bound: float = 0.9, backward: str = "backward"
) -> Iterator[Work]:
    """A function of x forward, and its derivative alone."""
    yield Work(name, (lambda: theirs(x),), lambda: ours(x), bound)
    leaf = x.clone(memory_format=torch.preserve_format).requires_grad_()
    outputs = [f(leaf) for f in (theirs, ours)]
    g = rand(*outputs[0].shape)
    calls = [lambda y=y: torch.autograd.grad(y, leaf, g, retain_graph=True) for y in outputs]
    yield Work(f"{name} {backward}", (calls[0],), calls[1], bound)


def window_work() -> Iterator[Work]:
    """Resizing and pooling."""
    for shape in ((8, 64, 32, 32), (1, 3, 224, 224)):
        for mode in ("nearest", "bilinear"):
            yield from _with_gradient(
                f"interpolate {shape} x2 {mode}",
                rand(*shape),
                lambda x, mode=mode: F.interpolate(x, scale_factor=[2.0, 2.0], mode=mode),
                lambda x, mode=mode: ops.interpolate(x, scale_factor=[2.0, 2.0], mode=mode),
            )
    x = rand(16, 64, 32, 32)
    for stride in (1, 2):
        for padding in (0, 1):
            yield from _with_gradient(
                f"avg_pool2d {tuple(x.shape)} 3x3 /{stride} padding {padding}",
                x,
                lambda x, s=stride, p=padding: F.avg_pool2d(x, 3, s, p),
                lambda x, s=stride, p=padding: ops.avg_pool2d(x, 3, s, p),
            )


def index_work(n: int = 100_000) -> Iterator[Work]:
    """Sums of `n` rows by index. torch adds them as they come; the contract's order needs them sorted."""
    for rows in (1000, 100_000):
        index = torch.randint(rows, (n,))
        x, terms = rand(rows), rand(n)
        yield Work(
            f"scatter_add {n} to {rows}",
            (lambda x=x, i=index, t=terms: torch.scatter_add(x, 0, i, t),),
            lambda x=x, i=index, t=terms: ops.scatter_add(x, 0, i, t),
            0.0,
        )
        for width in (1, 16, 128):
            table, values = rand(rows, width), rand(n, width)
            yield Work(
                f"index_add {n} to {rows} x {width}",
                (lambda t=table, i=index, v=values: torch.index_add(t, 0, i, v),),
                lambda t=table, i=index, v=values: ops.index_add(t, 0, i, v),
                0.0 if width == 1 else 0.9,
            )
            yield from _with_gradient(
                f"embedding {n} of {rows} x {width}",
                table,
                lambda t, i=index: F.embedding(i, t),
                lambda t, i=index: ops.embedding(i, t),
            )


def order_work(n: int = 1024) -> Iterator[Work]:
    """Of `n` rows of `n` elements: sorting, what it finds, running sums and extremes, sums of functions."""
    x, q = rand(n, n), torch.tensor(0.3)
    calls: dict[str, Callable[[Any], Any]] = {
        "sort": lambda m: m.sort(x, stable=True),
        "argsort": lambda m: m.argsort(x, stable=True),
        "topk 10 of": lambda m: m.topk(x, 10),
        "kthvalue 100 of": lambda m: m.kthvalue(x, 100),
        "median": lambda m: m.median(x, 1),
        "quantile": lambda m: m.quantile(x, q, 1),
        "amax": lambda m: m.amax(x, 1),
        "argmax": lambda m: m.argmax(x, 1),
        "cummax": lambda m: m.cummax(x, 1),
        "cumsum": lambda m: m.cumsum(x, 1),
        "cumprod": lambda m: m.cumprod(x, 1),
        "logsumexp": lambda m: m.logsumexp(x, 1),
        "logaddexp": lambda m: m.logaddexp(x, x.t()),
        "norm": lambda m: m.norm(x),
    }
    for name, call in calls.items():
        yield Work(f"{name} ({n}, {n})", (lambda c=call: c(torch),), lambda c=call: c(ops), 0.0)


def linalg_work() -> Iterator[Work]:
    """Factorizations, and what is solved by them."""
    linalg = torch.linalg
    for n in (64, 256, 1024):
        a, b = rand(n, n), rand(n, n)
        positive = a @ a.T / n + torch.eye(n)
        lower = positive.tril()
        pairs: dict[str, tuple[Call, Call]] = {
            "cholesky": (lambda a=positive: linalg.cholesky(a), lambda a=positive: ops.cholesky(a)),
            "lu_factor": (lambda a=a: linalg.lu_factor(a), lambda a=a: ops.lu_factor(a)),
            "qr": (lambda a=a: linalg.qr(a), lambda a=a: ops.qr(a)),
            "solve": (lambda a=a, b=b: linalg.solve(a, b), lambda a=a, b=b: ops.solve(a, b)),
            "solve_triangular": (
                lambda a=lower, b=b: linalg.solve_triangular(a, b, upper=False),
                lambda a=lower, b=b: ops.solve_triangular(a, b, upper=False),
            ),
        }
        for name, (torchs, ours) in pairs.items():
            yield Work(f"{name} {n}", (torchs,), ours, 0.0)


def rows_work() -> Iterator[Work]:
    """Rows of tables, picked and reduced, and distances of rows."""
    table, source, index = rand(4096, 64), rand(1 << 16, 64), torch.randint(0, 4096, (1 << 16,))
    bags, points, weight = index.view(-1, 16), rand(512, 64), rand(1000, 64)
    bags, image, grid = bags % 1000, rand(8, 32, 64, 64), rand(8, 64, 64, 2) * 2
    for reduce in ("sum", "mean", "amax", "prod"):
        yield Work(
            f"scatter_reduce {reduce} of rows",
            (lambda r=reduce: table.scatter_reduce(0, index[:, None].expand(-1, 64), source, r),),
            lambda r=reduce: ops.scatter_reduce(table, 0, index[:, None].expand(-1, 64), source, r),
            0.0,
        )
    for mode in ("sum", "mean", "max"):
        yield Work(
            f"embedding_bag {mode}",
            (lambda m=mode: F.embedding_bag(bags, weight, mode=m),),
            lambda m=mode: ops.embedding_bag(bags, weight, mode=m),
            0.0,
        )
    for p in (2.0, 1.0):
        yield Work(
            f"cdist p={p:.0f} (512, 64)",
            (lambda p=p: torch.cdist(points, points, p),),
            lambda p=p: ops.cdist(points, points, p),
            0.0,
        )
    for mode in ("bilinear", "nearest"):
        yield Work(
            f"grid_sample {mode} (8, 32, 64, 64)",
            (lambda m=mode: F.grid_sample(image, grid, m, align_corners=False),),
            lambda m=mode: ops.grid_sample(image, grid, m, align_corners=False),
            0.0,
        )
    yield Work("prod (65536, 64)", (lambda: source.prod(1),), lambda: ops.prod(source, 1), 0.0)


def loss_work(n: int = 20) -> Iterator[Work]:
    """Of 2**n elements."""
    x, y = rand(1 << n) * 4, rand(1 << n).add(0.5)
    names = "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits", "kl_div"
    for name in names:
        theirs, ours = getattr(F, name), getattr(ops, name)
        yield from _with_gradient(f"{name} 2**{n}", x, lambda x, f=theirs: f(x, y), lambda x, f=ours: f(x, y), 0.0)


def overhead_work() -> Iterator[Work]:
    a, b = rand(8, 8), rand(8, 8)
    yield Work("mm 8x8 call", (lambda: torch.mm(a, b),), lambda: ops.mm(a, b), 0.0, excess=15.0)
    w, x = rand(8, 8).requires_grad_(), rand(8, 8).requires_grad_()

    def both(linear: Any) -> None:
        w.grad = x.grad = None
        linear(x, w).backward(a)

    yield Work("linear 8x8 forward and backward", (lambda: both(F.linear),), lambda: both(ops.linear), 1 / 3)


GROUPS = {
    "mm": mm_work, "conv": conv_work, "reduction": reduction_work, "normalisation": normalisation_work,
    "attention": attention_work, "elementwise": elementwise_work, "optimizer": optimizer_work, "random": random_work, "windows": window_work, "indices": index_work,
    "order": order_work, "losses": loss_work, "linalg": linalg_work, "rows": rows_work, "overhead": overhead_work,
}  # fmt: skip
