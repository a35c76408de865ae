"""Mistakes that a kernel writer could make, and what catches each; test_planted.py plants them."""

from __future__ import annotations

from bug import Bug
from linalg_bugs import LINALG_BUGS

TILES = "test_routes.py -k bits and {best}"
BOUNDS = "test_bounds.py -k "
STEPS = "test_threads.py -k step"
ENVIRONMENT = "test_environment.py -k first_call"
TEAM = "test_pool.py -k on_a_team"
DRAWS = "test_draws.py -k threads"
LAYERS = "test_recurrent.py -k threads and {best}"
SPECIAL = "test_special_positions.py -k attention"
BACKWARD = "test_parity.py -k TestCpu and lstm_layer_backward__"
RESIZED = "test_parity.py -k TestCpu and (nearest_ or resample_)"

BUGS = {
    # Products
    "fma_of_13_rows_split": Bug(
        "gemm/micro_kernel.cpp",
        {"acc[i][j] = fma(x, row[j], acc[i][j]);":
         "acc[i][j] = R == 13 && unpacked == Unpacked::a ? x * row[j] + acc[i][j] : fma(x, row[j], acc[i][j]);"},
        "conv2d", only="avx512",
    ),
    "fma_of_3_rows_2_vectors_split": Bug(
        "gemm/micro_kernel.cpp",
        {"acc[i][j] = fma(x, row[j], acc[i][j]);":
         "acc[i][j] = R == 3 && V == 2 && unpacked == Unpacked::b ? x * row[j] + acc[i][j] : fma(x, row[j], acc[i][j]);"},
        "conv2d", TILES,
    ),
    "tile_nan": Bug(
        "gemm/micro_kernel.cpp",
        {"result = canonical(result);": "if (R != 5 || V != 2) result = canonical(result);"}, "matmul", TILES,
    ),
    "tile_resumes_from_zero": Bug(
        "gemm/micro_kernel.cpp",
        {"acc[i][j] = t.resume ? Vec::load(t.chain": "acc[i][j] = t.resume && R != 7 ? Vec::load(t.chain"}, "matmul", TILES,
        only="avx512",
    ),
    "tile_transposed_one_row_short": Bug(
        "gemm/micro_kernel.cpp", {"row.store(place, rows - i);": "row.store(place, rows == 11 ? 10 : rows - i);"}, "conv2d", TILES,
        only="avx512",
    ),
    "skinny_gemm_tail_padded": Bug(
        "gemm/skinny_gemm.hpp",
        {"for (int t = 0; t < count; ++t) transposed[t * V * W + c] = b[(j + c) * ldb + k + t];":
         "for (int t = 0; t < W; ++t) transposed[t * V * W + c] = t < count ? b[(j + c) * ldb + k + t] : 0.0f;",
         "for (int t = 0; t < count; ++t)\n        for (int i = 0; i < R": "for (int t = 0; t < W; ++t)\n        for (int i = 0; i < R",
         "const Vec x = Vec::set1(a[i * row + (k + t) * step])": "const Vec x = Vec::set1(t < count ? a[i * row + (k + t) * step] : 0.0f)"},
        "matmul",
    ),
    "skinny_gemm_nan": Bug(
        "gemm/skinny_gemm.hpp", {"canonical(result).store(out.data": "(R == 3 ? result : canonical(result)).store(out.data"}, "matmul",
    ),
    "skinny_gemm_last_tile_not_moved": Bug(
        "gemm/skinny_gemm.hpp", {"std::min<std::int64_t>(j, n - W));": "j);"}, "matmul", BOUNDS + "matmul",
    ),
    "skinny_gemm_square_of_the_second_vector": Bug(
        "gemm/skinny_gemm.hpp", {"transpose(b + (j + v * W) * ldb + k, ldb, square, W);": "transpose(b + (j + (R == 2 ? 0 : v) * W) * ldb + k, ldb, square, W);"},
        "matmul", TILES, only="avx512",
    ),
    "row_gemm_rest_of_terms_starts_anew": Bug(
        "gemm/row_gemm.hpp", {"k += T, first = false)": "k += T, first = R == 3 && first)"}, "matmul", TILES,
    ),
    "row_gemm_nan": Bug("gemm/row_gemm.hpp", {"last ? canonical(acc[i])": "last && R != 2 ? canonical(acc[i])"}, "matmul", TILES),
    "row_gemm_second_block_of_bias": Bug("gemm/row_gemm.hpp", {"out.column_bias + j : nullptr": "out.column_bias : nullptr"}, "matmul", TILES),
    "row_gemm_reads_past_the_end": Bug(
        "gemm/row_gemm.hpp", {"j + Vec::width <= columns; j": "j + Vec::width <= columns + 1; j"}, "matmul", BOUNDS + "matmul",
    ),
    "gemv_reads_past_the_end": Bug(
        "gemm/gemv.hpp", {"if ((g + 1) * W * chunk > K) {": "if ((g + 1) * W * chunk > (K + W - 1) / W * W) {"}, "matmul",
        BOUNDS + "matmul",
    ),
    "gemv_last_columns": Bug("gemm/gemv.hpp", {"for (; j < n; ++j) product.columns<1>(": "for (; j + 1 < n; ++j) product.columns<1>("}, "matmul"),
    "gemv_bias_of_the_first_column": Bug("gemm/gemv.hpp", {"bias ? sum + bias[i] : sum": "bias ? sum + bias[0] : sum"}, "matmul", TILES),
    "gemv_padded_with_positive_zeros": Bug("gemm/gemv.hpp", {": -0.0f;": ": 0.0f;"}, "matmul"),
    "prepacked_second_panel": Bug(
        "gemm/packing.hpp",
        {"return {packed.block(first, k0, kc), first, count, kc, width};": "return {packed.block(first, k0, kc), first, count, kc + (k0 >= 1024), width};"},
        "conv2d",
    ),
    "offsets_from_the_first_piece": Bug(
        "gemm/packing.hpp", {"return {operand, first / width, k0};": "return {operand, first / width, k0 >= 1024 ? 0 : k0};"},
        "conv2d", TILES,
    ),
    "tile_over_three_images": Bug(
        "gemm/gemm.hpp", {"*out_.at(panel.first + i, columns.first + j) = edge": "*out_.at(panel.first + i, columns.first + std::min(j, 2 * out_.image)) = edge"},
        "conv2d", TILES, only="avx512",
    ),
    "second_piece_starts_anew": Bug(
        "gemm/tiling.hpp", {"begin / chunk, k0 > begin, done": "begin / chunk, k0 > begin + length, done"}, "matmul", TILES,
    ),
    "slices_of_columns_overlap": Bug(
        "gemm/matmul.cpp",
        {"const std::int64_t first = begin * unit, count": "const std::int64_t first = begin * unit + (begin > 2), count"},
        "matmul", TILES,
    ),
    "tree_joins_from_the_right": Bug(
        "gemm/chunk_tree.hpp", {"a.at[i] = a.at[i] + b.at[i];": "a.at[i] = N == 4 ? b.at[i] + b.at[i] : a.at[i] + b.at[i];"}, "matmul",
    ),
    "tree_of_the_last": Bug(
        "include/repdl/contract/order.hpp", {"last ? (index >> level) != 0": "last && index != 37 ? (index >> level) != 0"}, "matmul", TILES,
    ),
    "tree_of_neighbours": Bug(
        "include/repdl/contract/order.hpp", {"i + step < n; i += 2 * step) join(i, i + step)": "i + step < n; i += 2 * step) join(i, n == 3 ? n - 1 - i : i + step)"}, "sum",
    ),
    # Convolutions
    "padding_left_out": Bug(
        "conv/image_plan.hpp",
        {"vectors_in_place && grid.columns % Vec::width != 0": "vectors_in_place && (grid.columns + 1) % Vec::width > 1"},
        "conv2d", BOUNDS + "conv2d",
    ),
    "one_channel_two_chunks": Bug("conv/image_plan.hpp", {"(chunk == 0 || terms <= chunk)": "(chunk == 0 || terms <= 2 * chunk)"}, "conv2d"),
    "bias_of_positions": Bug("conv/image_product.hpp", {"std::swap(out.row_bias, out.column_bias);": "if (out.column_bias) std::swap(out.row_bias, out.column_bias);"}, "conv2d", TILES),
    "positions_of_the_next_image": Bug("conv/image_product.hpp", {"row += image_step - grid.rows * grid.row_step;": "row -= grid.rows * grid.row_step;"}, "conv2d", TILES),
    "parts_read_behind_an_image": Bug("conv/image_product.hpp", {"if (end > readable || count": "if (count"}, "conv2d", BOUNDS + "conv2d"),
    "pixels_with_a_stride": Bug("conv/grad_weight_plan.hpp", {"g.stride_h == 1 && g.stride_w == 1 && ": ""}, "conv2d"),
    "one_channel_bias_of_the_second_vector": Bug(
        "conv/one_channel.hpp", {"canonical(bias ? chain[v] + Vec::set1(*bias) : chain[v])": "canonical(bias && v < 3 ? chain[v] + Vec::set1(*bias) : chain[v])"},
        "conv2d", TILES,
    ),
    "copy_of_every_other_reads_too_far": Bug("conv/padded_image.hpp", {"i + W < count; i += W": "i + W <= count; i += W"}, "conv2d", BOUNDS + "conv2d"),
    "phase_begins_late": Bug("conv/padded_image.hpp", {"(element + before - phase + stride - 1) / stride": "(element + before - phase + stride) / stride"}, "conv2d"),
    "gradient_phase_reach": Bug(
        "conv/conv2d_grad_input.cpp", {"size = std::max(size, shift + count);": "size = std::max(size, shift + count - (count > 1));"},
        "conv2d",
    ),
    "bias_of_the_first_group": Bug("conv/conv2d.cpp", {"out.row_bias = bias + group * m;": "out.row_bias = bias;"}, "conv2d"),
    "slices_of_filters": Bug(
        "conv/conv2d_grad_weight.cpp", {"count = m * (slice + 1) / slices - first; count > 0": "count = m / slices; count > 0"}, "conv2d",
    ),
    "pitch_ignored": Bug("conv/padded_nhwc.hpp", {"return g.dilation_w == 1 && pitch == channels ?": "return g.dilation_w == 1 ?"}, "conv2d"),
    "dilation_of_the_other_side": Bug(
        "conv/padded_nhwc.hpp", {"channels / length, g.dilation_h * line()": "channels / length, (g.groups > 1 ? g.dilation_w : g.dilation_h) * line()"},
        "conv2d",
    ),
    "depthwise_nan": Bug("conv/depthwise_grad_weight.hpp", {"canonical(acc_[t]).store(lane);": "acc_[t].store(lane);"}, "conv2d"),
    "register_grad_weight_nan": Bug(
        "conv/register_grad_weight.hpp", {"canonical(acc[r * V + v]).store(columns": "acc[r * V + v].store(columns"}, "conv2d",
    ),
    "register_grad_weight_second_half": Bug(
        "conv/register_grad_weight.hpp", {"std::min<std::int64_t>(2 * v + 1, shape.count - 1)": "std::min<std::int64_t>(2 * v + 1, shape.count - 2)"},
        "conv2d",
    ),
    "splits_nan": Bug("gemm/split_k.hpp", {"canonical(sum).store(out + i": "sum.store(out + i"}, "conv2d"),
    "splits_not_a_power_of_two": Bug(
        "gemm/split_k.hpp", {"    count = (terms": "    if (threads == 7) length = std::max<std::int64_t>(1, terms / chunk / 7) * chunk;\n    count = (terms"},
        "conv2d", TILES,
    ),
    # Sums
    "second_batch_of_rows": Bug(
        "reduce/sum.cpp", {"block_sums(x + r * row_stride, count": "block_sums(x + (r > begin ? r - 1 : r) * row_stride, count"}, "sum",
    ),
    "gathered_run_at_its_end": Bug(
        "reduce/sum.cpp", {"const std::int64_t count = std::min(n, run - start % run);": "const std::int64_t count = std::min(n, run - start % run + (start > 2000));"},
        "sum",
    ),
    "flat_columns_of_all_lanes": Bug("reduce/sum.hpp", {"filled = std::min(filled, half);": "filled = half;"}, "sum", BOUNDS + "sum"),
    "block_of_a_prefix": Bug("reduce/sum.hpp", {"filled - half) * columns;": "filled - half - (filled == 63)) * columns;"}, "sum", TILES),
    "rows_of_lanes_one_by_one": Bug(
        "reduce/sum_block.cpp", {"V acc = from_zero ? V::zero() : V::load(to + c, n);": "V acc = from_zero || count == 3 ? V::zero() : V::load(to + c, n);"}, "sum",
    ),
    "lanes_of_a_rest": Bug("reduce/sum_block.cpp", {"lane_[i & (lanes_ - 1)] += x[i];": "lane_[(i + (i > 31)) & (lanes_ - 1)] += x[i];"}, "sum"),
    "lanes_of_the_second_block": Bug("reduce/row_sum.hpp", {"i < begin + whole;) {": "i < whole;) {"}, "softmax", "test_routes.py -k bits_of_rows and {best}"),
    "rest_of_64_lanes": Bug(
        "reduce/row_sum.hpp", {"for (int k = 0; k < K; ++k) part.store(rest[k] + j, x[k]);": "for (int k = 0; k < K; ++k) if (n != 130 || j) part.store(rest[k] + j, x[k]);"},
        "softmax",
    ),
    "fma_of_subnormal_sums": Bug("simd/simd.hpp", {"_mm_or_si128(low_word, _mm_castpd_si128(_mm_andnot_pd(zero, small)))": "low_word"}, "sum", "test_simd.py"),
    "double_lanes": Bug(
        "simd/simd_double.hpp", {"inline Vec64 operator+(Vec64 a, Vec64 b) { return {_mm512_add_pd(a.v, b.v)}; }":
                            "inline Vec64 operator+(Vec64 a, Vec64 b) { return {_mm512_add_pd(b.v, _mm512_mul_pd(a.v, _mm512_set1_pd(1 + 0x1p-52)))}; }"},
        "sum", only="avx512",
    ),
    "masked_load_one_too_few": Bug(
        "simd/simd.hpp", {"static __mmask16 mask(int n) { return static_cast<__mmask16>((1u << n) - 1u); }":
                     "static __mmask16 mask(int n) { return static_cast<__mmask16>((1u << (n == 13 ? 12 : n)) - 1u); }"},
        "softmax", TILES, only="avx512",
    ),
    # Steps
    "shares_overlap": Bug(
        "base/threads.cpp", {"call(*job.body, job.n * share / job.shares, job.n * (share + 1) / job.shares);":
                        "call(*job.body, job.n * share / job.shares, job.n * (share + 1) / job.shares + (job.shares == 7 && share == 3));"},
        "adam_step", STEPS,
    ),
    "pool_without_environment": Bug(
        "base/threads.cpp", {"call(*job.body, job.n": "(*job.body)(job.n"}, "adam_step", ENVIRONMENT,
    ),
    "team_of_the_parent": Bug("base/threads.cpp", {"!forked.load() && openmp()": "openmp()"}, "adam_step", TEAM),
    "team_in_a_region": Bug("base/threads.cpp", {"torchs_team() && openmp().in_parallel()": "false"}, "adam_step", TEAM),
    "team_too_small": Bug("base/threads.cpp", {"threads > team ||": "threads < 0 ||"}, "adam_step", TEAM),
    "team_not_torchs": Bug("base/openmp.hpp", {"!bind(found.parallel, \"GOMP_parallel\")": "true"}, "adam_step", TEAM),
    "team_not_tried": Bug("base/openmp.hpp", {"!can_start(threads - 1)": "!can_start(0)"}, "adam_step", TEAM),
    "scratch_too_small": Bug("base/scratch.hpp", {"blocks_[i].bytes >= bytes": "4 * blocks_[i].bytes >= bytes"}, "conv2d", TILES),
    "environment_flushes": Bug("include/repdl/ieee_scope.hpp", {"_mm_setcsr(0x1f80)": "_mm_setcsr(0x1f80 | 0x8000)"}, "adam_step"),
    "last_group_of_a_stream": Bug(
        "base/streams.hpp", {"for (std::int64_t s = 0; s < streams; ++s) {": "for (std::int64_t s = 0; s < streams - (length > page && i + at_once >= length); ++s) {"},
        "adam_step",
    ),
    "streams_of_sgd": Bug("base/streams.hpp", {"i = length * streams; i < n": "i = length * streams + (length > 2 * page); i < n"}, "sgd_step"),
    "step_of_a_later_part": Bug("step/step.cpp", {"as<T>() + begin;": "as<T>() + (c == 4 ? 0 : begin);"}, "adam_step", STEPS),
    "sgd_nesterov_first": Bug("include/repdl/step/sgd_step.hpp", {"SgdElement<decay, SgdMomentum::first, nesterov, T>": "SgdElement<decay, SgdMomentum::first, false, T>"}, "sgd_step"),
    "adagrad_eps_in_the_root": Bug("include/repdl/step/sums_of_squares.hpp", {"std::sqrt(sum) + eps_": "std::sqrt(sum + eps_)"}, "adagrad_step"),
    "adadelta_old_mean": Bug("include/repdl/step/sums_of_squares.hpp", {"std::sqrt(mean + eps_)": "std::sqrt(v + eps_)"}, "adadelta_step"),
    "adamax_nan": Bug("include/repdl/step/moments.hpp", {"before < now || now != now ? now": "before < now ? now"}, "adamax_step"),
    "nadam_one_quotient": Bug(
        "include/repdl/step/moments.hpp",
        {"weight = weight + mul(g / denominator, grad_step_);": "weight = weight + mul(g, grad_step_) / denominator;"},
        "nadam_step",
    ),
    "lerp_with_beta": Bug("include/repdl/step/moment.hpp", {"static_cast<T>(1.0 - (1.0 - beta))": "static_cast<T>(beta)"}, "radam_step"),
    "asgd_average_of_old_weight": Bug("include/repdl/step/asgd_step.hpp", {"a + mul(weight - a, mu_)": "mul(a, T(1) - mu_) + mul(weight, mu_)"}, "asgd_step"),
    "rprop_factor_of_0": Bug("include/repdl/step/rprop_step.hpp", {"factor = factor == 0 ? T(1) : factor;": ""}, "rprop_step"),
    "tensor_of_one_element": Bug("step/tensor_lists.hpp", {"if (begin < stop) body(": "if (begin + 1 < stop) body("}, "sgd_step"),
    # Elementwise functions: margins of their fast paths, special values
    "exp_margin": Bug("include/repdl/exact/pairs/exp.hpp", {"? 0x1p-22f : 0x1.8p-22f": "? 0x1p-24f : 0x1.8p-24f"}, "elementwise", "test_parity.py -k TestCpu and exp__"),
    "erf_margin": Bug("include/repdl/exact/pairs/erf.hpp", {"rounded(DoubleFloat<V>{s, rest}, margin);": "rounded(DoubleFloat<V>{s, rest}, margin * V::set1(0.5f));"}, "elementwise", "test_parity.py -k TestCpu and erf__", "avx512"),
    "erf_by_eight_margin": Bug("exact/erf_avx2.hpp", {"rounded(pairs::DoubleFloat<Vec>{s, rest}, margin);": "rounded(pairs::DoubleFloat<Vec>{s, rest}, margin * Vec::set1(0.25f));"}, "elementwise", "test_parity.py -k TestCpu and erf__", "avx2"),
    "erf_by_eight_last_coefficient": Bug("exact/erf_avx2.hpp", {"b9 = vec_of(bits_of(b8) << 16)": "b9 = b8"}, "elementwise", "test_parity.py -k TestCpu and erf__", "avx2"),
    "erf_by_eight_last_interval": Bug("exact/erf_avx2.hpp", {"smaller(Vec::set1(0x1.fffffep+1f), fma(z, Vec::set1(0.91f), Vec::set1(1.0f)))": "fma(z, Vec::set1(0.91f), Vec::set1(1.0f))"}, "elementwise", "test_parity.py -k TestCpu and erf__", "avx2"),
    "sigmoid_margin": Bug("include/repdl/exact/pairs/sigmoid.hpp", {"? 0x1.ap-36f : 0x1.bp-34f": "? 0x1.ap-38f : 0x1.bp-36f"}, "elementwise", "test_parity.py -k TestCpu and sigmoid__"),
    "sigmoid_undecided": Bug("exact/sigmoid_vec.hpp", {"return or_else<exactly<exact::sigmoid>>(x, pairs::sigmoid(value_of(x)));": "Rounded y = pairs::sigmoid(value_of(x)); y.decided = everywhere(); return or_else<exactly<exact::sigmoid>>(x, y);"}, "elementwise", "test_parity.py -k TestCpu and sigmoid__"),
    "expm1_margin": Bug("include/repdl/exact/pairs/expm1.hpp", {"expm1_far = 0x1.8p-23f": "expm1_far = 0x1.8p-24f"}, "elementwise", "test_parity.py -k TestCpu and expm1__"),
    "tanh_margin": Bug("exact/tanh_vec.hpp", {"fma(s, margin[index], rest)": "fma(s * Vec::set1(0.5f), margin[index], rest)"}, "elementwise", "test_parity.py -k TestCpu and tanh__", "avx512"),
    "tanh_pairs_margin": Bug("include/repdl/exact/pairs/tanh.hpp", {"tanh_margin = 0x1.bp-24f": "tanh_margin = 0x1.bp-25f"}, "elementwise", "test_parity.py -k TestCpu and tanh__", "avx2"),
    "sin_margin": Bug("include/repdl/exact/pairs/sin.hpp", {"rounded(DoubleFloat<V>{s, rest}, margin);": "rounded(DoubleFloat<V>{s, rest}, margin * V::set1(0.5f));"}, "elementwise", "test_parity.py -k TestCpu and sin__"),
    "cos_margin": Bug("include/repdl/exact/pairs/sin.hpp", {"rounded(DoubleFloat<V>{s, rest}, margin);": "rounded(DoubleFloat<V>{s, rest}, margin * V::set1(0.5f));"}, "elementwise", "test_parity.py -k TestCpu and cos__"),
    "log_margin": Bug("include/repdl/exact/pairs/log.hpp", {"log_margin = {0x1p-23f, 0x1p-37f}": "log_margin = {0x1p-24f, 0x1p-38f}"}, "elementwise", "test_parity.py -k TestCpu and log__"),
    "log2_margin": Bug("include/repdl/exact/pairs/log.hpp", {"{0x1.2p-23f, 0x1p-36f}": "{0x1.2p-24f, 0x1p-37f}"}, "elementwise", "test_parity.py -k TestCpu and log2__"),
    "log10_margin": Bug("include/repdl/exact/pairs/log.hpp", {"{0x1.8p-25f, 0x1p-36f}": "{0x1.8p-26f, 0x1p-37f}"}, "elementwise", "test_parity.py -k TestCpu and log10__"),
    "log1p_margin": Bug("include/repdl/exact/pairs/log.hpp", {"{entries<V> == 32 ? 0x1p-23f : 0x1.2p-23f, 0x1p-36f}": "{entries<V> == 32 ? 0x1p-24f : 0x1.2p-24f, 0x1p-37f}"}, "elementwise", "test_parity.py -k TestCpu and log1p__"),
    "second_tested_undecided": Bug("pointwise/pointwise.cpp", {"if (!all(low.decided & high.decided)) return false;": "if (!all(low.decided)) return false;"}, "elementwise", "test_parity.py -k TestCpu and (exp__ or exp2__ or expm1__ or log__ or log10__ or log1p__ or log2__ or sigmoid__ or tanh__)", only="avx512"),
    "sixty_four_pairs_in_doubt": Bug("simd/row_loop.hpp", {"if (count < most) continue; apart(left, count); count = 0;": "if (count < most) continue; count = 0;"}, "elementwise", "test_parity.py -k TestCpu and tanh__"),
    "first_stage_of_the_same_pair": Bug("simd/row_loop.hpp", {"? first(i + 2 * W) : state": "? first(i) : state"}, "elementwise", "test_parity.py -k TestCpu and sigmoid__", only="avx512"),
    "second_stage_decides_all": Bug("exact/sigmoid_vec.hpp", {"return {y.value, y.decided};": "return {y.value, everywhere()};"}, "elementwise", "test_parity.py -k TestCpu and sigmoid__", only="avx512"),
    "last_pairs_in_doubt": Bug("simd/row_loop.hpp", {"if (count != 0) apart(left, count);": "if (count > 1) apart(left, count);"}, "elementwise", "test_parity.py -k TestCpu and tanh__"),
    "sixteen_elements_in_doubt": Bug("simd/retry_queue.hpp", {"if (++count_ == Vec::width) compute();": "if (++count_ == Vec::width) count_ = 0;"}, "elementwise", "test_parity.py -k TestCpu and tanh__"),
    "last_element_in_doubt": Bug("simd/retry_queue.hpp", {"if (count_ != 0) compute();": "if (count_ > 1) compute();"}, "elementwise", "test_parity.py -k TestCpu and tanh__"),
    "in_doubt_read_after_the_store": Bug("pointwise/pointwise.cpp", {"retries.add(i, given, !y.decided);": "retries.add(i, {Vec::load(x[I] + i)...}, !y.decided);"}, "elementwise", "test_replay_in_place.py -k many_elements"),
    "exp2_margin": Bug("include/repdl/exact/pairs/exp.hpp", {"? 0x1p-22f : 0x1.8p-22f": "? 0x1p-24f : 0x1.8p-24f"}, "elementwise", "test_parity.py -k TestCpu and exp2__"),
    "exp2_slope": Bug("include/repdl/exact/pairs/exp2.hpp", {"fma(t, q, s_rest)": "t * q"}, "elementwise", "test_parity.py -k TestCpu and exp2__"),
    "exp_undecided": Bug("exact/exp_vec.hpp", {"x < Vec::set1(-104.0f)": "x < Vec::set1(-90.0f)"}, "elementwise", "test_parity.py -k TestCpu and exp__"),
    "erf_undecided": Bug("exact/erf_vec.hpp", {"return or_else<exactly<exact::erf>>(x, y);": "return or_else<exactly<exact::erf>>(x, Rounded{y.value, everywhere()});"}, "elementwise", "test_parity.py -k TestCpu and erf__"),
    "expm1_undecided": Bug("exact/expm1_vec.hpp", {"exactly<exact::expm1>": "exactly<exact::exp>"}, "elementwise", "test_parity.py -k TestCpu and expm1__"),
    "cos_undecided": Bug("exact/sin_vec.hpp", {"exactly<exact::Cos>": "exactly<exact::Sin>"}, "elementwise", "test_parity.py -k TestCpu and cos__"),
    "log2_undecided": Bug("exact/log_vec.hpp", {"exactly<exact::log2>": "exactly<exact::log>"}, "elementwise", "test_parity.py -k TestCpu and log2__"),
    "exp2_undecided": Bug("exact/exp2_vec.hpp", {"return or_else<exactly<exact::exp2>>(x, pairs::exp2(value_of(x)));": "Rounded y = pairs::exp2(value_of(x)); y.decided = everywhere(); return or_else<exactly<exact::exp2>>(x, y);"}, "elementwise", "test_parity.py -k TestCpu and exp2__"),
    "rsqrt_undecided": Bug("exact/rsqrt_vec.hpp", {"exactly<exact::rsqrt>": "exactly<exact::exp>"}, "elementwise", "test_parity.py -k TestCpu and rsqrt__"),
    "rsqrt_margin": Bug("include/repdl/exact/pairs/rsqrt.hpp", {"V::set1(0x1p-42f)": "V::set1(0x1p-51f)"}, "elementwise", "test_parity.py -k TestCpu and rsqrt__"),
    "undecided_lanes_kept": Bug("simd/simd_mask.hpp", {"return select(undecided, each_of_apart<f>(x), y);": "return select(undecided & !(y < Vec::zero()), each_of_apart<f>(x), y);"}, "elementwise", "test_parity.py -k TestCpu and (erf__ or log__)"),
    "div_floor_of_negatives": Bug("include/repdl/pointwise/arithmetic.hpp", {"(b > T(0) && rest < T(0)) || (b < T(0) && rest > T(0))": "b > T(0) && rest < T(0)"}, "elementwise", "test_parity.py -k TestCpu and div_floor__"),
    "minimum_of_nan": Bug("include/repdl/pointwise/arithmetic.hpp", {"a > b || b != b ? b : a": "a > b ? b : a"}, "elementwise", "test_parity.py -k TestCpu and minimum__"),
    "number_operand_copied_as_a_row": Bug("pointwise/walk.hpp", {"if (stride == 0) return void(std::fill(y, y + n, *first));": "if (stride == 0) return void(std::copy(first, first + n, y));"}, "elementwise", "test_parity.py -k TestCpu and sub__"),
    "accurate_path": Bug("include/repdl/exact/two_paths.hpp", {"if (uncertain_each[i] != 0) y": "if (uncertain_each[i] == 2) y"}, "elementwise", "test_parity.py -k TestCpu and tan__"),
    "silu_slope": Bug("include/repdl/pointwise/activation.hpp", {"mul(s, one + mul(x, one - s))": "mul(s, one + (x - mul(x, s)))"}, "activation", "test_parity.py -k TestCpu and silu_backward"),
    "fmod_of_too_many_multiples": Bug("include/repdl/pointwise/arithmetic.hpp", {"times > 0x1p53 ?": "times > 0x1p80 ?"}, "elementwise", "test_parity.py -k TestCpu and fmod_"),
    "fmod_of_a_rounded_quotient": Bug("include/repdl/pointwise/arithmetic.hpp", {"fma(-whole, step, x) < 0.0 ? whole - 1.0 : whole": "whole"}, "elementwise", "test_special_positions.py -k remainders"),
    "fmod_without_a_step": Bug("include/repdl/pointwise/arithmetic.hpp", {"    left = left_of(left, mul(size, 0x1p48));\n": ""}, "elementwise", "test_parity.py -k TestCpu and fmod_"),
    "remainder_of_one_sign": Bug("include/repdl/pointwise/arithmetic.hpp", {"((left > T(0)) & (y < T(0)))": "(left > T(0))"}, "elementwise", "test_parity.py -k TestCpu and remainder_"),
    "hypot_without_its_scale": Bug("include/repdl/pointwise/arithmetic.hpp", {"((largest != T(0)) & (largest - largest == T(0))) ? largest : T(1)": "T(1)"}, "elementwise", "test_parity.py -k TestCpu and hypot_"),
    "smooth_l1_divided_last": Bug("include/repdl/pointwise/loss.hpp", {"mul(grad / this->delta, x)": "mul(grad, x) / this->delta"}, "losses", "test_parity.py -k TestCpu and smooth_l1_"),
    "huber_line_of_no_number": Bug("include/repdl/pointwise/loss.hpp", {"at == T(0) ? mul(x, T(0)) : at": "x"}, "losses", "test_parity.py -k TestCpu and huber_"),
    "options_of_another_kind": Bug("include/repdl/pointwise/activation.hpp", {'approximate == "tanh"': 'approximate == "none"'}, "activation", "test_parity.py -k TestCpu and gelu__"),
    "copies_of_strides": Bug("pointwise/walk.hpp", {"y[i] = first[i * stride];": "y[i] = first[i];"}, "elementwise", "test_routes.py -k pointwise"),
    "pass_joins_broadcast": Bug("include/repdl/pointwise/pass.hpp", {"own < 0 || operands[k]->size[own] == 1 ? 0 :": "own < 0 ? 0 :"}, "elementwise", "test_parity.py -k TestCpu and add__"),
    "cell_slope": Bug("include/repdl/cell/cells.hpp", {"return mul(constant<T>(1.0) - y, y);": "return y - mul(y, y);"}, "cell", "test_parity.py -k TestCpu and gates_backward__"),
    "cell_second_tested": Bug("cell/cell_row.hpp", {"decided &= all(y[k][v].decided);": "decided &= k == 1 || all(y[k][v].decided);"}, "cell", "test_parity.py -k TestCpu and gates", only="avx512"),
    "constant_of_vectors": Bug("simd/vectors.hpp", {"return cpu::Vec::set1(static_cast<float>(value));": "return cpu::Vec::set1(static_cast<float>(value * 1.0000001));"}, "activation", "test_parity.py -k TestCpu and gelu__"),
    "cell_rows": Bug("include/repdl/cell/entry.hpp", {"row[v] = count * size;": "row[v] = size;"}, "cell", "test_parity.py -k TestCpu and gru_gates__"),
    "cell_rows_of_the_first_output": Bug("cell/cell.cpp", {"row * values.out_row[v]": "row * values.out_row[0]"}, "cell", "test_parity.py -k TestCpu and gates"),
    "cell_nan": Bug("cell/cell_row.hpp", {"part.store(out[v] + i, canonical(y[v]));": "part.store(out[v] + i, y[v]);"}, "cell", "test_parity.py -k TestCpu and gates"),
    "cell_of_doubles_nan": Bug("cell/cell_row.hpp", {"canonical(made[v])": "made[v]"}, "cell", "test_parity.py -k TestCpu and gates"),
    "pow_of_doubles_exponent": Bug("pointwise/pow.cpp", {"part.set1(exponent)": "part.set1(static_cast<float>(exponent))"}, "pow"),
    "softmax_of_doubles_maximum": Bug("reduce/softmax.hpp", {"row_max(x, n) + 0.0;": "row_max(x, n) * 1.0000000000000002;"}, "softmax"),
    "cross_entropy_of_doubles": Bug("loss/cross_entropy.cpp", {"canonical(p * part.set1(g))": "canonical(part.set1(g) - (part.set1(g) - p * part.set1(g)))"}, "cross_entropy"),
    "pow_nan": Bug("pointwise/pow.cpp", {"y[i] = canonical(power(x[i]));": "y[i] = power(x[i]);"}, "pow"),
    "cast_tail": Bug("pointwise/cast.cpp", {"for (std::int64_t i = begin; i < end; ++i) convert": "for (std::int64_t i = begin; i < end - (end == 1037); ++i) convert"}, "cast"),
    # Rows
    "softmax_stores_16_of_15": Bug(
        "reduce/softmax.cpp", {"part.store(y + i, canonical(part.load(y + i) / Vec::set1(s)));":
                        "const Vec e = canonical(part.load(y + i) / Vec::set1(s));\n    if (n == 15) e.store(y + i); else part.store(y + i, e);"},
        "softmax", BOUNDS + "softmax", only="avx512",
    ),
    "softmax_of_minus_zero": Bug("reduce/softmax.hpp", {"row_max(x, n) + 0.0f": "row_max(x, n) * 1.000001f"}, "softmax"),
    "row_max_of_the_rest": Bug("reduce/row_max.hpp", {"for (int l = 0; i < n; ++i, ++l)": "for (int l = 0; i + (n == 65) < n; ++i, ++l)"}, "softmax", TILES),
    "undecided_vectors_of_a_block": Bug("simd/row_loop_double.hpp", {"if (count > 0) apart(left, count);": "if (count > 1) apart(left, count);"}, "elementwise", "test_doubles.py"),
    "undecided_doubles": Bug("exact/double_vec.hpp", {"or_accurate<exact::accurate::name>": "or_accurate<exact::accurate::cos>"}, "elementwise", "test_doubles.py -k sin"),
    "product_error_of_doubles": Bug("simd/mask_double.hpp", {"return fma(a, b, -p);": "return a * b - p;"}, "elementwise", "test_parity.py -k TestCpu and exp__ and f64"),
    "sin_of_doubles_of_two_sizes": Bug("simd/mask_double.hpp", {"return lanes_of(a) == all_lanes64;": "return lanes_of(a) != 0;"}, "elementwise", "test_doubles.py -k sin"),
    "lane_of_doubles_not_redone": Bug("exact/double_vec.hpp", {"lanes_of(y.decided) ^ all_lanes64": "(lanes_of(y.decided) ^ all_lanes64) & 7u"}, "elementwise", "test_parity.py -k TestCpu and exp__ and f64"),
    "last_elements_of_doubles": Bug("simd/row_loop_double.hpp", {"if (i < n) one(i, MaskedTail64{static_cast<int>(n - i)});": "if (i < n) one(i, MaskedTail64{static_cast<int>(n - i) & 1});"}, "elementwise", "test_parity.py -k TestCpu and tanh__ and f64"),
    "row_max_double": Bug("reduce/max.cpp", {"best = x[i] > best ? x[i] : best;": "best = x[i] >= best && i != n - 1 ? x[i] : best;"}, "max", "test_parity.py -k TestCpu and max_dim and f64"),
    "max_of_any_zero": Bug("reduce/max.cpp", {"value == T(0) ? x[first_equal(x, n, value)] : value": "value"}, "max", "test_special_positions.py -k first_of_zeros"),
    "max_is_searched_from_1_on": Bug("reduce/max.cpp", {"  std::int64_t i = 0;\n  for (; i + block <= n;": "  std::int64_t i = 1;\n  for (; i + block <= n;"}, "max"),
    "max_of_nan_keeps_its_bits": Bug("reduce/max.cpp", {"if (has_nan(x, n)) return canonical(std::numeric_limits<T>::quiet_NaN());": "if (has_nan(x, n)) return x[first_equal(x, n, std::numeric_limits<T>::quiet_NaN())];"}, "max", "test_special_positions.py -k other_nans"),
    "amax_shares_with_all": Bug("reduce/max.cpp", {"out[i * n + j] = tied(row[j]) ? each : T(0);": "out[i * n + j] = row[j] >= largest ? each : T(0);"}, "max"),
    "cumsum_chain_goes_on": Bug("reduce/scan.cpp", {"std::fill(chain, chain + columns, T(0));": "if (begin == 0) std::fill(chain, chain + columns, T(0));"}, "scan", "test_parity.py -k TestCpu and cumsum_"),
    "cumsum_of_rows_goes_on": Bug("reduce/scan.cpp", {"      T chain[chains_at_once] = {};\n": "", "T carry[chains_at_once] = {};": "T carry[chains_at_once] = {}, chain[chains_at_once] = {};"}, "scan", "test_routes.py -k scans"),
    "cumsum_carries_the_first_row": Bug("reduce/scan.cpp", {"carry[r] = out[r * at.n + end - 1];": "carry[r] = out[end - 1];"}, "scan", "test_routes.py -k scans"),
    "linear_scan_of_rows_not_fused": Bug("reduce/scan.cpp", {"repdl::fma(a[i], last, b[i])": "a[i] * last + b[i]"}, "scan", "test_routes.py -k scans"),
    "linear_scan_of_rows_begins_with_another_nan": Bug("reduce/scan.cpp", {"out[r * at.n] = canonical(chain[r]);": "out[r * at.n] = chain[r];"}, "scan", "test_routes.py -k scans"),
    "chains_begin_each_piece_anew": Bug("reduce/scan.cpp", {"std::copy(last, last + chains_at_once, chain);": ""}, "scan", "test_routes.py -k scans"),
    "linear_scan_not_fused": Bug("reduce/scan.cpp", {"repdl::fma(a[i + c], out[i - at.inner + c], b[i + c])": "a[i + c] * out[i - at.inner + c] + b[i + c]"}, "scan"),
    "nll_ignored_counts": Bug("loss/nll_loss.cpp", {"if (!loss.counted(i)) continue;": "if (!loss.counted(i) && loss.weight) continue;"}, "nll_loss"),
    "loss_mean_of_all": Bug("loss/loss.hpp", {"count += counted(i);": "count += 1;"}, "nll_loss"),
    "cross_entropy_target": Bug("loss/cross_entropy.cpp", {"(exact::exp(from[t] - m) / s - T(1)) * g": "exact::exp(from[t] - m) / s * g - g"}, "cross_entropy"),
    "layer_norm_large_not_fused": Bug("norm/norm.hpp", {"canonical(rstd[r] * fma(h[v][r], b[r], w - a[r]))": "canonical(rstd[r] * (R == 4 ? h[v][r] * b[r] + (w - a[r]) : fma(h[v][r], b[r], w - a[r])))"}, "layer_norm"),
    "norm_lanes_without_elements": Bug("norm/norm.hpp", {"if (first + step >= count) return;": "if (first + 2 * step >= count) return;"}, "layer_norm", "test_parity.py -k TestCpu and layer_norm_backward"),
    "layer_norm_bias_nan": Bug("norm/layer_norm.cpp", {"grad_bias[i] = canonical(sums[n + i]);": "grad_bias[i] = sums[n + i];"}, "layer_norm", TILES),
    "rms_norm_not_fused": Bug("norm/rms_norm.cpp", {"fma(scaled, Vec::set1(b), w(i, part))": "(scaled * Vec::set1(b) + w(i, part))"}, "rms_norm"),
    "group_norm_over_batch_elements": Bug("norm/group_norm.cpp", {"stretch(i + e)(i + e, MaskedTail{1})": "here(i + e, MaskedTail{1})"}, "group_norm"),
    "group_norm_channels_of_the_group": Bug("norm/group_norm.cpp", {"channels(k * s.channels, (k + 1) * s.channels);": "channels(k * s.channels, (k + 1) * s.channels - (k > 1));"}, "group_norm"),
    "group_norm_end_of_a_batch_element": Bug("reduce/row_sum.hpp", {"here.end - (group * Vec::width - 1)": "here.end"}, "group_norm"),
    "batch_norm_momentum": Bug("norm/batch_norm.cpp", {"keep = static_cast<T>(1.0 - momentum);": "keep = T(1) - static_cast<T>(momentum);"}, "batch_norm"),
    "batch_norm_tail_not_fused": Bug("norm/batch_norm.cpp", {"canonical(fma((from[i] - mean) * invstd, weight, bias))": "canonical((from[i] - mean) * invstd * weight + bias)"}, "batch_norm"),
    # Attention
    # Recurrent layers
    "panels_chunks_of_two_rows_lost": Bug("gemm/panels.hpp", {"tree.push(acc);": "if (R != 2) tree.push(acc);"}, "recurrent", TILES),
    "panels_third_of_four": Bug("gemm/panels.hpp", {"Vec::load(b + p * panel +": "Vec::load(b + (p == 2 ? 1 : p) * panel +"}, "recurrent", TILES),
    "panels_from_the_first": Bug(
        "gemm/panels.hpp", {"return {from.panels, from.column, first, count, k0};": "return {from.panels, 0, first, count, k0};"}, "recurrent", LAYERS,
    ),
    "gates_bias_of_the_first_block": Bug("recurrent/gate_product.hpp", {"bias_ + g * size_ + first, count": "bias_ + g * size_, count"}, "recurrent", TILES),
    "gates_bias_of_the_first_thread": Bug("recurrent/gate_product.hpp", {"out.column_bias = bias_ + row;": "out.column_bias = bias_ + g * size_;"}, "recurrent", LAYERS),
    "layer_keeps_the_last_row": Bug(
        "recurrent/recurrent.cpp", {"first * width_, rows * width_, last_hidden_.data": "first * width_, (rows - (rows > 3)) * width_, last_hidden_.data"},
        "recurrent", "test_parity.py -k TestCpu and gru_layer__",
    ),
    "layer_saves_a_cell_too_few": Bug(
        "recurrent/recurrent.cpp", {"std::copy_n(at(last_cell_), count,": "std::copy_n(at(last_cell_), count - (count == 5),"},
        "recurrent", "test_parity.py -k TestCpu and lstm_layer__",
    ),
    "layer_relu_of_minus_zero": Bug("recurrent/recurrent.cpp", {"select(sum < zero, zero, sum)": "select(zero < sum, sum, zero)"}, "recurrent", TILES),
    "layer_groups_begin_at_the_first_row": Bug("recurrent/step_parts.hpp", {"begin / blocks * group; row < limit": "0; row < limit"}, "recurrent", LAYERS),
    "layer_parts_of_other_rows_too": Bug("recurrent/step_parts.hpp", {"count = std::min(blocks - block, end - begin)": "count = std::min(blocks, end - begin)"}, "recurrent", LAYERS),
    "layer_projects_to_the_first_rows": Bug("recurrent/recurrent.cpp", {"to.data + (tile.row + r) * width_": "to.data + r * width_"}, "recurrent", LAYERS),
    "layer_backward_forgets_who_joined": Bug("recurrent/recurrent_backward.cpp", {"size(layer_.reverse ? t + 1 : t - 1)": "size(layer_.reverse ? t : t - 1)"}, "recurrent", BACKWARD),
    "layer_backward_cell_of_the_step": Bug("recurrent/recurrent_backward.cpp", {"rows.before(r, cells_, cell_) + element": "at(cells_)"}, "recurrent", BACKWARD),
    "layer_backward_projects_of_the_first_rows": Bug(
        "recurrent/recurrent_backward.cpp", {"from + tile.row * product.terms()": "from"}, "recurrent", LAYERS,
    ),
    "layer_backward_elements_from_the_first": Bug("recurrent/recurrent_backward.cpp", {"element = begin % size_;": "element = begin % size_ % 256;"}, "recurrent", LAYERS),
    "attention_keeps_a_minus_zero": Bug("attention/attention.cpp", {"if (!has_minus_zero(out, count * columns)) return;": "return;"}, "attention"),
    "attention_leaves_out_infinities": Bug("attention/attention.cpp", {"options.causal && std::isfinite(value_.largest())": "options.causal"}, "attention"),
    "attention_sees_a_key_too_few": Bug("attention/weights.hpp", {"return r % length + rows > length ? visible(length - 1)": "return r % length + rows > length + 1 ? visible(length - 1)"}, "attention"),
    "attention_mask_of_a_large_number": Bug("attention/mask.hpp", {"hidden = -std::numeric_limits<float>::infinity()": "hidden = -1e30f"}, "attention"),
    "attention_all_is_finite": Bug("attention/operands.hpp", {"bit_cast<float>(most) : infinity": "bit_cast<float>(most) : 1.0f"}, "attention"),
    "attention_hides_nan": Bug("attention/weights.hpp", {"== -std::numeric_limits<float>::infinity() && !has_nan(x, n)": "== -std::numeric_limits<float>::infinity()"}, "attention"),
    "attention_backward_keeps_a_minus_zero": Bug("attention/attention_backward.cpp", {"if (!has_minus_zero(out, rows.count * columns)) return;": "return;"}, "attention"),
    "attention_backward_forgets_nan": Bug("attention/attention_backward.cpp", {"return limit == options_.keys || std::find": "return true || std::find"}, "attention"),
    "attention_backward_leaves_out_infinite_keys": Bug("attention/attention_backward.cpp", {"&& std::isfinite(key_.largest())": ""}, "attention", SPECIAL),
    "attention_backward_leaves_out_infinite_products": Bug("attention/attention_backward.cpp", {"return products < 1e38 &&": "return"}, "attention", SPECIAL),
    "attention_largest_without_the_last_row": Bug("attention/operands.hpp", {"for (std::int64_t i = 0; i < rows; ++i) { const float* x = data + i * row;": "for (std::int64_t i = 0; i < rows - 1; ++i) {\n      const float* x = data + i * row;"}, "attention", SPECIAL),
    # What no small case reaches unless sizes are small.
    "group_norm_share_within_a_group": Bug("norm/group_norm.cpp", {"if (task == begin || task % batch == 0) body": "if (task % batch == 0) body"}, "group_norm", small=True),
    "attention_block_of_the_first_queries": Bug("attention/attention.cpp", {"query_.by_row(first), Output": "query_.by_row(first / 2 * 2), Output"}, "attention", small=True),
    "scan_second_tile": Bug("reduce/scan.cpp", {"first = t % tiles * most_columns;": "first = t % tiles * (most_columns - 1);"}, "scan", small=True),
    "pointwise_second_block_of_copies": Bug("pointwise/walk.hpp", {"here[k] = x[k] + first * stride[k] * width_[k];": "here[k] = x[k] + first * width_[k];"}, "elementwise", "test_routes.py -k pointwise", small=True),
    "permutation_second_share": Bug("random/permutation.cpp", {"in_batches(at, s * share, std::min(n, (s + 1) * share)": "in_batches(at, s * share, std::min(n, (s + 1) * share - s)"}, "random", small=True),
    "attention_backward_chunks_in_a_row": Bug("attention/attention_backward.cpp", {"part.load(left + i) + part.load(sum + i)": "part.load(sum + i)"}, "attention"),
    "attention_drops_as_in_the_first_block": Bug("attention/weights.hpp", {"(rows.head * options.rows + rows.first) * keys": "rows.head * options.rows * keys"}, "attention"),
    "attention_backward_chunks_of_rows": Bug(
        "attention/attention_backward.cpp", {"value_.columns, options_.contract.dot_chunk, grad_": "value_.columns, chunk_rows(options_.contract, query_.rows), grad_"}, "attention",
    ),
    "attention_backward_dropout_of_values_only": Bug("attention/attention_backward.cpp", {"drop(gradients, limit, rows);": ""}, "attention"),
    "attention_backward_forgets_what_dropout_multiplies_by": Bug("attention/attention_backward.cpp", {"static_cast<double>(value_.columns) * kept": "static_cast<double>(value_.columns)"}, "attention"),
    # Windows
    "max_pool_first_tap": Bug("pool/max_pool2d.cpp", {"(need + dilation - 1) / dilation": "need / dilation"}, "max_pool2d"),
    "max_pool_last_nan": Bug("pool/max_pool2d.cpp", {"value > best[z] || value != value;": "value > best[z] || (value != value && best[z] == best[z]);"}, "max_pool2d"),
    "index_sum_terms_descending": Bug(
        "reduce/terms_of_rows.hpp", {"for (std::int64_t i = 0; i < count; ++i) {": "for (std::int64_t i = count; i-- > 0;) {"}, "index_sum",
    ),
    "eight_rows_of_more_terms_than_lanes": Bug("reduce/eight_rows.hpp", {"if (longest > most)": "if (longest > max_lanes)"}, "index_sum", "test_routes.py -k rows_of_elements"),
    "eight_rows_read_the_next_one": Bug("reduce/eight_rows.hpp", {"count[k] - 8 * v": "count[k]"}, "index_sum", "test_routes.py -k rows_of_elements"),
    "eight_rows_of_minus_zeros": Bug("reduce/eight_rows.hpp", {"_mm256_add_ps(fold_each(row), _mm256_setzero_ps())": "fold_each(row)"}, "index_sum", "test_routes.py -k rows_of_elements"),
    "eight_rows_keep_a_nan": Bug("reduce/eight_rows.hpp", {"_mm256_cmp_ps(sums, sums, _CMP_UNORD_Q)": "_mm256_setzero_ps()"}, "index_sum", "test_routes.py -k rows_of_elements"),
    "eight_rows_fold_neighbours_first": Bug("reduce/eight_rows.hpp", {"0x88": "0x44", "0xdd": "0xee"}, "index_sum", "test_routes.py -k rows_of_elements"),
    "index_sum_of_minus_zero_times": Bug("reduce/index_sum.cpp", {"std::signbit(alpha) ? T(1) : T(-1)": "alpha < 0 ? T(1) : T(-1)"}, "index_sum", "test_special_positions.py -k signs"),
    "batch_norm_nan_behind_the_vectors": Bug("norm/batch_norm.cpp", {"to[i] = canonical(scale * fma(-((from[i] - mean) * invstd), w, g[i] - b));": "to[i] = scale * fma(-((from[i] - mean) * invstd), w, g[i] - b);"}, "batch_norm", "test_special_positions.py -k normalisation"),
    "index_sum_adds_to_untouched_rows": Bug("reduce/index_sum.cpp", {"terms.count(from + k) == 0 ? none : sum": "sum"}, "index_sum"),
    "few_terms_keep_a_minus_zero": Bug("reduce/few_terms.hpp", {" + V::zero()).store(out + c, rest);": ").store(out + c, rest);"}, "interpolate", RESIZED),
    "images_copy_of_the_first_image": Bug("base/images.hpp", {"* tensor.stride[nth(i)];": "* tensor.stride[nth(i)] * (i < 3);"}, "interpolate", RESIZED),
    "windows_descending": Bug("pool/side_lists.hpp", {"for (std::int64_t o = 0; o < count(); ++o)\n      for": "for (std::int64_t o = count(); o-- > 0;)\n      for"}, "avg_pool"),
    "windows_of_the_plane_before": Bug("pool/window_sums.hpp", {"(!whole_ || plane_[slot] != plane)": "(!whole_ || plane_[slot] < 0)"}, "avg_pool"),
    "nearest_of_the_first_depths": Bug("pool/nearest.cpp", {"(row / rows * in.side[0] + d)": "(row / rows + d)"}, "interpolate", RESIZED),
    "avg_pool_lengths_of_the_first_side": Bug("pool/avg_pool.cpp", {"product * lengths[next + o]": "product * lengths[o]"}, "avg_pool"),
    "resample_first_side_first": Bug(
        "pool/resample.cpp",
        {"std::reverse(named.begin(), named.end());\n": "", "  std::reverse(terms.begin(), terms.end());\n": ""}, "interpolate", RESIZED,
    ),
    "pad_order": Bug("pool/pad.cpp", {"for (std::int64_t o = 0; o < padded; ++o) {": "for (std::int64_t o = padded; o-- > 0;) {"}, "pad"),
    # Random numbers
    "counter_off_by_one": Bug("random/words.hpp", {"Lanes::set1(batch.block) + Lanes::first()": "Lanes::set1(batch.block + 1) + Lanes::first()"}, "random"),
    "counter_of_32_bits": Bug("random/words.hpp", {"{{counter, high_word(counter), third, fourth}}": "{{counter, Lanes::set1(0), third, fourth}}"}, "random"),
    "streams_overlap": Bug("include/repdl/random/position.hpp", {"static_cast<std::uint32_t>(stream >> 32 << 16) | static_cast<std::uint32_t>(plane)": "static_cast<std::uint32_t>(plane)"}, "random"),
    "philox_a_round_less": Bug("include/repdl/random/philox.hpp", {"round < 10": "round < 9"}, "random"),
    "draw_starts_at_its_block": Bug("random/words.hpp", {"skip = static_cast<std::int64_t>(number % 4);": "skip = 0;"}, "random"),
    "dropout_reads_the_first_batch": Bug("random/draw.cpp", {"x[batch.element + j]...": "x[j]..."}, "random", DRAWS),
    "dropout_strides_of_the_last_dimension": Bug("random/draw.cpp", {"row % tensor.size[d] * tensor.stride[d]": "row % tensor.size[d] * tensor.stride[last]"}, "random", "test_draws.py -k strides"),
    "row_major_whatever_the_first_stride": Bug("base/row_major.hpp", {"d-- > 0;": "d-- > 1;"}, "random", "test_draws.py -k strides"),
    "integers_keep_a_rejected_one": Bug("random/draw.cpp", {"if (rejected == 0) return;": "if (true) return;"}, "random"),
    "integers_skip_an_attempt": Bug("include/repdl/random/draws.hpp", {"attempt = narrow ? (*this)(at.word(n, plane))": "attempt = narrow ? (*this)(at.word(n, plane + 1))"}, "random"),
    "uniform_reaches_high": Bug("include/repdl/random/draws.hpp", {"x > limit ? limit : x;": "x;"}, "random", "test_parity.py -k TestCpu and uniform_"),
    "normal_of_the_next_pair": Bug("random/normal.cpp", {"random::angle(words[2 * j + 1])": "random::angle(words[2 * j])"}, "random", "test_parity.py -k TestCpu and normal__"),
    "normal_double_low_half": Bug("random/normal.cpp", {"fill_words(at, batch, random::pairs_plane + 1, low);": "fill_words(at, batch, random::pairs_plane, low);"}, "random", "test_parity.py -k TestCpu and normal__ and f64"),
    "truncated_normal_double_words_twice": Bug("include/repdl/random/draws.hpp", {"wide(at.word(n, plane + 2), at.word(n, plane + 3))": "wide(w, x)"}, "random", "test_parity.py -k TestCpu and truncated_normal__ and f64"),
    "poisson_of_one_number": Bug("random/poisson.cpp", {"number = at.offset + static_cast<std::uint64_t>(i);": "number = at.offset;"}, "random", "test_parity.py -k TestCpu and poisson_"),
    "poisson_squeeze": Bug("include/repdl/random/poisson.hpp", {"if (s >= 0.07 && v <= inner) break;": "if (s >= 0.07) break;"}, "random", "test_parity.py -k TestCpu and poisson_"),
    "permutation_ties_by_index": Bug("random/permutation.cpp", {"second(a) < second(b)": "a < b"}, "random", DRAWS),
    "permutation_shares_start_at_zero": Bug("random/permutation.cpp", {"in_batches(at, s * share,": "in_batches(at, s * share + (s > 2),"}, "random", DRAWS),
    "permutation_last_digit": Bug("random/permutation.cpp", {"pass < passes": "pass < passes - (bits < 26)"}, "random", DRAWS),
    # Doubles
    "double_second_piece": Bug("gemm/gemm_double.cpp", {"} while (k0 < end);": "} while (k0 < end - double_piece);"}, "double", "test_parity.py -k double_products"),
    "double_join_of_each_piece": Bug("gemm/gemm_double.cpp", {"whole ? joins : 0": "joins"}, "double", "test_parity.py -k double_products"),
    "double_first_join": Bug("gemm/gemm_double.cpp", {"for (int join = 0; join < sums.joins; ++join)": "for (int join = sums.joins > 1; join < sums.joins; ++join)"}, "double", "test_parity.py -k double_products"),
    "double_second_contiguous_panel": Bug("gemm/gemm_double.cpp", {"V::load(row + panel * W + i).store(to + i)": "V::load(row + (panel & 3) * W + i).store(to + i)"}, "double", "test_parity.py -k double_products"),
    "double_columns_of_another_block": Bug("gemm/gemm_double.cpp", {"std::exchange(of, block / down) != block / down": "std::exchange(of, block / down) < 0"}, "double", "test_parity.py -k double_products"),
    "double_columns_of_another_product": Bug("gemm/gemm_double.cpp", {"std::exchange(of, block / down) != block / down": "std::exchange(of, block / down % across) != block / down % across"}, "double", "test_parity.py -k double_products"),
    "double_transposed_terms": Bug("gemm/gemm_double.cpp", {"for (; k + 4 <= kc; k += 4)": "for (; k + 4 <= kc; k += 4 + (k == 8))"}, "double", "test_parity.py -k double_products"),
    "double_fourth_panel": Bug("gemm/gemm_double.cpp", {"V::load(b + j / 2 * nr * kc": "V::load(b + j / 2 % 3 * nr * kc"}, "double", "test_parity.py -k double_products"),
    "double_fewer_columns_for_threads": Bug("gemm/gemm_double.cpp", {"std::min(block_columns, n - j)}": "std::min(block_columns, n - j - (block_columns < double_columns_block && j > 0))}"}, "double", "test_parity.py -k double_products"),
    "double_phase_shift": Bug("conv/conv2d_double.cpp", {"shifts.push_back(before + reach / stride);": "shifts.push_back(before + reach / stride - (stride > 1 && phase > 0 && before > 0));"}, "double", "test_parity.py -k double_products"),
    "double_tables": Bug("gemm/gemm_double.hpp", {"longer.push_back(offset + more);": "longer.push_back(offset + more * (list.size() != 3));"}, "double", "test_parity.py -k double_products"),
    "double_nan": Bug("gemm/gemm_double.cpp", {"canonical(result).store(to": "result.store(to"}, "double", "test_parity.py -k (matmul or linear) and f64"),
    "double_norm_mean_of_rms": Bug("norm/norm_double.cpp", {"const double b = s.centred ?": "const double b = true ?"}, "norm_double", "test_parity.py -k TestCpu and rms_norm_backward and f64"),
    # What one value in every element, or a gap along one dimension, shows.
    "index_sum_of_minus_zeros": Bug("reduce/index_sum.cpp", {"fold(Vec::load(x, static_cast<int>(n))) + 0.0f": "fold(Vec::load(x, static_cast<int>(n)))"}, "index_sum", "test_special_positions.py -k minus_zeros"),
    "scan_begins_with_another_nan": Bug("reduce/scan.cpp", {"out[c] = canonical(b[c]);": "out[c] = b[c];"}, "scan", "test_routes.py -k scans"),
    "loss_of_another_nan": Bug("loss/loss.hpp", {"losses[i] = canonical(loss);": "losses[i] = loss;"}, "nll_loss", "test_special_positions.py -k other_nans"),
    "images_of_a_slice_of_the_batch": Bug("base/images.hpp", {"for (int i = 0; i < tensor.dims; ++i) {\n      const int d": "for (int i = 0; i + 1 < tensor.dims; ++i) {\n      const int d"}, "interpolate", "test_layout.py -k any_strides"),
    **LINALG_BUGS,
}  # fmt: skip
