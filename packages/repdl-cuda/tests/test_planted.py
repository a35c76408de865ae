"""Tests of the tests: mistakes that a kernel writer could make, planted one at a time, are each caught.

By other bits, by an error of the emulated machine, by ThreadSanitizer or by AddressSanitizer.
A product that is not fused as written is one for the audit too (audit/tests).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

from repdl.testing.planted import plant

PACKAGE = Path(__file__).parents[1]
PROGRAMS = PACKAGE / "tests/native"
SEEDS = (0, 1, 2)
Build = Callable[..., Path]
SUMS = ("sum_rows", "sum_columns", "sum_runs", "sum_blocks")
WINDOWS = "conv/small_windows.hpp"
PAIRS = "include/repdl/exact/pairs/"
"""Headers of the contract."""
CASES = {
    "chain.cu": ("chain",),
    "reduce/grid_sum.hpp": SUMS,
    "reduce/sum.hpp": SUMS,
    "gemm/gemm.hpp": ("matmul", "shared_requests"),
    "pointwise/cast.cu": ("cast",),
    "base/pack.hpp": ("rows",),
    "reduce/register_rows.hpp": ("rows",),
    "reduce/row_reduce.hpp": ("rows",),
    "reduce/warp_exp.hpp": ("rows",),
    "reduce/softmax.cu": ("rows",),
    WINDOWS: ("convolution",),
    f"{PAIRS}single.hpp": ("exp", "log", "cos"),
    f"{PAIRS}erf.hpp": ("erf",),
    f"{PAIRS}exp.hpp": ("exp", "exp2"),
    f"{PAIRS}expm1.hpp": ("expm1",),
    f"{PAIRS}log.hpp": ("log", "log2", "log10", "log1p"),
    f"{PAIRS}rsqrt.hpp": ("rsqrt",),
    f"{PAIRS}sigmoid.hpp": ("sigmoid",),
    f"{PAIRS}sin.hpp": ("sin", "cos"),
    f"{PAIRS}tanh.hpp": ("tanh",),
}
"""File with a bug in it -> the cases that have to find it."""
SAYS = {"bits": "wrong: ", "error": "error: emulation", "thread": "data race", "address": "heap-buffer-overflow"}
"""What a program prints that finds a mistake so."""


@dataclass(frozen=True)
class Bug:
    file: str
    edits: dict[str, str]
    """Text that stands once in the file -> what is planted in its place."""
    caught: str
    """The ways that find it, each by itself; the sanitizers by name."""


LANES_THERE = "    __syncthreads();\n    for (int lane"
TILE_THERE = "    __syncthreads();  // the tile is there\n"
TILE_READ = "    __syncthreads();  // the tile has been read\n"
PRODUCT = "sum = repdl::fma(a[row * k + first + i], shared_b[i], sum)"
SHUFFLE = "const float neighbour = __shfl_down_sync(0xffffffffu, sum, 1)"
SLICE_HERE = "    __syncthreads();  // the slice is here, and nobody reads the one before it\n"
EXPONENTIALS_THERE = "    });\n    __syncthreads();\n    s ="
NEXT_TILE = "  __syncthreads();  // the next tile's slices may come\n"
ROW_OF_LANE, COLUMN_OF_LANE = "(lane % 2 + lane / 16 * 2)", "lane / 2 % 8"
SMALL_MARGIN = "rounded(DoubleFloat<V>{s, rest}, margin * V::set1(0x1p-4f))"
PADDED = {
    "if (me < count) __pipeline_memcpy_async(&shared_b[me], &b[first + me], sizeof(float))": (
        "__pipeline_memcpy_async(&shared_b[me], &b[me < count ? first + me : 0], 4, me < count ? 0 : 4)"
    ),
    "i < count; ++i": "i < tile; ++i",
    "a[row * k + first + i]": "i < count ? a[row * k + first + i] : 0.0f",
}

BUGS = {
    "missing_barrier": Bug("reduce/grid_sum.hpp", {LANES_THERE: "    for (int lane"}, "bits thread"),
    "wrong_index": Bug("reduce/sum.hpp", {"by[q] = q * step;": "by[q] = q * step - 1;"}, "bits"),
    "wrong_column": Bug("reduce/grid_sum.hpp", {"lanes[lane + half][c];": "lanes[lane + half][c ^ 1];"}, "bits"),
    "one_element_too_many": Bug(
        "reduce/sum.hpp",
        {"q * step < left ? q": "q * step <= left ? q", "if (q * step < left) add": "if (q * step <= left) add"},
        "bits address",
    ),
    "end_of_run_not_seen": Bug("reduce/sum.hpp", {"q * step : by[q - 1]": "q * step : 0"}, "bits"),
    "wrong_mask": Bug("reduce/sum.hpp", {"full_warp_mask = 0xffffffffu": "full_warp_mask = 0x0000ffffu"}, "error"),
    "early_return": Bug("reduce/sum.hpp", {"  for (int half": "  if (me >= n) return sum;\n  for (int half"}, "error"),
    "wrong_subtree": Bug("reduce/grid_sum.hpp", {"group[r].load(from + at, ": "group[r].load(from + at / 2, "}, "bits"),
    "joined_past_the_end": Bug("reduce/grid_sum.hpp", {"by * join_each < left_": "by * join_each <= left_"}, "bits"),
    "groups_not_awaited": Bug(
        "reduce/grid_sum.hpp", {"  __syncthreads();\n  if (warp > 0) return;": "  if (warp > 0) return;"}, "bits thread"
    ),
    "gemm_slice_not_awaited": Bug("gemm/gemm.hpp", {SLICE_HERE: ""}, "bits thread"),
    "gemm_waits_for_a_group_less": Bug("gemm/gemm.hpp", {"prior(stages - 2)": "prior(stages - 1)"}, "bits"),
    "gemm_next_tile_too_early": Bug("gemm/gemm.hpp", {NEXT_TILE: ""}, "thread"),
    "gemm_lanes_row_by_row": Bug("gemm/gemm.hpp", {ROW_OF_LANE: "lane / 8", COLUMN_OF_LANE: "lane % 8"}, "bits"),
    "gemm_tail_padded": Bug("gemm/gemm.hpp", {"k < length; ++k": "k < depth; ++k"}, "bits"),
    "cast_reads_what_others_store": Bug(
        "pointwise/cast.cu", {"  if (first >= n) return;\n": "", "n ? i : first": "n ? i : n - 1"}, "thread"
    ),
    "packs_wherever_they_lie": Bug("base/pack.hpp", {" && packed(x) && (packed(more) && ...);": ";"}, "error"),
    "packs_past_the_row": Bug("base/pack.hpp", {"n % whole_pack<T> == 0 && packed(x)": "packed(x)"}, "address"),
    "packs_loaded_past_the_row": Bug(
        "base/pack.hpp", {"n ? first + j * stride : first": "n ? first + j * stride : n"}, "address"
    ),
    "packs_used_twice": Bug(
        "base/pack.hpp", {"if (j == 0 || first + j * stride < n) use(first + j": "use(first + j"}, "address"
    ),
    "register_row_past_its_end": Bug(
        "reduce/register_rows.hpp", {"distance(i) < n - first;": "distance(i) <= n - first;"}, "address"
    ),
    "register_lanes_of_one_chain": Bug(
        "reduce/register_rows.hpp", {"lane_[i % 2] += term": "lane_[0] += term"}, "bits"
    ),
    "register_tree_past_the_row": Bug(
        "reduce/register_rows.hpp", {"if (me + step < warps) sum": "if (me + step <= warps) sum"}, "bits"
    ),
    "register_warps_not_awaited": Bug(
        "reduce/register_rows.hpp", {"  __syncthreads();\n  return all[": "  return all["}, "bits thread"
    ),
    "warp_exp_undecided_taken": Bug("reduce/warp_exp.hpp", {"if (undecided == 0) return;": "return;"}, "bits"),
    "row_kept_in_half_of_it": Bug("reduce/row_reduce.hpp", {"? n * values * sizeof(T)": "? n * sizeof(T)"}, "address"),
    "row_max_of_a_warp": Bug("reduce/row_reduce.hpp", {"w < blockDim.x / warp_size": "w < 1"}, "bits"),
    "row_summed_too_early": Bug("reduce/softmax.cu", {EXPONENTIALS_THERE: "    });\n    s ="}, "bits thread"),
    "pixels_last_vector": Bug(
        WINDOWS, {"= first_row + row < rows;": "= first_row + row + Tiling::vector < rows;"}, "bits"
    ),
    "pixels_past_the_last_channel": Bug(WINDOWS, {"if (inside_ && first + k < length)": "if (inside_)"}, "address"),
    "taps_of_the_next_channel": Bug(WINDOWS, {"channel = t / windows.window.taps.divisor()": "channel = 0"}, "bits"),
    "taps_without_columns": Bug(WINDOWS, {"1u << (most_side + column(windows, t))": "1u << most_side"}, "bits"),
    "pairs_undecided_taken": Bug(f"{PAIRS}single.hpp", {"y.decided.m ? y.value.v :": "true ? y.value.v :"}, "bits"),
    "pairs_table_of_31": Bug(f"{PAIRS}single.hpp", {"(bits_of(index) & 31)": "(bits_of(index) & 30)"}, "bits"),
    "pairs_subnormal_parts": Bug(f"{PAIRS}single.hpp", {"Single{0x1p-126f} < x": "Single{0.0f} < x"}, "bits"),
    "pairs_erf_margin": Bug(f"{PAIRS}erf.hpp", {"rounded(DoubleFloat<V>{s, rest}, margin)": SMALL_MARGIN}, "bits"),
    "pairs_exp_margin": Bug(f"{PAIRS}exp.hpp", {"? 0x1p-22f :": "? 0x1p-24f :"}, "bits"),
    "pairs_exp_range": Bug(f"{PAIRS}exp.hpp", {"scales(x, 87.0f)": "scales(x, 89.0f)"}, "bits"),
    "pairs_expm1_margin": Bug(f"{PAIRS}expm1.hpp", {"expm1_far = 0x1.8p-23f": "expm1_far = 0x1.8p-27f"}, "bits"),
    "pairs_log_margin": Bug(
        f"{PAIRS}log.hpp", {"log_margin = {0x1p-23f, 0x1p-37f}": "log_margin = {0x1p-27f, 0x1p-41f}"}, "bits"
    ),
    "pairs_rsqrt_of_half": Bug(f"{PAIRS}rsqrt.hpp", {"V::set1(0.5f)": "V::set1(0.25f)"}, "bits"),
    "pairs_sigmoid_of_one_float": Bug(
        f"{PAIRS}sigmoid.hpp", {"residual + e.lo, residual)": "residual, residual)"}, "bits"
    ),
    "pairs_sin_margin": Bug(f"{PAIRS}sin.hpp", {"rounded(DoubleFloat<V>{s, rest}, margin)": SMALL_MARGIN}, "bits"),
    "pairs_sin_range": Bug(f"{PAIRS}sin.hpp", {"V::set1(0x1p+17f)": "V::set1(0x1p+24f)"}, "bits"),
    "pairs_tanh_margin": Bug(f"{PAIRS}tanh.hpp", {"tanh_margin = 0x1.bp-24f": "tanh_margin = 0x1.bp-28f"}, "bits"),
    "no_wait_for_copies": Bug("chain.cu", {"    __pipeline_wait_prior(0);\n": ""}, "bits"),
    "waits_for_a_group_less": Bug("chain.cu", {"__pipeline_wait_prior(0)": "__pipeline_wait_prior(1)"}, "bits"),
    "no_barrier_after_copies": Bug("chain.cu", {TILE_THERE: ""}, "bits thread"),
    "no_barrier_before_copies": Bug("chain.cu", {TILE_READ: ""}, "bits thread"),
    "barrier_for_some": Bug("chain.cu", {TILE_THERE: "    if (me < count) __syncthreads();\n"}, "error"),
    "shuffle_for_some": Bug("chain.cu", {SHUFFLE: f"float neighbour = 0;\n  if (me == 0) {SHUFFLE[12:]}"}, "error"),
    "padded_tail": Bug("chain.cu", PADDED, "bits"),
    "product_not_fused": Bug("chain.cu", {PRODUCT: "sum = a[row * k + first + i] * shared_b[i] + sum"}, "bits"),
    "tile_too_small": Bug("chain.cu", {"float b[tile];": "float b[tile - 1];"}, "address"),
}


def program(build: Build, folder: Path, file: str, edits: dict[str, str], sanitizer: str) -> Path:
    """The program that has this file in it, built of a copy in `folder` with edits."""
    chain = file == "chain.cu"
    if chain:
        shutil.copy(PROGRAMS / file, folder)
    else:
        shutil.copytree(PACKAGE / "native", folder, dirs_exist_ok=True)
        shutil.copytree(PACKAGE / "contract/include", folder / "include")
    (folder / file).write_text(plant((folder / file).read_text(), edits, file))
    if file.startswith(PAIRS):
        return build(PROGRAMS / "exact.cu", sanitizer=sanitizer, first=(folder / "include", folder))
    used = (
        ("conv/conv2d",)
        if file.startswith("conv/")
        else ("reduce/sum", "reduce/softmax", "gemm/matmul", "pointwise/cast")
    )
    ops = [PROGRAMS / "ops.cu", *(folder / f"{op}.cu" for op in used)]
    sources = [folder / file] if chain else ops
    return build(*sources, sanitizer=sanitizer, first=(folder,))


def outputs(program: Path, file: str) -> list[str]:
    """What the cases print with each seed: nothing if all is right."""
    printed = []
    seeds = SEEDS[:1] if file.startswith(PAIRS) else SEEDS  # functions of one element
    for seed, case in product(seeds, CASES[file]):
        environment = os.environ | {"REPDL_EMULATION_SEED": str(seed)}
        ran = subprocess.run([program, case], env=environment, capture_output=True, text=True, check=False)
        text = ran.stdout + ran.stderr
        assert (ran.returncode == 0) == (text == ""), (ran.returncode, text)
        printed.append(text)
    return printed


@pytest.mark.parametrize(
    "sanitizer", ["", *(pytest.param(s, marks=pytest.mark.nightly) for s in ("address", "thread"))]
)
def test_planted__nothing(sanitizer: str, build: Build, tmp_path: Path) -> None:
    chain = program(build, tmp_path, "chain.cu", {}, sanitizer)
    assert not any(outputs(chain, "chain.cu"))
    ops = program(build, tmp_path, "reduce/grid_sum.hpp", {}, sanitizer)
    files = ("reduce/grid_sum.hpp", "gemm/gemm.hpp", "pointwise/cast.cu", "base/pack.hpp")
    assert not any(text for file in files for text in outputs(ops, file))
    (tmp_path / "windows").mkdir()
    windows = program(build, tmp_path / "windows", WINDOWS, {}, sanitizer)
    assert not any(outputs(windows, WINDOWS))


def test_planted__nothing_in_exact_functions(build: Build, tmp_path: Path) -> None:
    exact = program(build, tmp_path, f"{PAIRS}single.hpp", {}, "")
    assert not any(text for file in CASES if file.startswith(PAIRS) for text in outputs(exact, file))


EVERY = [(name, way) for name, bug in BUGS.items() for way in bug.caught.split()]
SAMPLE = {("missing_barrier", "bits"), ("wrong_mask", "error")}
"""Without a sanitizer, whose programs take half a minute each; the nightly session plants all."""


@pytest.mark.parametrize(
    ("name", "way"), [pytest.param(*pair, marks=() if pair in SAMPLE else pytest.mark.nightly) for pair in EVERY]
)
def test_planted__bug(name: str, way: str, build: Build, tmp_path: Path) -> None:
    bug = BUGS[name]
    sanitizer = way if way in ("address", "thread") else ""
    printed = outputs(program(build, tmp_path, bug.file, bug.edits, sanitizer), bug.file)
    assert any(SAYS[way] in text for text in printed), printed


LAUNCHES = {
    "step_goes_around_once": Bug("step/step.cu", {"first < count; first += stride) {": "first < count; first = count) {"}, "second_rounds"),
    "step_first_list_only": Bug("step/step.cu", {"for (int c = 0; c < Element::columns; ++c) lists.tensor[t].at[c] = all[c][first + t]": "for (int c = 0; c < Element::columns; ++c) lists.tensor[t].at[c] = all[c][t]"}, "second_rounds"),
    "step_counts_of_the_first_list": Bug("step/step.cu", {"lists.count[t] = all[0][first + t].count();": "lists.count[t] = all[0][t].count();"}, "second_rounds"),
    "pool_nan_of_the_first_round": Bug("pool/max_pool2d.cu", {"to[i] = canonical(to[i]);": "if (i < threads) to[i] = canonical(to[i]);"}, "second_rounds"),
    "max_of_32_segments": Bug("reduce/max.cu", {"s < segments; s += warp_size) {": "s < segments && s < warp_size; s += warp_size) {"}, "second_rounds"),
    "pool_outputs_of_the_first_round": Bug("pool/max_pool2d.cu", {"o = plane * outputs + first + me;": "o = plane * outputs + me;"}, "second_rounds"),
    "index_sum_first_launch_elsewhere": Bug("reduce/index_sum.cu", {"launch(exec.op, fill_pairs, {ceil_div(size, threads)}, threads, 0, stream_of(exec)": "launch(exec.op, fill_pairs, {ceil_div(size, threads)}, threads, 0, Stream{exec.device, 0}"}, "stream"),
    "max_last_launch_elsewhere": Bug("reduce/max.cu", {"launch(exec.op, share_grad<T>, {ceil_div(rows * n, tile_of(threads))}, threads, 0, stream": "launch(exec.op, share_grad<T>, {ceil_div(rows * n, tile_of(threads))}, threads, 0, Stream{exec.device, 0}"}, "stream"),
    "draw_grid_without_the_first_block": Bug("random/draw.cu", {"+ static_cast<std::int64_t>(at.offset % 4)": ""}, "draws"),
    "permutation_grid_without_the_first_block": Bug("random/permutation.cu", {"ceil_div(ceil_div(size + 3, 4), threads)": "ceil_div(ceil_div(size, 4), threads)"}, "draws"),
    "sort_launch_elsewhere": Bug("random/permutation.cu", {"launch(exec.op, copy_indices, {ceil_div(n, threads)}, threads, 0, stream,": "launch(exec.op, copy_indices, {ceil_div(n, threads)}, threads, 0, n > 8 ? Stream{exec.device, 0} : stream,"}, "stream"),
}  # fmt: skip
"""What test_launches.py finds, and which of its tests, in a module that has the file with the mistake."""


def test_planted__texts_are_there() -> None:
    """Those of the nightly session too."""
    for bug in (*BUGS.values(), *LAUNCHES.values()):
        roots = PROGRAMS, PACKAGE / "native", PACKAGE / "contract"
        path = next(root / bug.file for root in roots if (root / bug.file).exists())
        plant(path.read_text(), bug.edits, bug.file)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["", *LAUNCHES])
def test_planted__in_launches(name: str, build_module: Callable[[Path, Path, str], Path], tmp_path: Path) -> None:
    bug = LAUNCHES.get(name, Bug("reduce/max.cu", {}, "stream or second_rounds"))
    shutil.copytree(PACKAGE / "native", tmp_path / "native")
    file = tmp_path / "native" / bug.file
    file.write_text(plant(file.read_text(), bug.edits, bug.file))
    module = build_module(tmp_path, tmp_path / "native", bug.file)
    environment = os.environ | {"REPDL_CUDA_TEST_MODULE": str(module), "PYTEST_ADDOPTS": ""}
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", str(PACKAGE / "tests/test_launches.py")]
    command += ["-k", bug.caught]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=PACKAGE.parents[1])
    assert done.returncode == (1 if name else 0), f"{done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
