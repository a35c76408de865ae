"""Scratch memory: kept by a thread for its next user while it is small, given back to the system when it is large."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

import repdl

MIB = 1 << 20


def resident() -> int:
    """Bytes of the process that are in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def convolve(channels: int, side: int) -> None:
    """A convolution whose padded image takes channels * (side + 2)**2 floats; its output is one channel."""
    x, weight = torch.ones(1, channels, side, side), torch.ones(1, channels, 3, 3)
    repdl.ops.conv2d(x, weight, None, 1, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_scratch__large_blocks_are_given_back() -> None:
    before_threads = repdl.get_num_threads()
    repdl.set_num_threads(1)
    try:
        convolve(64, 30)  # what a first call leaves behind
        before = resident()
        convolve(64, 500)
        assert resident() - before < 16 * MIB  # the padded image has 61 MiB
    finally:
        repdl.set_num_threads(before_threads)
