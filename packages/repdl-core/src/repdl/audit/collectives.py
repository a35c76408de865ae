"""The classification of torch's collectives, by the names of its dispatcher's ops."""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


NAMESPACES = _names("c10d c10d_functional _c10d_functional _c10d_functional_autograd symm_mem _dtensor fsdp")
"""Of ops by which ranks speak with each other, or which bring together what they say."""
COMPOSED = _names("_c10d_functional _c10d_functional_autograd")
"""Those whose ops torch composes of `c10d`'s."""
MOVES = _names("""
    _allgather_base_ all_gather_copy_in allgather_ allgather_coalesced_ allgather_into_tensor_coalesced_ alltoall_
    alltoall_base_ barrier broadcast_ check_for_nan chunk_cat copy_ gather_ gather_into_tensor_ monitored_barrier_
    recv_ scatter_ send shard_dim_alltoall split_with_sizes_copy
""")
"""Ops that move data, or wait."""
_COMPOSED_MOVES = _names("""
    all_gather_into_tensor all_gather_into_tensor_coalesced all_gather_into_tensor_out all_to_all_single
    batch_p2p_ops broadcast broadcast_ irecv isend wait_tensor
""")
"""The same of `COMPOSED`."""
_COMPOSED_REDUCTIONS = _names("""
    all_reduce all_reduce_ all_reduce_coalesced all_reduce_coalesced_ reduce_scatter_tensor
    reduce_scatter_tensor_coalesced reduce_scatter_tensor_out
""")
"""Ops of `COMPOSED` that reduce by those of `REDUCTIONS`."""
REDUCTIONS = {
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce_coalesced",
    "reduce_": "reduce",
    "reduce_scatter_": "reduce_scatter",
    "_reduce_scatter_base_": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter_tensor",
}
"""Ops of `c10d` that reduce -> the function of `repdl.distributed`."""
_OTHERS = {"recv_any_source_": "which rank it receives from depends on time; name the rank, as src=0 does"}


def is_collective(name: str) -> bool:
    """Whether ranks speak with each other by an op of this name, `namespace::op`."""
    return name.partition("::")[0] in NAMESPACES


def moves(name: str) -> bool:
    """Whether a collective only moves data."""
    namespace, plain = _parts(name)
    return plain in (_COMPOSED_MOVES if namespace in COMPOSED else MOVES)


def reduces(name: str) -> bool:
    """Whether a collective reduces in an order that the contract gives while `repdl.enable()` holds."""
    namespace, plain = _parts(name)
    return plain in (_COMPOSED_REDUCTIONS if namespace in COMPOSED else REDUCTIONS)


def _parts(name: str) -> tuple[str, str]:
    """Namespace, and name without overload."""
    namespace, _, plain = name.partition("::")
    return namespace, plain.partition(".")[0]


def reason(name: str) -> str:
    """Why torch's collective of this name is not reproducible."""
    _, plain = _parts(name)
    if plain in _OTHERS:
        return _OTHERS[plain]
    if reduces(name):
        return (
            "the order in which torch adds ranks depends on buckets, algorithm and processor; under repdl.enable() it "
            "is the contract's (docs/howto/several-processes.md)"
        )
    return (
        "no contract gives the order in which it reduces over ranks; use all_reduce, reduce_scatter and what moves "
        "data (docs/howto/several-processes.md)"
    )


__all__ = ["COMPOSED", "MOVES", "NAMESPACES", "REDUCTIONS", "is_collective", "moves", "reason", "reduces"]
