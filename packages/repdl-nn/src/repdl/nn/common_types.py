"""torch's own names of types, under the name of `torch.nn.common_types`."""

from __future__ import annotations

from torch.nn.common_types import (
    _maybe_indices_t as _maybe_indices_t,
    _ratio_2_t as _ratio_2_t,
    _ratio_3_t as _ratio_3_t,
    _ratio_any_t as _ratio_any_t,
    _scalar_or_tuple_1_t as _scalar_or_tuple_1_t,
    _scalar_or_tuple_2_t as _scalar_or_tuple_2_t,
    _scalar_or_tuple_3_t as _scalar_or_tuple_3_t,
    _scalar_or_tuple_4_t as _scalar_or_tuple_4_t,
    _scalar_or_tuple_5_t as _scalar_or_tuple_5_t,
    _scalar_or_tuple_6_t as _scalar_or_tuple_6_t,
    _scalar_or_tuple_any_t as _scalar_or_tuple_any_t,
    _size_1_t as _size_1_t,
    _size_2_opt_t as _size_2_opt_t,
    _size_2_t as _size_2_t,
    _size_3_opt_t as _size_3_opt_t,
    _size_3_t as _size_3_t,
    _size_4_t as _size_4_t,
    _size_5_t as _size_5_t,
    _size_6_t as _size_6_t,
    _size_any_opt_t as _size_any_opt_t,
    _size_any_t as _size_any_t,
    _tensor_list_t as _tensor_list_t,
)
