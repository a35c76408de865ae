"""A process that saves without end and is killed at a random moment, again and again, for `test_checkpoint_files.py`.

    python killed_while_saving.py FOLDER KILLS SEED

Each child goes on from the latest checkpoint. After a kill every checkpoint of the folder has to be whole, and the
latest to be the last one that the child had finished, or the one after it.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from repdl import checkpoint
from repdl.checkpoint.folder import checkpoints

SIZE = 2**19
"""Elements of a state: 4 MB, so that most of the time is the writing."""


class Counter:
    """A state that says itself whether it is that of one step: every element is the number of it."""

    def __init__(self) -> None:
        self.values = np.zeros(SIZE, np.int64)

    def state_dict(self) -> dict[str, Any]:
        return {"values": self.values}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.values = state["values"].copy()


def step_of(path: Path) -> int:
    """The step of a checkpoint, after a look at all of it."""
    state = Counter()
    extra = checkpoint.load(path, scheduler=state, generators=False, strict=False).extra
    assert (state.values == extra["step"]).all() and path.name == f"step-{extra['step']}", path
    return int(extra["step"])


def child(folder: Path, acknowledged: int) -> None:
    """Save one state after the other, and write the number of each that is saved into a pipe."""
    state, path = Counter(), checkpoint.latest(folder)
    step = 0 if path is None else checkpoint.load(path, scheduler=state).extra["step"]
    while True:
        step += 1
        state.values[:] = step
        checkpoint.save(folder / f"step-{step}", scheduler=state, extra={"step": step}, keep=2)
        os.write(acknowledged, step.to_bytes(8, "little"))


def main() -> None:
    folder, kills, rng = Path(sys.argv[1]), int(sys.argv[2]), random.Random(int(sys.argv[3]))
    unfinished = 0
    torch.set_num_threads(1)  # a forked process has none of the others
    for kill in range(kills):
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                child(folder, writing)
            finally:
                os._exit(1)
        os.close(writing)
        os.read(reading, 8) if kill == 0 else None  # the first child saves once at least
        time.sleep(rng.random() * 0.3)
        os.kill(pid, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(pid, 0)[1]), "the child ended by itself"
        told = b""
        while part := os.read(reading, 2**16):
            told += part
        os.close(reading)
        last = int.from_bytes(told[-8:], "little") if told else 0
        unfinished += any(name.endswith(".repdl-unfinished") for name in os.listdir(folder))
        steps = [step_of(path) for path in checkpoints(folder)]
        latest = checkpoint.latest(folder)
        assert latest is not None and step_of(latest) == max(steps), (kill, steps)
        assert max(steps) >= last and (not last or max(steps) <= last + 1), (kill, steps, last)
    print(f"{kills} kills, {unfinished} while a file was being written, step {max(steps)}")


if __name__ == "__main__":
    main()
