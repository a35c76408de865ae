"""torch's recurrent layers under `repdl.enable()`."""

import pytest
import torch

import repdl


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_enable__recurrent_layers_follow_the_contract_of_each_call(kind):
    """A layer of the same sizes and options is kept from call to call: it must not keep the contract of the first."""
    given = {"v1": repdl.Contract(), "sequential": "sequential"}
    input = repdl.random.randn(3, 2, 700, generator=repdl.random.Generator(1))
    model = getattr(torch.nn, kind)(700, 3)
    expected = {name: repdl.from_torch_module(model, contract=name)(input)[0] for name in given}
    assert not torch.equal(expected["v1"], expected["sequential"])
    for name in ("v1", "sequential", "v1"):
        with repdl.enabled(contract=given[name]):
            assert torch.equal(model(input)[0], expected[name])
        with repdl.enabled(), repdl.use_contract(name):
            assert torch.equal(model(input)[0], expected[name])
