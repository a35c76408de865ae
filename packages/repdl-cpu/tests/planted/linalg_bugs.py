"""Mistakes in factorizations, and in what reduces and sorts rows, and what catches each (kernel_bugs.py)."""

from __future__ import annotations

from bug import Bug

MATRICES = "test_matrices.py"
DISTANCES = "test_parity.py -k TestCpu and row_distances"
BAGS = "test_parity.py -k TestCpu and bag_sum"
PRODUCTS = "test_parity.py -k TestCpu and index_prod"
SORT = "test_parity.py -k TestCpu and sort_"

LINALG_BUGS = {
    "growing_products_split": Bug("linalg/growing_products.hpp", {"fma(x, y[v], sum[r][v])": "x * y[v] + sum[r][v]"}, "linalg", MATRICES),
    "growing_products_store_past_the_panel": Bug("linalg/growing_products.hpp", {"sum[r][v].store(to, last);": "sum[r][v].store(to);"}, "linalg", MATRICES),
    "growing_products_chunk_goes_on": Bug("linalg/growing_products.hpp", {"std::fill(chain + first_column, chain + columns_, T(0));": "std::fill(chain + first_column + 1, chain + columns_, T(0));"}, "linalg", MATRICES),
    "growing_products_last_chunk_twice": Bug("linalg/growing_products.hpp", {"last = level(own++)[at];": "last = level(own)[at];"}, "linalg", MATRICES),
    "growing_products_rows_keep_their_sums": Bug("linalg/growing_products.hpp", {"for (int l = -1; l < levels(); ++l)": "for (int l = 0; l < levels(); ++l)"}, "linalg", MATRICES),
    "growing_products_rows_keep_their_chunks": Bug("linalg/growing_products.hpp", {"for (int l = -1; l < levels(); ++l)": "for (int l = -1; l < 0; ++l)"}, "linalg", MATRICES),
    "cholesky_last_row_of_a_group": Bug("linalg/cholesky.cpp", {"sums.add({i0, i1, end, i1}": "sums.add({i0, i1, end, i1 - 1}"}, "linalg", MATRICES),
    "cholesky_of_another_nan": Bug("linalg/cholesky.cpp", {"const T root = canonical(std::sqrt(column[k]));": "const T root = std::sqrt(column[k]);"}, "linalg", MATRICES),
    "cholesky_keeps_what_is_above": Bug("linalg/cholesky.cpp", {"std::fill(out + i * n + i + 1, out + (i + 1) * n, T(0));": "std::copy(a + i * n + i + 1, a + (i + 1) * n, out + i * n + i + 1);"}, "linalg", MATRICES),
    "lu_last_of_equal_pivots": Bug("linalg/lu_factor.cpp", {"m > largest": "m >= largest"}, "linalg", MATRICES),
    "lu_largest_nan": Bug("linalg/lu_factor.cpp", {"x == x ? bits << 1 : std::numeric_limits<Bits>::max()": "bits << 1"}, "linalg", MATRICES),
    "lu_smallest_nan": Bug("linalg/lu_factor.cpp", {"std::numeric_limits<Bits>::max()": "Bits(0)"}, "linalg", MATRICES),
    "lu_divides_by_zero": Bug("linalg/lu_factor.cpp", {"lu(k)[k] == 0 ? T(1) : lu(k)[k]": "lu(k)[k]"}, "linalg", MATRICES),
    "lu_rows_change_places_from_the_pivot_on": Bug("linalg/lu_factor.cpp", {"std::swap_ranges(lu(k), lu(k) + n_, lu(chosen));": "std::swap_ranges(lu(k) + k, lu(k) + n_, lu(chosen) + k);"}, "linalg", MATRICES),
    "lu_always_chooses": Bug("linalg/lu_factor.cpp", {"if (pivot) {": "if (pivot || true) {"}, "linalg", MATRICES),
    "solve_of_the_first_matrix": Bug("linalg/solve_triangular.cpp", {"A.as<T>() + matrix * n * n": "A.as<T>()"}, "linalg", MATRICES),
    "solve_one_chunk": Bug("linalg/solve_triangular.cpp", {"if (first > 0) tree.push(sum);\n    for": "if (first > chunk) tree.push(sum);\n    if (first != chunk)\n    for"}, "linalg", MATRICES),
    "solve_divides_by_one": Bug("linalg/solve_triangular.cpp", {"if (by.is_unit) return;": "if (by.is_unit && by.n > 1) return;"}, "linalg", MATRICES),
    "solve_narrow_of_wide": Bug("linalg/solve_triangular.cpp", {"columns <= VecOf<T>::width;": "columns <= VecOf<T>::width + 1;"}, "linalg", MATRICES),
    "qr_fused": Bug("linalg/qr.cpp", {"to[c] - repdl::fma(factor, p[c], T(0))": "repdl::fma(-factor, p[c], to[c])"}, "linalg", MATRICES),
    "qr_sign_of_minus_zero": Bug("linalg/qr.cpp", {"std::signbit(x[0]) ? -size": "x[0] < 0 ? -size"}, "linalg", MATRICES),
    "qr_power_of_infinity": Bug("linalg/qr.cpp", {"2 * bias - 1);": "2 * bias);"}, "linalg", MATRICES),
    "qr_power_of_subnormals": Bug("linalg/qr.cpp", {"(fraction + 1), 1, 2": "(fraction + 1), 2, 2"}, "linalg", MATRICES),
    "qr_reflects_one_row": Bug("linalg/qr.cpp", {"is_zero || at.rows == 1": "is_zero"}, "linalg", MATRICES),
    "qr_reflects_zeros": Bug("linalg/qr.cpp", {"is_zero || at.rows == 1": "at.rows == 1"}, "linalg", MATRICES),
    "matrices_padded_twice": Bug("linalg/matrices.hpp", {"to + i * to_row);": "to + i * std::max(from_row, to_row));"}, "linalg", MATRICES),
    "matrices_of_a_share": Bug("linalg/matrices.hpp", {"for (std::int64_t b = begin; b < end; ++b) task(b * elements, 1);": "for (std::int64_t b = begin; b < end; ++b) task((b - begin) * elements, 1);"}, "linalg", MATRICES),
    "distances_lanes_of_v1": Bug("reduce/few_terms.hpp", {"k += lanes)": "k += max_lanes)"}, "norm", DISTANCES),
    "distances_last_block_first": Bug("reduce/few_terms.hpp", {"for (; begin + block < terms; begin += block)": "for (; begin + block <= terms; begin += block)"}, "norm", DISTANCES),
    "distances_of_the_first_batch": Bug("reduce/row_distances.cpp", {"if (second != transposed) {": "if (transposed < 0) {"}, "norm", DISTANCES),
    "distances_batches_do_not_broadcast": Bug("reduce/row_distances.cpp", {"|| operand.size[operand.dims - back] == 1": ""}, "norm", DISTANCES),
    "distances_minus_zero_distance": Bug("reduce/row_distances.cpp", {"is_square ? d * d : absolute(d)": "is_square ? d * d : d"}, "norm", DISTANCES),
    "bag_sum_padding_counts": Bug("reduce/bag_sum.cpp", {"std::max<std::int64_t>(1, bag.count())": "std::max<std::int64_t>(1, end - first)"}, "index_sum", BAGS),
    "bag_sum_empty_mean": Bug("reduce/bag_sum.cpp", {"std::max<std::int64_t>(1, bag.count())": "bag.count()"}, "index_sum", BAGS),
    "bag_sum_padding_is_a_term": Bug("reduce/bag_sum.cpp", {"if (at[i] == padding_idx) continue;": ""}, "index_sum", BAGS),
    "bag_sum_factors_of_the_first_bag": Bug("reduce/bag_sum.cpp", {"bag.factors.push_back(factor[i]);": "bag.factors.push_back(factor[i - first]);"}, "index_sum", BAGS),
    "bag_sum_unweighted": Bug("reduce/few_terms.hpp", {"(i, c, n) * VecOf<T>::set1(weight[i])": "(i, c, n)"}, "index_sum", BAGS),
    "prod_last_alone": Bug("reduce/prod.cpp", {"to[n / 2] = x[n - 1];": "to[n / 2] = x[n / 2];"}, "prod"),
    "prod_of_one_is_canonical": Bug("reduce/prod.cpp", {"out[r] = x[0];": "out[r] = canonical(x[0]);"}, "prod"),
    "prod_of_another_nan": Bug("reduce/prod.cpp", {"canonical(here[0])": "here[0]"}, "prod"),
    "prod_halves": Bug("reduce/prod.cpp", {"mul(x[2 * i], x[2 * i + 1])": "mul(x[i], x[n / 2 + i])"}, "prod"),
    "sort_zeros_differ": Bug("reduce/sort.cpp", {"bits < 0 ? -size : size;": "bits < 0 ? ~size : size;"}, "sort", SORT),
    "sort_nan_is_a_number": Bug("reduce/sort.cpp", {"x != x ? most : bits": "bits"}, "sort", SORT),
    "sort_last_of_equals": Bug("reduce/sort.cpp", {": index < other.index;": ": index > other.index;"}, "sort", SORT),
    "sort_chosen_last_of_equals": Bug("reduce/sort.cpp", {"if (keys[i] >= chosen[count - 1].key) continue;": "if (keys[i] > chosen[count - 1].key) continue;"}, "sort", SORT),
    "sort_chosen_before_equals": Bug("reduce/sort.cpp", {"keys[i] < chosen[at - 1].key": "keys[i] <= chosen[at - 1].key"}, "sort", SORT),
    "sort_block_is_left_out": Bug("reduce/sort.cpp", {"if (least >= chosen[count - 1].key) continue;": "if (least >= chosen[0].key) continue;"}, "sort", SORT),
    "sort_index_of_the_block": Bug("reduce/sort.cpp", {"static_cast<std::uint32_t>(first + i)": "static_cast<std::uint32_t>(i)"}, "sort", SORT),
    "sort_up_always": Bug("reduce/sort.cpp", {"descending ? ~key : key": "descending ? key : key"}, "sort", SORT),
    "sort_part_is_not_apart": Bug("reduce/sort.cpp", {"if (first > 0) std::nth_element": "if (first < 0) std::nth_element"}, "sort", SORT),
    "index_prod_of_none": Bug("reduce/index_prod.cpp", {"std::fill(to, to + width, T(1));": "std::fill(to, to + width, T(0));"}, "index_sum", PRODUCTS),
    "index_prod_of_another_nan": Bug("reduce/index_prod.cpp", {"to[c] = canonical(to[c]);": "to[c] = to[c];"}, "index_sum", PRODUCTS),
    "terms_of_rows_not_stable": Bug("reduce/terms_of_rows.hpp", {"for (std::int64_t i = 0; i < count; ++i) put(first + i, to[i]);": "for (std::int64_t i = 0; i < count; ++i) put(first + i, to[count - 1 - i]);"}, "index_sum"),
    "index_amax_last_of_equals": Bug("reduce/index_amax.cpp", {"(x > known)": "(x >= known)"}, "index_sum", "test_parity.py -k TestCpu and index_amax"),
    "index_amax_nan_is_small": Bug("reduce/index_amax.cpp", {"(x > known) | ((x != x) & (known == known))": "(x > known)"}, "index_sum", "test_parity.py -k TestCpu and index_amax"),
    "index_amax_last_nan": Bug("reduce/index_amax.cpp", {"((x != x) & (known == known))": "(x != x)"}, "index_sum", "test_parity.py -k TestCpu and index_amax"),
    "index_amax_zero_of_none": Bug("reduce/index_amax.cpp", {"-std::numeric_limits<T>::infinity()": "std::numeric_limits<T>::lowest()"}, "index_sum", "test_parity.py -k TestCpu and index_amax"),
}  # fmt: skip
