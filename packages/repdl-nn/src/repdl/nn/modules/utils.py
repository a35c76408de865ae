"""torch's own helpers of modules, under the name of `torch.nn.modules.utils`."""

from __future__ import annotations

from torch.nn.modules.utils import (
    _list_with_default as _list_with_default,
    _ntuple as _ntuple,
    _pair as _pair,
    _quadruple as _quadruple,
    _reverse_repeat_tuple as _reverse_repeat_tuple,
    _single as _single,
    _triple as _triple,
    consume_prefix_in_state_dict_if_present as consume_prefix_in_state_dict_if_present,
)
