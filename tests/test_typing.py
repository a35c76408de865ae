"""What type checkers see of repdl, repdl.nn and repdl.optim, installed together."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SNIPPET = """
import torch, repdl

class Net(torch.nn.Module): ...

reveal_type(repdl.from_torch_module(Net()))                 # Net
reveal_type(repdl.nn.from_torch_module(torch.nn.ReLU()))    # torch.nn.modules.activation.ReLU
reveal_type(repdl.nn.Linear(2, 3))                          # repdl.nn.modules.linear.Linear
reveal_type(repdl.nn.functional.relu(torch.ones(1)))        # torch._tensor.Tensor
reveal_type(repdl.optim.Adam([torch.ones(1)]))              # repdl.optim.adaptive.Adam
reveal_type(repdl.ops.mm(torch.ones(1, 1), torch.ones(1, 1)))  # torch._tensor.Tensor
reveal_type(repdl.digest(torch.ones(1)))                    # str
reveal_type(repdl.ops.sort(torch.ones(1)).values)           # torch._tensor.Tensor
reveal_type(repdl.ops.max(torch.ones(1)))                   # torch._tensor.Tensor
reveal_type(repdl.ops.max(torch.ones(1), 0).indices)        # torch._tensor.Tensor
reveal_type(repdl.ops.max(torch.ones(1), torch.ones(1)))    # torch._tensor.Tensor
reveal_type(repdl.ops.median(torch.ones(1), axis=0).values)  # torch._tensor.Tensor
repdl.ops.median(torch.ones(1), other=torch.ones(1))        # error
repdl.from_torch_module(1)                                  # error
repdl.optim.Adam([], lrate=1)                               # error
repdl.nothing                                               # error
"""


def test_typing__public_names(site: Path, tmp_path: Path) -> None:
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET)
    # The checkout's settings and cache: torch's types take ten seconds to read, once.
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", str(snippet)]
    environment = {**os.environ, "MYPYPATH": str(site)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    said = {int(n): text for n, text in re.findall(r"snippet\.py:(\d+): (?:note|error): (.*)", output)}
    for number, line in enumerate(SNIPPET.splitlines(), 1):
        code, _, expected = line.partition("  # ")
        if code.startswith("reveal_type"):
            assert re.fullmatch(rf'Revealed type is "(snippet\.)?{re.escape(expected)}"', said.get(number, "")), output
        elif expected == "error":
            assert number in said and "Revealed" not in said[number], output
    assert len(said) == sum("  # " in line for line in SNIPPET.splitlines()), output
