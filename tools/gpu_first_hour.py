"""What a GPU is asked first, on a machine that is there for minutes and reaches no network.

    python tools/gpu_first_hour.py pack --mnist DIR      # at home: what the machine lacks, into build/gpu/packed
    cp repdl_cuda-*.whl build/gpu/packed/wheels          # or nothing: then repdl-cuda is built there
    python tools/gpu_first_hour.py run 1 --into FOLDER   # there, with the checkout and that; then 2, then 3

The machine has Python, torch with CUDA, numpy, tqdm, pytest, pytest-xdist, scikit-build-core, pybind11, CMake, ninja
and nvcc. The pure packages are wheels of `pack`. repdl-cuda is built for its GPU alone, unless a wheel for that Python
is there too; without a wheel of repdl-cpu the reference backend computes what is on the CPU.

Part 1 compares bits: golden cases, MNIST, models, what only a GPU can run, programs under `enable()`, parity, all at
once. Part 2 is speed, one after the other: benchmarks, the tiles of products, profiles. Part 3 is compute-sanitizer.
Every stage has a limit of its own, and a part ends within --seconds. FOLDER/log_1.txt has all output and
report_1.json what came out; both are written as it goes. --rehearse runs the same on the emulated kernels, a sample of
it, and says what needs a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, TextIO

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build/gpu"
"""What is made on the machine; `run` finds it there the next time."""
PACKED = BUILD / "packed"
"""What is brought there."""
SITE = BUILD / "site"
WHEELS, MNIST, START = (PACKED / name for name in ("wheels", "mnist", "start.pt"))
PURE = [f"packages/repdl-{name}" for name in ("core", "nn", "optim")]
TESTS = "packages/repdl-cuda/tests"
PYTHON = sys.executable
PIP = [PYTHON, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--upgrade", "--target", str(SITE)]
GRACE = 8
"""Seconds that a stopped process has for its last words."""
TAIL = 12
"""Lines of a stage's output in the report."""

PROFILED = """
import torch, repdl
a, x = torch.rand(4096, 4096, device="cuda"), torch.rand(16384, 16384, device="cuda")
images, weights = torch.rand(256, 64, 56, 56, device="cuda"), torch.rand(64, 64, 3, 3, device="cuda")
torch.cuda.synchronize()
repdl.ops.mm(a, a)
repdl.ops.mm(torch.rand(802816, 64, device="cuda"), torch.rand(802816, 10, device="cuda"), True)
repdl.ops.sum(x)
repdl.ops.sum(x, 0)
repdl.ops.sum(x, 1)
repdl.ops.conv2d(images, weights, padding=1)
repdl.ops.softmax(x, 1)
repdl.ops.layer_norm(x, (16384,))
repdl.ops.exp(x)
repdl.ops.add(x, x)
torch.cuda.synchronize()
"""


@dataclass
class Stage:
    """Commands that run at once, for at most so many seconds."""

    name: str
    limit: int
    commands: list[list[str]]
    environment: dict[str, str] = field(default_factory=dict)
    needs_gpu: bool = False
    """Whether a rehearsal leaves it out."""
    results: list[Path] = field(default_factory=list)
    """JSON files that it writes, for the report."""


def pack(mnist: Path | None) -> None:
    """Wheels of the pure packages, the images and the initial model of the MNIST run."""
    shutil.rmtree(PACKED, ignore_errors=True)
    WHEELS.mkdir(parents=True)
    packages = [str(ROOT / package) for package in PURE]
    subprocess.run([PYTHON, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(WHEELS), *packages], check=True)
    subprocess.run([PYTHON, "-m", "pip", "download", "-q", "--no-deps", "-d", str(WHEELS), "expecttest"], check=True)
    if mnist is not None:
        MNIST.mkdir()
        for path in mnist.glob("*-ubyte*"):
            shutil.copy(path, MNIST)
    subprocess.run([PYTHON, "examples/mnist_training.py", "--save-start", str(START)], cwd=ROOT, check=True)


def of_gpu() -> str:
    """The architecture that the GPU here has, as CMake spells it."""
    code = "import torch; print('%d%d-real' % torch.cuda.get_device_capability())"
    return subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def build(rehearse: bool) -> Stage:
    """Install what `pack` made, and repdl-cuda from its sources unless a wheel of it is there."""
    steps = [[*PIP, *(str(wheel) for wheel in sorted(WHEELS.glob("*.whl")))]]
    if rehearse or not list(WHEELS.glob("repdl_cuda-*.whl")):
        if rehearse:
            definitions = ["REPDL_CUDA_EMULATED=ON", "REPDL_CUDA_DEVICE=OFF"]
        else:
            definitions = [f"CMAKE_CUDA_ARCHITECTURES={of_gpu()}"]
        settings = [f"build-dir={BUILD / 'cuda'}", *(f"cmake.define.{definition}" for definition in definitions)]
        options = [f"--config-settings={setting}" for setting in settings]
        steps.append([*PIP, "--no-build-isolation", *options, "packages/repdl-cuda"])
    script = " && ".join(" ".join(f"'{word}'" for word in step) for step in steps)
    return Stage("build", 900 if rehearse else 240, [["sh", "-c", script]])


