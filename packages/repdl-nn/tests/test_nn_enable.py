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


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_enable__recurrent_layers_have_the_dtype_of_their_weights(kind, dtype):
    input = repdl.random.randn(3, 2, 4, generator=repdl.random.Generator(1), dtype=dtype)
    model = getattr(torch.nn, kind)(4, 3, bidirectional=True, dtype=dtype)
    expected = repdl.from_torch_module(model)(input)[0]
    with repdl.enabled():
        actual = model(input)[0]
        with pytest.raises(ValueError, match="RNN input dtype"):
            model(input.float())
    assert actual.dtype is dtype and torch.equal(actual, expected)
