"""The CPU kernels on other processors: recorded calls, compiled for them and repeated under an emulator.

    python tools/targets/replay.py [aarch64 riscv64 s390x ppc64le ...] [--sample N]

Every call that the golden cases make to repdl-cpu's native functions is recorded here, with all bytes
of its buffers before and after. The sources, without Python or torch, are compiled by
`<target>-linux-gnu-g++` (or $CXX for `host`) without a warning, and repeat the calls under
`qemu-<target>`: in each rounding mode of the caller, and with flush-to-zero where the target has it.
Fails where one byte differs. What runs here is compared with the golden bits first.
"""

from __future__ import annotations

import argparse
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import torch

import repdl
from repdl.backend import get_backend
from repdl.registry import implementations
from repdl.testing import Case, cases, check_golden, covers, run
from repdl_cpu import isa

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
NATIVE = ROOT / "packages/repdl-cpu/native"
FLAGS = [
    *("-std=c++17", "-O3", "-Wall", "-Wextra", "-Werror", "-pthread", "-static"),
    "-Wno-pass-failed",  # clang: what it could not vectorise
    *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),  # those of repdl_contractConfig.cmake
    *(f"-I{HERE}", f"-I{NATIVE}", f"-I{ROOT / 'packages/repdl-cpu/contract/include'}", "-DREPDL_MODULE=_replayed"),
]
MODES = ["nearest", "down", "up", "zero", "flush"]
THREADS = 3


def _word(value: int) -> bytes:
    return struct.pack("<q", value)


class _Memory:
    """The storages whose addresses the glue took, until the next native call."""

    def __init__(self) -> None:
        self.storages: dict[int, tuple[torch.UntypedStorage, int]] = {}

    def seen(self, tensor: torch.Tensor) -> None:
        storage = tensor.untyped_storage()
        self.storages[storage.data_ptr()] = (storage, tensor.element_size())

    def find(self, address: int) -> tuple[int, int] | None:
        for index, (start, (storage, _)) in enumerate(self.storages.items()):
            if start and start <= address < start + max(1, storage.nbytes()):
                return index, address - start
        return None

    def contents(self) -> list[bytes]:
        return [bytes(torch.empty(0, dtype=torch.uint8).set_(storage).numpy()) for storage, _ in self.storages.values()]

    def encode(self, argument: Any) -> bytes:
        if isinstance(argument, (list, tuple)):
            return b"l" + _word(len(argument)) + b"".join(map(self.encode, argument))
        if isinstance(argument, float):
            return b"d" + struct.pack("<d", argument)
        place = self.find(argument) if argument > 1 << 20 else None
        return b"i" + _word(int(argument)) if place is None else b"p" + _word(place[0]) + _word(place[1])


class _Recorder:
    """A native module that writes down its calls."""

    def __init__(self, module: Any, prefix: str, memory: _Memory, file: BinaryIO) -> None:
        self._module, self._prefix, self._memory, self._file = module, prefix, memory, file
        if not prefix:
            self.f64 = _Recorder(module.f64, "f64.", memory, file)

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._module, name)

        def call(*args: Any) -> Any:
            memory = self._memory
            encoded, before = b"".join(map(memory.encode, args)), memory.contents()
            result = function(*args)
            full = (self._prefix + name).encode()
            self._file.write(_word(len(full)) + full + _word(len(before)))
            for old, new, (_, size) in zip(before, memory.contents(), memory.storages.values()):
                self._file.write(_word(size) + _word(len(old)) + old + _word(len(new)) + new)
            self._file.write(_word(len(encoded)) + encoded)
            memory.storages.clear()
            return result

        return call


@contextmanager
def _recorded(path: Path) -> Iterator[None]:
    memory, plain, module = _Memory(), torch.Tensor.data_ptr, isa.native()

    def data_ptr(tensor: torch.Tensor) -> int:
        memory.seen(tensor)
        return int(plain(tensor))

    with path.open("wb") as file:
        isa._Current.module = _Recorder(module, "", memory, file)
        torch.Tensor.data_ptr = data_ptr  # type: ignore[assignment]
        try:
            yield
        finally:
            torch.Tensor.data_ptr = plain  # type: ignore[assignment]
            isa._Current.module = module


def record(chosen: Iterable[Case], contracts: Iterable[str], path: Path) -> None:
    """Write the native calls that the cases make to a file."""
    table = implementations(get_backend("cpu"))
    repdl.set_num_threads(THREADS)
    with _recorded(path):
        for case in chosen:
            for contract in contracts:
                run(case, contract, table[case.op])


def build(target: str, folder: Path) -> Path:
    """Compile the kernels and replay.cpp as one program."""
    sources = sorted(path for path in NATIVE.glob("*/*.cpp") if path.name != "machine.cpp")
    kernels, program = folder / "kernels.inc", folder / target
    kernels.write_text("".join(f'#include "{source}"\n' for source in sources))
    compiler = os.environ.get("CXX", "c++") if target == "host" else f"{target}-linux-gnu-g++"
    if not shutil.which(compiler):
        raise SystemExit(f"replay: {compiler} is not here, expected a compiler for {target}")
    definition = f'-DREPDL_KERNELS="{kernels}"'
    subprocess.run([compiler, *FLAGS, definition, str(HERE / "replay.cpp"), "-o", str(program)], check=True)
    return program


def emulator(target: str) -> list[str]:
    """The command that runs programs of a target."""
    if target == "host":
        return []
    for name in (f"qemu-{target}-static", f"qemu-{target}"):
        if shutil.which(name):
            return [name]
    raise SystemExit(f"replay: qemu-{target} is not here, expected an emulator")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("targets", nargs="*", default=["aarch64", "riscv64", "s390x"], metavar="target")
    parser.add_argument("--sample", type=int, default=1, metavar="N", help="every Nth case")
    options = parser.parse_args()
    chosen = [case for case in cases() if covers(case, "cpu")][:: options.sample]
    contracts = ("v1", "sequential")
    failed = False
    with tempfile.TemporaryDirectory() as name:
        calls = Path(name) / "calls"
        for case in chosen:
            for contract in contracts:
                check_golden(case, "cpu", contract)
        record(chosen, contracts, calls)
        for target in options.targets:
            runs = emulator(target)
            program = build(target, Path(name))
            print(f"{target}:", flush=True)
            failed |= subprocess.run([*runs, str(program), str(calls), *MODES], check=False).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
