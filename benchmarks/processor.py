"""What the processor of this machine is called: the folder of docs/benchmarks for its tables.

    python benchmarks/processor.py
    python benchmarks/processor.py --gpu   # of its GPU

Times of one kind of machine say little about another, so each kind has a folder of its own.
"""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path

KNOWN: list[tuple[str, int, range, str]] = [
    ("AuthenticAMD", 23, range(0x30), "zen"),
    ("AuthenticAMD", 23, range(0x30, 0x100), "zen2"),
    ("AuthenticAMD", 25, range(0x10), "zen3"),
    ("AuthenticAMD", 25, range(0x10, 0x20), "zen4"),
    ("AuthenticAMD", 25, range(0x20, 0x60), "zen3"),
    ("AuthenticAMD", 25, range(0x60, 0x80), "zen4"),
    ("AuthenticAMD", 25, range(0xA0, 0xB0), "zen4"),
    ("AuthenticAMD", 26, range(0x80), "zen5"),
    ("GenuineIntel", 6, range(85, 86), "skylake-server"),  # and Cascade Lake, Cooper Lake
    ("GenuineIntel", 6, range(106, 109), "ice-lake-server"),
    ("GenuineIntel", 6, range(143, 144), "sapphire-rapids"),
    ("GenuineIntel", 6, range(173, 175), "granite-rapids"),
    ("GenuineIntel", 6, range(207, 208), "emerald-rapids"),
]
"""Vendor, family and models, and what they are called."""


def processor(cpuinfo: str, machine: str = "") -> str:
    """A name for the processor that the text of /proc/cpuinfo describes, or else for `machine`."""

    def field(key: str) -> str:
        found = re.search(rf"^{key}\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
        return found[1].strip() if found else ""

    vendor, family, model = field("vendor_id"), field("cpu family"), field("model")
    if not (vendor and family.isdigit() and model.isdigit()):
        return machine.lower() or "unknown"
    for of_vendor, of_family, models, name in KNOWN:
        if (vendor, int(family)) == (of_vendor, of_family) and int(model) in models:
            return name
    if vendor == "GenuineIntel" and "amx_tile" in field("flags").split():
        return "intel-amx"  # a server core from Sapphire Rapids on, of which a virtual machine shows another model
    return f"{vendor}-{family}-{model}".lower()


def this_processor() -> str:
    """The name of this machine's."""
    path = Path("/proc/cpuinfo")
    return processor(path.read_text() if path.is_file() else "", platform.machine())


def this_gpu() -> str:
    """The name of this machine's first GPU: h200 for NVIDIA H200."""
    import torch

    return torch.cuda.get_device_name().removeprefix("NVIDIA ").lower().replace(" ", "-")


if __name__ == "__main__":
    print(this_gpu() if "--gpu" in sys.argv[1:] else this_processor())
