"""Tests of the tests: mistakes planted in files of Python, one at a time, are each caught by the tests of their kind.

As test_planted.py of repdl-cpu and repdl-cuda do it with kernels. The ordinary run sees that every text is still there
and plants one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from repdl.testing.planted import plant

ROOT = Path(__file__).parents[1]
CORE, NN = "packages/repdl-core/src/repdl/", "packages/repdl-nn/src/repdl/nn/"
OVERLAPS = "packages/repdl-cpu/tests/test_replay_overlaps.py"
LAYOUTS = "packages/repdl-core/tests/registry/test_layout_repeated.py"
SHARING = "packages/repdl-nn/tests/test_nn_sharing.py"
LIMITS = "packages/repdl-core/tests/audit/test_torch_ops.py -k limits"
GENERATORS = "packages/repdl-core/tests/enable/test_enable_generators.py"
CHAINS = "packages/repdl-cpu/tests/test_replay_blocks.py"
UPDATES = "packages/repdl-cpu/tests/test_replay_updates.py"
DRAWS = "packages/repdl-cpu/tests/test_replay_draws.py -k before_a_draw"
PLACES = "packages/repdl-core/tests/callcache/test_spans.py"
SORTS = "packages/repdl-core/tests/sorting/test_sort.py"
SCOPES = "packages/repdl-core/tests/settings/test_scopes.py"


@dataclass(frozen=True)
class Bug:
    file: str
    edits: dict[str, str]
    """Text that stands once in the file -> what is planted in its place."""
    tests: str
    """The file that fails, and behind " -k " what of it."""


BUGS = {
    "broadcast_vectors_have_torchs_sum": Bug(CORE + "ops/losses/distance.py", {"expand_to(x, shape, c) for x": "x.expand(shape) for x"}, "packages/repdl-core/tests/losses/test_distance.py"),
    "repeated_matrices_have_torchs_sum": Bug(CORE + "ops/linalg/solve_triangular.py", {"expand_to(t, (*batch, *t.shape[-2:]), contract)": "t.expand(*batch, -1, -1)"}, "packages/repdl-core/tests/linalg/test_solve_triangular.py"),
    "repeated_right_sides_have_torchs_sum": Bug(CORE + "ops/linalg/lstsq.py", {"expand_to(t, (*batch, *t.shape[-2:]), contract) for t in (q, r, b)": "t.expand(*batch, -1, -1) for t in (q, r, b)"}, "packages/repdl-core/tests/linalg/test_lstsq.py"),
    "cholesky_slope_not_halved": Bug(CORE + "ops/linalg/cholesky.py", {"inner = mul(add(inner, inner.tril(-1).mT), 0.5)": "inner = add(inner, inner.tril(-1).mT)"}, "packages/repdl-core/tests/linalg/test_cholesky.py"),
    "cholesky_info_counts_from_0": Bug(CORE + "ops/linalg/_info.py", {"first = failed.cumsum(-1).eq(0).sum(-1) + 1": "first = failed.cumsum(-1).eq(0).sum(-1)"}, "packages/repdl-core/tests/linalg/test_cholesky.py"),
    "pivots_of_signed_elements": Bug(CORE + "ops/linalg/lu.py", {"_ops.max_dim(column.abs(), column.dim() - 2, True)": "_ops.max_dim(column, column.dim() - 2, True)"}, "packages/repdl-core/tests/linalg/test_lu.py"),
    "zero_pivots_divide": Bug(CORE + "ops/linalg/lu.py", {"torch.where(_is_zero(diagonal), 1.0, diagonal), c)": "diagonal, c)"}, "packages/repdl-core/tests/linalg/test_lu.py"),
    "wide_matrices_have_no_slope_of_U2": Bug(CORE + "ops/linalg/lu.py", {"low = sub(low, _ops.matmul(g_wide, wide, False, True, contract))": "low = low"}, "packages/repdl-core/tests/linalg/test_lu.py"),
    "determinants_of_even_permutations": Bug(CORE + "ops/linalg/solve.py", {"odd = (moved.sum(-1) % 2 == 1)": "odd = (moved.sum(-1) > 0)"}, "packages/repdl-core/tests/linalg/test_lu.py"),
    "right_sides_are_not_permuted": Bug(CORE + "ops/linalg/solve.py", {".gather(-2, rows.unsqueeze(-1).expand(shape))": ""}, "packages/repdl-core/tests/linalg/test_lu.py"),
    "a_nan_in_the_order_of_its_bits": Bug(CORE + "ops/common/packed.py", {"key[is_nan] = -most if nan_is_least else most": "pass"}, SORTS),
    "minus_zero_before_zero": Bug(CORE + "ops/common/packed.py", {"        key -= sign\n": ""}, SORTS),
    "the_last_of_equal_elements_first": Bug(CORE + "ops/common/packed.py", {"np.invert(key, out=key)\n    key <<= _SHIFT": "key <<= _SHIFT\n        np.invert(key, out=key)\n    else:\n        key <<= _SHIFT"}, SORTS),
    "sorted_from_the_first_on": Bug(CORE + "ops/common/packed.py", {"sorted(ends - {0} or ends)": "max(ends)"}, SORTS),
    "checks_of_one_range_are_one": Bug(CORE + "callcache/planner.py", {" and given.passes.is_exact:": ":"}, "packages/repdl-cpu/tests/test_replay_reads.py -k two_checks"),
    "graphs_have_the_order_of_their_example": Bug(CORE + "tensors/values.py", {"if torch._C._len_torch_dispatch_stack() or torch._C._get_tracing_state() is not None:": "if False:"}, SORTS),
    "extent_one_element_short": Bug(CORE + "callcache/spans.py", {"(1 + sum((n - 1) * stride": "(0 + sum((n - 1) * stride"}, OVERLAPS),
    "halves_forget_what_is_repeated": Bug(CORE + "dtypes/__init__.py", {"if 0 not in tensor.stride() or tensor.numel() == 0:": "if True:"}, LAYOUTS),
    "first_dimension_is_not_repeated": Bug(CORE + "dtypes/__init__.py", {"if stride == 0 else slice(None) for stride in tensor.stride()": "if stride == 0 and i else slice(None) for i, stride in enumerate(tensor.stride())"}, LAYOUTS),
    "repeated_strides_decide": Bug(CORE + "tensors/layout.py", {"if a == 0 or b == 0:": "if a == 0 and b == 0:"}, LAYOUTS),
    "masks_of_any_dtype": Bug(CORE + "registry/define.py", {"and args[index].dtype is not torch.bool:": "and False:"}, "packages/repdl-core/tests/registry/test_dtypes.py"),
    "masks_that_are_given_are_not_looked_at": Bug(CORE + "dtypes/__init__.py", {"for i in self.bools: if args[i] is not None:": "for i in self.bools:\n            if args[i] is None:"}, "packages/repdl-core/tests/registry/test_dtypes.py"),
    "integers_hold_one_more": Bug(CORE + "audit/reproducibility.py", {"(values < limits.max + 1.0)": "(values <= limits.max)"}, LIMITS),
    "integers_hold_one_less": Bug(CORE + "audit/reproducibility.py", {"(values >= limits.min)": "(values > limits.min)"}, LIMITS),
    "fractions_are_not_dropped": Bug(CORE + "audit/reproducibility.py", {"source.detach().trunc().double()": "source.detach().double()"}, LIMITS),
    "high_word_not_read": Bug(CORE + "overrides/draws.py", {"high << 32 | low if mark": "low if mark"}, GENERATORS),
    "high_word_not_written": Bug(CORE + "overrides/draws.py", {"_FRESH, 0, offset >> 32,": "_FRESH, 0, offset >> 40,"}, GENERATORS),
    "offset_of_a_device_in_40_bits": Bug(CORE + "overrides/draws.py", {"divmod(kept // 4, 2**_DEVICE_BITS)": "divmod(kept // 4 & ~(1 << 40), 2**_DEVICE_BITS)"}, GENERATORS),
    "tasks_are_not_asked": Bug(CORE + "settings/scopes.py", {"if self._in_tasks or self._thread.value is None:": "if self._thread.value is None:"}, SCOPES),
    "scope_of_a_task_is_its_threads": Bug(CORE + "settings/scopes.py", {"if not in_task: self._thread.value": "if True:\n            self._thread.value"}, SCOPES),
    "scopes_hold_no_recording_back": Bug(CORE + "settings/scopes.py", {"GENERATION.hold(by)": "GENERATION.hold(0)"}, SCOPES),
    "attributes_are_no_owners": Bug(NN + "convert.py", {"[vars(module) for module": "[vars(module)['_buffers'] | module._parameters for module"}, SHARING),
    "buffers_are_no_owners": Bug(NN + "convert.py", {"for tensor in tensors.values(): storage = _storage(tensor) if": "for tensor in model.parameters():\n        storage = _storage(tensor)\n        if"}, SHARING),
    "offset_in_a_shared_storage": Bug(NN + "convert.py", {"(own, tensor.storage_offset(), tensor.shape": "(own, 0, tensor.shape"}, SHARING),
    "non_leaf_attribute_gets_its_own_memory": Bug(NN + "convert.py", {"(is_parameter or not tensor.is_leaf)": "is_parameter"}, SHARING),
    "one_operand_has_the_shape": Bug(CORE + "tensors/layout.py", {"same = all(t.shape == first.shape": "same = any(t.shape == first.shape"}, "packages/repdl-core/tests/registry/test_layout.py"),
    "no_two_strides_meet": Bug(CORE + "tensors/overlap.py", {"return sides[0][0] == 0 or _meet(sides)": "return sides[0][0] == 0"}, "packages/repdl-core/tests/registry/test_memory.py"),
    "reached_by_smaller_strides_one_short": Bug(CORE + "tensors/overlap.py", {"if stride <= reached:": "if stride < reached:"}, "packages/repdl-core/tests/registry/test_memory.py"),
    "numbers_keep_another_nan": Bug(CORE + "overrides/nans.py", {"return math.nan if isinstance(value, float) and math.isnan(value) else value": "return value"}, "packages/repdl-core/tests/enable/test_enable_nans.py -k pythons_bits"),
    "dimension_from_the_end_is_kept": Bug(CORE + "overrides/backward_ops.py", {"return dim % max(tensor.dim(), 1)": "return dim"}, "packages/repdl-core/tests/enable/test_enable_backward_ops.py -k from_the_end"),
    "uniform_from_zero_ends_at_one": Bug(CORE + "generators/draws.py", {"if low == 0 and high == 1:": "if low == 0:"}, "packages/repdl-core/tests/sampling/test_random_functions.py -k ends_of"),
    "compiled_zeros_by_value": Bug(CORE + "compiling/zeros.py", {"if value == 0 and is_traced():": "if False:"}, "packages/repdl-core/tests/compiling/test_compiling_zeros.py"),
    "saved_whatever_is_wanted": Bug(CORE + "registry/saved.py", {"tensor if any(needed[i] for i in inputs) else None": "tensor"}, "packages/repdl-core/tests/registry/test_saved.py"),
    "saved_for_the_other_gradient": Bug(CORE + "registry/named.py", {"if any(needed[i] for i in needing)": "if not all(needed[i] for i in needing)"}, "packages/repdl-core/tests/registry/test_saved.py"),
    "what_is_its_input_is_written": Bug(CORE + "overrides/binding.py", {"return self if result is given else write(self, result)": "return write(self, result)"}, "packages/repdl-core/tests/registry/test_saved.py"),
    "changed_beside_is_recorded": Bug(CORE + "callcache/planner.py", {"trace.is_cacheable and not trace.changed": "trace.is_cacheable"}, UPDATES),
    "changed_beside_is_recorded_in_place": Bug(CORE + "callcache/planner.py", {"trace.changed or trace.copies or": "trace.copies or"}, UPDATES),
    "drawn_before_values_are_looked_at": Bug(CORE + "callcache/planner.py", {"all(_is_of(c.passes, positions) for": "all(c.passes is not None for"}, DRAWS),
    "drawn_before_a_check": Bug(CORE + "callcache/planner.py", {"return passes is not None and index_of": "return passes is None or index_of"}, DRAWS),
    "reshaped_in_another_dtype": Bug(CORE + "callcache/spans.py", {"if tensor.dtype is not source.dtype or tensor.numel()": "if tensor.numel()"}, PLACES),
    "reshaped_of_other_strides": Bug(CORE + "callcache/spans.py", {"tensor.is_contiguous() and source.is_contiguous()": "tensor.is_contiguous()"}, PLACES),
    "reshaped_by_two_nodes": Bug(CORE + "callcache/spans.py", {"in _RESHAPES and node.next_functions[0] == get_gradient_edge(source)[:2]": "in _RESHAPES"}, PLACES),
    "values_of_strides_are_looked_at_in_c": Bug(CORE + "callcache/planner.py", {" or not tensor.is_contiguous(): return None": ": return None"}, "packages/repdl-cpu/tests/test_replay.py -k any_strides"),
    "chain_results_in_the_first_block": Bug(CORE + "callcache/blocks.py", {"begin * output.itemsize if k in self.results else 0": "0"}, CHAINS),
    "chain_parts_of_floats": Bug(CORE + "callcache/blocks.py", {"begin * part.itemsize if": "begin * 4 if"}, CHAINS),
    "chain_memory_of_another_size": Bug(CORE + "callcache/blocks.py", {"if alike(slots[s - len(self.results)], output)": "if slots[s - len(self.results)].dtype is output.dtype"}, CHAINS),
    "chain_without_its_last_block": Bug(CORE + "callcache/blocks.py", {"range(0, size, length)": "range(0, size - length, length)"}, CHAINS),
    "chain_memory_that_is_still_read": Bug(CORE + "callcache/blocks.py", {"last.get(id(self.outputs[j])) == k and": "last.get(id(self.outputs[j]), k) >= k and"}, CHAINS),
    "integers_of_the_limit": Bug(CORE + "overrides/conversions.py", {"held = value.abs() < 2.0**bits": "held = value.abs() <= 2.0**bits"}, "packages/repdl-core/tests/enable/test_enable_conversions.py -k in_range"),
    "longs_get_the_lowest_int": Bug(CORE + "overrides/conversions.py", {"torch.tensor(-(2**bits), dtype=wide)": "torch.tensor(-(2**31), dtype=wide)"}, "packages/repdl-core/tests/enable/test_enable_conversions.py -k one_rule"),
    "scatter_of_a_larger_source": Bug(CORE + "overrides/repeats.py", {"given = source[tuple(slice(n) for n in index.shape)]": "given = source"}, "packages/repdl-core/tests/enable/test_enable_repeats.py"),
    "epoch_begins_where_another_one_stopped": Bug(CORE + "random/sampling.py", {"self.epoch, self._next, self._given, self._ahead = epoch, 0, 0, False": "self.epoch, self._given, self._ahead = epoch, 0, False"}, "packages/repdl-core/tests/sampling/test_sampler.py -k one_after_the_other"),
    "generator_of_a_worker_is_its_own": Bug(CORE + "generators/generator.py", {'self._process = kept["process"]': "self._process = os.getpid()"}, "packages/repdl-core/tests/sampling/test_generator.py -k workers"),
    "one_tensor_as_two_numbers": Bug(CORE + "overrides/shortcuts.py", {" or len(unique(read)) < len(read):": ":"}, "packages/repdl-core/tests/enable/test_enable_shortcuts.py -k takes_for_numbers"),
    "scatter_along_the_first_dimension": Bug(CORE + "audit/reproducibility.py", {'_repeated(index, arguments["dim"])': "_repeated(index, 0)"}, "packages/repdl-core/tests/audit/test_torch_ops.py -k by_index"),
    "repeated_channels_come_last": Bug(CORE + "tensors/layout.py", {" or strides[1] == 0:": ":"}, f"{LAYOUTS} -k images"),
    "bias_of_one_group": Bug(CORE + "overrides/backward_ops.py", {"weight.shape[1] * groups if transposed": "weight.shape[1] if transposed"}, "packages/repdl-core/tests/enable/test_enable_backward_ops.py -k every_convolution"),
}  # fmt: skip
SAMPLE = ("extent_one_element_short",)


def test_planted__texts_are_there() -> None:
    for bug in BUGS.values():
        plant((ROOT / bug.file).read_text(), bug.edits, bug.file)


@pytest.mark.parametrize("name", [n if n in SAMPLE else pytest.param(n, marks=pytest.mark.nightly) for n in BUGS])
def test_planted__bug(name: str) -> None:
    bug = BUGS[name]
    paths = f"{Path(__file__).parent / 'planted'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = os.environ | {"PYTHONPATH": paths, "PYTEST_ADDOPTS": ""}
    environment["REPDL_PLANTED"] = json.dumps([bug.file, bug.edits])
    file, *more = bug.tests.split(" -k ")
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += [file, *(("-k", more[0]) if more else ())]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1, f"not caught: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
