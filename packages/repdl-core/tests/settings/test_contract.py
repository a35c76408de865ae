"""Contract: names, validation, defaults, and the string that a captured graph carries."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import given, strategies as st
from torch.fx.experimental.proxy_tensor import make_fx

import repdl
from repdl import Contract
from repdl.contract import as_contract, contract_name, sequential, v1
from repdl.errors import ContractError
from repdl.testing import processes, uniform


@given(st.integers(0, 10**6), st.sampled_from([1, 2, 4, 8, 16, 32, 64]), st.integers(0, 1000))
def test_contract__name_reads_back(dot_chunk: int, lanes: int, blocks: int) -> None:
    contract = Contract(dot_chunk, lanes, lanes * blocks)
    assert Contract.parse(str(contract)) == contract
    assert as_contract(str(contract)) == as_contract(contract) == contract


def test_contract__named() -> None:
    assert (str(v1), str(sequential)) == ("v1", "sequential")
    assert Contract.parse("v1") == Contract() == Contract(256, 64, 1024)
    assert Contract.parse("sequential") == Contract(0, 1, 0)
    assert str(Contract(0, 1, 0)) == "sequential"
    assert str(Contract(10, 16, 48)) == "dot_chunk=10,sum_lanes=16,sum_block=48"


def test_contract__fields_not_named_have_the_default() -> None:
    assert Contract.parse("dot_chunk=10") == Contract(10, 64, 1024)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("v2", "'v2' is not a contract.*v1, sequential"),
        ("", "'' is not a contract"),
        ("dot_chunk", "is not a contract"),
        ("dot_chunk=x", "is not a contract"),
        ("lanes=4", "is not a contract"),
        ("dot_chunk=1=2", "is not a contract"),
    ],
)
def test_contract__parse_errors(text: str, message: str) -> None:
    with pytest.raises(ContractError, match=message):
        Contract.parse(text)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dot_chunk": -1}, "dot_chunk is -1"),
        ({"sum_lanes": 3}, "sum_lanes is 3"),
        ({"sum_lanes": 0}, "sum_lanes is 0"),
        ({"sum_lanes": 128}, "sum_lanes is 128"),
        ({"sum_block": -64}, "sum_block is -64"),
        ({"sum_block": 1000}, "sum_block is 1000.*multiple of sum_lanes = 64"),
    ],
)
def test_contract__validation(fields: dict[str, int], message: str) -> None:
    with pytest.raises(ContractError, match=message):
        Contract(**fields)


def test_contract__validation_through_parse_says_what_is_wrong() -> None:
    with pytest.raises(ContractError, match="sum_lanes is 3, expected"):
        Contract.parse("sum_lanes=3")


def test_contract__use_contract_nests_and_is_restored() -> None:
    before = repdl.get_contract()
    with repdl.use_contract("sequential") as outer:
        assert outer == repdl.get_contract() == sequential
        with pytest.raises(KeyError), repdl.use_contract(Contract(10, 16, 48)):
            assert contract_name(None) == "dot_chunk=10,sum_lanes=16,sum_block=48"
            raise KeyError
        assert repdl.get_contract() == sequential
    assert repdl.get_contract() == before


def test_contract__use_contract_unknown() -> None:
    before = repdl.get_contract()
    with pytest.raises(ContractError), repdl.use_contract("v2"):
        pass
    assert repdl.get_contract() == before


def test_contract__decides_the_bits() -> None:
    x, y = uniform(1, 1, 3000), uniform(2, 3000, 1)
    with repdl.use_contract("sequential"):
        inside = repdl.ops.mm(x, y)
    assert inside.item() == repdl.ops.mm(x, y, contract=sequential).item()
    assert inside.item() != repdl.ops.mm(x, y, contract="v1").item()


def test_contract__backward_follows_the_forward() -> None:
    x, w = uniform(1, 3000, 2), uniform(2, 2, 3)

    def gradient(forward: str, backward: str) -> torch.Tensor:
        leaf = w.clone().requires_grad_()
        with repdl.use_contract(forward):
            output = repdl.ops.mm(x, leaf)
        with repdl.use_contract(backward):
            output.backward(uniform(3, 3000, 3))
        assert leaf.grad is not None
        return leaf.grad

    assert torch.equal(gradient("v1", "sequential"), gradient("v1", "v1"))
    assert not torch.equal(gradient("v1", "v1"), gradient("sequential", "v1"))


@pytest.mark.parametrize("contract", ["v1", "sequential", "dot_chunk=10,sum_lanes=16,sum_block=48"])
def test_contract__captured_graph_carries_it(contract: str) -> None:
    with repdl.use_contract(contract):
        graph = make_fx(lambda x: repdl.ops.sum(repdl.ops.mm(x, x)))(uniform(1, 3, 3))
    calls = [n for n in graph.graph.nodes if n.op == "call_function" and "repdl" in str(n.target)]
    assert [str(n.target) for n in calls] == ["repdl.matmul.default", "repdl.sum.default"]
    assert [n.args[-1] for n in calls] == [contract, contract]
    x = uniform(2, 3, 3)
    assert graph(x).item() == repdl.ops.sum(repdl.ops.mm(x, x, contract=contract), contract=contract).item()


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        *((None, "v1"), ("", "v1"), ("sequential", "sequential")),
        ("dot_chunk=7", "dot_chunk=7,sum_lanes=64,sum_block=1024"),
    ],
)
def test_contract__environment_variable(variable: str | None, expected: str) -> None:
    clean = {k: v for k, v in os.environ.items() if k != "REPDL_CONTRACT"}
    environment = clean if variable is None else {**clean, "REPDL_CONTRACT": variable}
    code = "import repdl; print(repdl.get_contract())"
    done = processes.python("-c", code, environment=environment)
    assert done.stdout.strip() == expected, done.stderr


def test_contract__environment_variable_unknown() -> None:
    code = "import repdl, torch; repdl.ops.mm(torch.ones(1, 1), torch.ones(1, 1))"
    environment = {**os.environ, "REPDL_CONTRACT": "v2"}
    done = processes.python("-c", code, environment=environment)
    assert done.returncode != 0
    assert "ContractError" in done.stderr and "'v2' is not a contract" in done.stderr
