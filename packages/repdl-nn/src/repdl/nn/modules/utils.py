"""torch's own helpers of modules, under the name of `torch.nn.modules.utils`."""

from __future__ import annotations

from torch.nn.modules.utils import _list_with_default as _list_with_default
from torch.nn.modules.utils import _ntuple as _ntuple
from torch.nn.modules.utils import _pair as _pair
from torch.nn.modules.utils import _quadruple as _quadruple
from torch.nn.modules.utils import _reverse_repeat_tuple as _reverse_repeat_tuple
from torch.nn.modules.utils import _single as _single
from torch.nn.modules.utils import _triple as _triple
from torch.nn.modules.utils import (
    consume_prefix_in_state_dict_if_present as consume_prefix_in_state_dict_if_present,
)