def benchmark(name: str, limit: int, *options: str) -> Stage:
    """Benchmarks whose rows end in the report."""
    result = BUILD / f"{name.replace(' ', '_')}.json"
    command = [PYTHON, "benchmarks/cuda_kernels.py", "--json", str(result), *options]
    return Stage(name, limit, [command], needs_gpu=True, results=[result])


def tiles(rehearse: bool) -> Stage:
    """The table of gemm_run.hpp, measured."""
    result = BUILD / "tiles.json"
    command = [PYTHON, "benchmarks/cuda_tiles.py", "--json", str(result), *(["--emulated"] if rehearse else [])]
    return Stage("speeds of tiles", 60, [command], results=[result])


def mnist(backend: str, contract: str, rehearse: bool) -> list[str]:
    data = ["--data", str(MNIST)] if MNIST.exists() else []
    steps = ["--steps", "2"] if rehearse else []
    options = ["--contract", contract, "--backend", backend, "--start", str(START), *data, *steps]
    return [PYTHON, "examples/mnist_training.py", *options]


def pytest(*arguments: str) -> list[str]:
    return [PYTHON, "-m", "pytest", "-p", "no:cacheprovider", *arguments]


def bits(backend: str, rehearse: bool) -> list[Stage]:
    """Part 1: the processes of a GPU take turns, and none of these is timed."""
    check = [PYTHON, "-m", "repdl", "check", backend]
    parity = [f"{TESTS}/{name}" for name in ("test_parity.py", "test_matmul.py", "test_conv2d.py", "test_layout.py")]
    others = [f"{TESTS}/{name}" for name in ("test_waits.py", "test_step.py", "test_bad_input.py")]
    sample = ["--family", "matmul", "--family", "index_sum"] if rehearse else []
    chosen = ["-k", "TestEmulated and (sum or matmul__)"] if rehearse else []
    few = ["-n", "5", "--dist", "worksteal", "--tb=short"]
    return [
        Stage("machine", 60, [["nvidia-smi"], ["nvcc", "--version"]], needs_gpu=True),
        Stage("info", 60, [[PYTHON, "-m", "repdl", "info"]]),
        Stage("golden bits", 180, [check + sample]),
        Stage("MNIST", 120, [mnist(backend, contract, rehearse) for contract in ("sequential", "v1")]),
        Stage("only a GPU", 150, [pytest("-rs", "--durations=5", f"{TESTS}/test_gpu.py")]),
        Stage("enabled", 180, [pytest(*few, "-rs", "--durations=10", f"{TESTS}/test_gpu_enabled.py")]),
        Stage("parity", 240, [pytest(*few, "--durations=10", *parity, *chosen), pytest("-rs", *others)]),
    ]


def speed(backend: str, rehearse: bool) -> list[Stage]:
    """Part 2."""
    ncu = ["ncu", "--clock-control", "none", "--set", "detailed", "--kernel-name-base", "demangled"]
    ncu += ["--kernel-name", "regex:repdl", "--page", "details"]
    order = "mm,reduction,elementwise,normalisation,optimizer,conv"
    few = ["--device", "cuda", "--rounds", "3", "--seconds", "0.3"]
    timed = ["--device", "cuda", "--time", "gpt2", "encoder", "lstm"]
    return [
        benchmark("benchmarks", 200, "--only", order, "--seconds", "0.1"),
        tiles(rehearse),
        Stage("whole models", 60, [[PYTHON, "benchmarks/whole_models.py", *few]], needs_gpu=True),
        Stage("programs", 60, [[PYTHON, "examples/programs.py", *timed]], needs_gpu=True),
        Stage("profiles", 90, [[*ncu, PYTHON, "-c", PROFILED]], needs_gpu=True),
    ]


def sanitizers(backend: str, rehearse: bool) -> list[Stage]:
    """Part 3: the families dealt out to processes, as a process of each would only start up."""
    families = sorted(path.stem for path in (ROOT / "packages/repdl-core/src/repdl/contract/v1").glob("*.json"))

    def checks(tool: str, processes: int, *options: str) -> list[list[str]]:
        before = ["compute-sanitizer", "--tool", tool, "--report-api-errors", "no", "--target-processes", "all"]
        before = [] if rehearse else [*before, "--error-exitcode", "9"]
        dealt = [families[i::processes] for i in range(processes)]
        check = [*before, PYTHON, "-m", "repdl", "check", backend, *options]
        return [[*check, *(word for family in each for word in ("--family", family))] for each in dealt]

    # torch's allocator gives out parts of larger blocks, whose ends memcheck does not see.
    environment = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    few = "1" if rehearse else "3"
    others = [
        command for tool in ("racecheck", "synccheck", "initcheck") for command in checks(tool, 4, "--cases", few)
    ]
    whole = ["--cases", "1"] if rehearse else []
    return [
        Stage("memcheck", 290, checks("memcheck", 2 if rehearse else 12, *whole), environment),
        Stage("racecheck, synccheck, initcheck", 240, others[:1] if rehearse else others, environment),
    ]


