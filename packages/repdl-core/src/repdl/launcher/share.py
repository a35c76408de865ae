"""Which ranks a process of a launcher begins, and what their environment says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from repdl.overrides.program import NotBegunError

VARIABLE = "REPDL_RANKS"
"""In the environment of a rank that `repdl run --ranks` has begun: the number of ranks."""


@dataclass(frozen=True)
class Share:
    """A part of the ranks of a world.

    Args:
        world: how many ranks there are.
        mine: those that this process begins.
        local: those of this machine.
        is_alone: whether no launcher has begun this process, so that nobody else holds the store of a rendezvous.
    """

    world: int
    mine: range
    local: range
    is_alone: bool

    def environment(self, rank: int) -> dict[str, str]:
        """What a rank has in its environment beside what this process has, as torchrun would set it."""
        found = {
            "RANK": rank,
            "WORLD_SIZE": self.world,
            "LOCAL_RANK": rank - self.local.start,
            "LOCAL_WORLD_SIZE": len(self.local),
            "ROLE_RANK": rank,
            "ROLE_WORLD_SIZE": self.world,
            VARIABLE: self.world,
        }
        return {name: str(value) for name, value in found.items()}


def share_of(world: int, environment: Mapping[str, str]) -> Share:
    """The share of the process with this environment, which is one of a launcher's processes if it has a RANK.

    Raises:
        NotBegunError: if there are more processes than ranks, or the environment is that of a rank already, or that of
            no launcher.
    """
    if VARIABLE in environment:
        raise NotBegunError(
            f"--ranks: this process is in the environment of rank {environment.get('RANK')} of "
            f"`repdl run --ranks {environment[VARIABLE]}`, expected that of a launcher such as torchrun, or of none"
        )
    if "RANK" not in environment and "WORLD_SIZE" not in environment:
        return Share(world, range(world), range(world), is_alone=True)
    processes = _number(environment, "WORLD_SIZE")
    process = _number(environment, "RANK")
    place = _number(environment, "LOCAL_RANK", "0")
    neighbours = _number(environment, "LOCAL_WORLD_SIZE", "1")
    first = process - place
    if not 0 <= place < neighbours or not 0 <= first <= processes - neighbours:
        raise NotBegunError(
            f"--ranks: the environment has RANK {process}, WORLD_SIZE {processes}, LOCAL_RANK {place} and "
            f"LOCAL_WORLD_SIZE {neighbours}, expected those of a launcher such as torchrun"
        )
    if world < processes:
        raise NotBegunError(
            f"--ranks: {world} ranks on {processes} processes of the launcher, expected at least one for each; "
            f"begin {world} processes or fewer"
        )

    def begin(process: int) -> int:
        return process * world // processes

    local = range(begin(first), begin(first + neighbours))
    return Share(world, range(begin(process), begin(process + 1)), local, is_alone=False)


def _number(environment: Mapping[str, str], name: str, default: str | None = None) -> int:
    text = environment.get(name, default)
    if text is None or not text.isdecimal():
        what = "not set" if text is None else repr(text)
        raise NotBegunError(
            f"--ranks: the variable {name} is {what}, expected a number beside the other variables of a launcher such "
            f"as torchrun, or neither RANK nor WORLD_SIZE"
        )
    return int(text)


__all__ = ["VARIABLE", "Share", "share_of"]
