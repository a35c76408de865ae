"""Kernels that wait for the memory have several loads on their way and no doubles, and the counts of that are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from audit import counts, toolkit

PACKAGE = Path(__file__).parents[2]
FLAGS = ["-std=c++17", "--fmad=false", f"-I{PACKAGE}/native", f"-I{PACKAGE}/contract/include"]

OF_WHOLE_WARPS = "in_registersINS0_12RegisterRowsILi16E"
"""In the names of kernels of rows in registers, of which a thread has 32 elements."""
AT_ONCE = {
    "loss/cross_entropy.cu": {"row_lossesIfLb": (8, 64), OF_WHOLE_WARPS: (31, 128), "row_gradientsIf": (5, 24)},
    "loss/nll_loss.cu": {"loss_gradients": (4, 32)},
    "norm/batch_norm.cu": {"scale_channels": (17, 68), "channel_gradients": (20, 80)},
    "norm/norm_rows.cu": {"norm_of_rows": (8, 64), "norm_row_gradients": (4, 64), OF_WHOLE_WARPS: (31, 128)},
    "pointwise/cast.cu": {"cast_elements": (3, 8)},
    "reduce/max.cu": {"best_of_segments": (12, 64), "count_ties": (6, 48), "share_grad": (8, 32)},
    "reduce/softmax.cu": {"softmax_rowsIf": (8, 64), "softmax_gradientsIfLb": (8, 56), OF_WHOLE_WARPS: (32, 128)},
    "reduce/sum.cu": {"sum_rows": (7, 28), "sum_columns": (7, 28)},
    "step/step.cu": {"SgdElement": (6, 32), "RmspropElement": (12, 48), "AdamElement": (14, 56)},
}
"""Of kernels of a name the least loads, and bytes a thread, that nvcc 13.0 gets on their way at once."""


def listing(*code: str) -> str:
    lines = "".join(f"        /*{16 * i:04x}*/    {line} ;\n" for i, line in enumerate(code))
    return f"\t\tFunction : kernel\n{lines}"


@pytest.mark.parametrize(
    ("code", "at_once"),
    [
        (("LDG.E R2, [R8]", "LDG.E R3, [R8+0x4]", "FADD R4, R2, R3"), 2),
        (("LDG.E R2, [R8]", "FADD R4, R2, R4", "LDG.E R3, [R8+0x4]"), 1),
        (("LDG.E R2, [R8]", "@P0 BRA 0x40", "LDG.E R3, [R8+0x4]"), 1),
        (("LDG.E.64 R2, [R8]", "LDG.E R4, [R3]", "LDG.E R5, [R8]"), 2),  # R3 is loaded too
        (("LDG.E R2, [R8]", "STG.E [R8], R2", "LDG.E R3, [R8]"), 1),
        (("FADD R4, R2, R3",), 0),
    ],
)
def test_counts__loads_on_their_way(code: tuple[str, ...], at_once: int) -> None:
    (found,) = counts.counts(listing(*code)).values()
    assert (found.instructions, found.at_once) == (len(code), at_once)


def test_counts__bytes_on_their_way() -> None:
    code = ("LDG.E.128 R4, [R8]", "LDG.E.64 R10, [R8]", "LDG.E R12, [R8]", "FADD R4, R7, R10", "LDG.E R3, [R8]")
    (found,) = counts.counts(listing(*code)).values()
    assert (found.at_once, found.bytes_at_once) == (3, 28)


def test_counts__doubles_but_in_what_is_called() -> None:
    code = (
        "F2F.F64.F32 R2, R4",
        "DFMA R2, R2, R2, R2",
        "CALL.ABS.NOINC R14",
        "CALL.REL.NOINC 0x60",
        "FADD R4, R4, R4",
        "EXIT",
        "DADD R2, R2, R2",
    )
    (found,) = counts.counts(listing(*code)).values()
    assert found.doubles == 2


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90", "sm_120"])
def test_counts__exact_functions_by_pairs(architecture: str, tmp_path: Path) -> None:
    """Of the functions that a GPU computes by pairs of floats only undecided elements take doubles."""
    flags = [*FLAGS, f"-arch={architecture}", f"-I{PACKAGE}/tests/native"]
    toolkit.run("nvcc", "-cubin", "-o", tmp_path / "exact.cubin", *flags, PACKAGE / "tests/native/exact.cu")
    found = counts.counts(toolkit.run("cuobjdump", "-sass", tmp_path / "exact.cubin"))
    assert len(found) == 13
    assert {name: counted.doubles for name, counted in found.items() if counted.doubles} == {}


OF_FLOATS = r"I(Lb[01]E)?(f|NS0_7TwoSumsIfE)"
"""In the name of a kernel that is a template."""
IN_DOUBLES = [
    *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atan2", "Atanh", "Cosh", "Erfc", "Erfinv", "Fmod"),
    *("PowTensor", "Remainder", "Sinh", "Tan"),
]
"""Functions of floats that a GPU computes in doubles: there are no pairs of floats for them, or they need doubles."""


def test_counts__no_doubles_in_kernels_of_floats(tmp_path: Path) -> None:
    """Options are rounded on the host."""
    for source in ("pointwise/pointwise.cu", "norm/batch_norm.cu", "norm/norm_rows.cu"):
        toolkit.run(
            "nvcc", "-cubin", "-o", tmp_path / "kernels.cubin", "-arch=sm_90", *FLAGS, PACKAGE / "native" / source
        )
        found = counts.counts(toolkit.run("cuobjdump", "-sass", tmp_path / "kernels.cubin"))
        of_floats = {name: counted.doubles for name, counted in found.items() if re.search(OF_FLOATS, name)}
        assert len(of_floats) > 2
        functions = [re.search(r"9pointwise\d+(\w+?)IfE", name) for name, doubles in of_floats.items() if doubles]
        named = sorted({function[1] if function else source for function in functions})
        assert named == (IN_DOUBLES if source == "pointwise/pointwise.cu" else [])


@pytest.mark.parametrize("source", AT_ONCE)
def test_counts__kernels(source: str, tmp_path: Path) -> None:
    toolkit.run("nvcc", "-cubin", "-o", tmp_path / "kernels.cubin", "-arch=sm_90", *FLAGS, PACKAGE / "native" / source)
    found = counts.counts(toolkit.run("cuobjdump", "-sass", tmp_path / "kernels.cubin"))
    for name, (least, least_bytes) in AT_ONCE[source].items():
        kernels = {kernel: counted for kernel, counted in found.items() if name in kernel}
        assert kernels, f"{source} has no kernel {name}"
        assert min(counted.at_once for counted in kernels.values()) >= least, kernels
        assert min(counted.bytes_at_once for counted in kernels.values()) >= least_bytes, kernels