PARTS = {1: bits, 2: speed, 3: sanitizers}
AT_ONCE = (1, 3)
"""Parts whose stages run together."""


def run(stage: Stage, seconds: float, log: TextIO, lock: threading.Lock) -> dict[str, Any]:
    """What came of a stage: it is stopped after so many seconds."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(SITE), os.environ.get("PYTHONPATH")])),
        "PYTHONUNBUFFERED": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "0",
        **stage.environment,
    }
    if absent := [command[0] for command in stage.commands if shutil.which(command[0]) is None]:
        return {"name": stage.name, "state": f"no {absent[0]} on this machine"}
    lines: list[str] = []
    began = time.monotonic()

    def read(process: subprocess.Popen[str], number: int) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with lock:
                lines.append(line.rstrip())
                log.write(f"[{stage.name} {number}] {line}")
                log.flush()

    processes, readers = [], []
    for number, command in enumerate(stage.commands):
        options: dict[str, Any] = {
            "stdout": subprocess.PIPE,
            "stderr": subprocess.STDOUT,
            "text": True,
            "errors": "replace",
        }
        process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True, **options)
        processes.append(process)
        readers.append(threading.Thread(target=read, args=(process, number), daemon=True))
        readers[-1].start()
    late = False
    for process in processes:
        try:
            process.wait(max(0.1, seconds - (time.monotonic() - began)))
        except subprocess.TimeoutExpired:
            late = True
            process.send_signal(signal.SIGINT)  # pytest says then what has failed
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    for reader in readers:
        reader.join(5)
    codes = [process.returncode for process in processes]
    state = "stopped at its limit" if late else "failed" if any(codes) else "passed"
    found = {path.stem: json.loads(path.read_text()) for path in stage.results if path.exists()}
    with lock:
        return {
            "name": stage.name,
            "state": state,
            "seconds": round(time.monotonic() - began, 1),
            "codes": codes,
            "results": found,
            "tail": lines[-TAIL * len(codes) :],
        }


def run_part(part: int, into: Path, seconds: float, rehearse: bool) -> int:
    """All stages that there is time for; 1 if one did not pass."""
    if not list(WHEELS.glob("*.whl")) or not START.exists():
        raise SystemExit(f"gpu_first_hour: {PACKED} has no wheels; make it with `pack`, and bring it along")
    end = time.monotonic() + seconds
    into.mkdir(parents=True, exist_ok=True)
    about = {"part": part, "began": datetime.now(timezone.utc).isoformat(), "rehearsal": rehearse}
    done: dict[int, dict[str, Any]] = {}  # by the number of the stage, in whose order the report has them
    lock, told = threading.Lock(), threading.Lock()

    def carry_out(number: int, stage: Stage) -> None:
        limit = min(stage.limit, end - time.monotonic())
        if rehearse and stage.needs_gpu:
            row = {"name": stage.name, "state": "needs a GPU"}
        elif limit < 5:
            row = {"name": stage.name, "state": "no time left"}
        else:
            row = run(stage, limit, log, lock)
        with told:
            done[number] = row
            print(f"{row['name']:35} {row['state']:22} {row.get('seconds', ''):>6}", flush=True)
            if row["state"] not in ("passed", "needs a GPU"):
                print("\n".join(f"    {line}" for line in row.get("tail", ())), flush=True)
            (into / f"report_{part}.json").write_text(
                json.dumps({**about, "stages": [done[n] for n in sorted(done)]}, indent=1) + "\n"
            )

    def passed() -> bool:
        return all(row["state"] in ("passed", "needs a GPU") for row in done.values())

    with (into / f"log_{part}.txt").open("w") as log:
        carry_out(0, build(rehearse))
        if passed():
            stages = PARTS[part]("cuda-emulated" if rehearse else "cuda", rehearse)
            with ThreadPoolExecutor(len(stages) if part in AT_ONCE else 1) as pool:
                list(pool.map(carry_out, range(1, len(stages) + 1), stages))
    return 0 if passed() else 1


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack", help="at home: what the machine lacks, into build/gpu/packed")
    packing.add_argument("--mnist", type=Path, metavar="DIR", help="the four idx files; without them, digits")
    running = commands.add_parser("run", help="on the machine: build, then a part")
    running.add_argument("part", type=int, choices=PARTS)
    running.add_argument("--into", type=Path, required=True, metavar="FOLDER", help="for log and report")
    running.add_argument("--seconds", type=float, default=540, help="for the part, the build included (default: 540)")
    running.add_argument("--rehearse", action="store_true", help="a sample, on the emulated kernels")
    args = parser.parse_args(argv)
    if args.command == "pack":
        pack(args.mnist)
        return 0
    return run_part(args.part, args.into, args.seconds, args.rehearse)


if __name__ == "__main__":
    raise SystemExit(main())
