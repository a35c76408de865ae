"""The class of each of torch's ops, by its name.

One table for all who ask (`repdl.audit`, the check of converted models): every op of torch's namespace `aten` that
has a kernel of its own. Ops that torch only composes of others (`CompositeImplicitAutograd`) are not here: what they
compose is. A name stands for all its overloads, for its form in place (`add_`) and into given memory (`out=`).
What is not here has not been looked at and counts as not reproducible, as do the ops of all other
namespaces that no registry of RepDL has.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

TORCH = "2.13"
"""The version of torch all of whose ops are in the table."""


class OpClass(Enum):
    """The class of an op; the value describes it in documentation."""

    MOVES = "Moves data: views, copies, gathering and scattering, padding, constants. Nothing is computed."
    EXACT = (
        "Exact: comparisons, bits, signs, selections with one outcome, rounding to integers; real numbers of any dtype."
    )
    INTEGER = "Exact for integers and booleans. On floating-point numbers not reproducible."
    ROUNDS = (
        "One rounding of IEEE 754 an element, for float32 and float64 on a CPU or an NVIDIA GPU, and for 16-bit floats,"
        " which torch computes in float32 and rounds once more; with the exceptions below. Integers are exact."
    )
    DRAWS = "Draws torch's random numbers, which depend on device, version and number of threads."
    REFUSED = (
        "Not reproducible: several roundings, in an order of the machine; functions that are not correctly rounded."
    )


_NAMES = {
    OpClass.MOVES: """
        _assert_async _assert_scalar _assert_tensor_metadata _chunk_cat _coalesced _conj _conj_copy _conj_physical
        _copy_from _copy_from_and_resize _cudnn_rnn_flatten_weight _dimI _dimV _efficientzerotensor
        _functional_assert_async _functional_assert_scalar _functional_sym_constrain_range
        _functional_sym_constrain_range_for_size _fw_primal _fw_primal_copy _has_same_storage_numel _index_put_impl
        _indices _indices_copy _lazy_clone _linalg_check_errors _local_scalar_dense _make_dep_token _make_dual
        _make_dual_copy _neg_view _neg_view_copy _new_zeros_with_same_feature_meta _nnz _pack_padded_sequence
        _pin_memory _print _reshape_alias _reshape_alias_copy _reshape_copy _resize_output _stack _unsafe_index
        _unsafe_index_put _unsafe_view _values _values_copy alias alias_copy as_strided as_strided_copy
        as_strided_scatter block_diag cat ccol_indices ccol_indices_copy channel_shuffle clone col_indices
        col_indices_copy complex conj_physical constant_pad_nd crow_indices crow_indices_copy dense_dim detach
        detach_copy diag_embed diagonal diagonal_backward diagonal_copy diagonal_scatter embedding empty empty_like
        empty_permuted empty_strided expand expand_copy eye fill flip full full_like gather im2col index index_copy
        index_fill index_put index_select indices indices_copy is_coalesced is_pinned is_same_size is_set_to lift
        lift_fresh lift_fresh_copy masked_fill masked_scatter masked_scatter_backward masked_select narrow_copy
        native_channel_shuffle new_empty new_empty_strided new_full new_ones new_zeros ones ones_like permute
        permute_copy pixel_shuffle pixel_unshuffle put record_stream reflection_pad1d reflection_pad2d reflection_pad3d
        repeat repeat_interleave replication_pad1d replication_pad2d replication_pad3d resize resize_as roll rot90
        row_indices row_indices_copy scalar_tensor scatter select select_backward select_copy select_scatter set slice
        slice_backward slice_copy slice_inverse slice_scatter sparse_dim split split_copy split_with_sizes
        split_with_sizes_copy squeeze squeeze_copy stack sym_constrain_range sym_constrain_range_for_size t t_copy take
        transpose transpose_copy tril tril_indices triu triu_indices unbind unbind_copy unfold unfold_copy unsafe_split
        unsafe_split_with_sizes unsqueeze unsqueeze_copy values values_copy view view_as_complex view_as_complex_copy
        view_as_real view_as_real_copy view_copy zero zeros zeros_like
    """,
    OpClass.EXACT: """
        _is_all_true _is_any_true abs all any argmax argmin bitwise_and bitwise_not bitwise_or bitwise_xor bucketize
        ceil copysign count_nonzero eq equal floor frac ge gt heaviside isin isinf isnan isneginf isposinf le
        logical_and logical_not logical_or logical_xor lt nan_to_num ne neg nextafter nonzero nonzero_static round
        searchsorted sgn sign signbit sort threshold threshold_backward trunc where
    """,
    OpClass.INTEGER: """
        __ilshift__ __irshift__ __lshift__ __rshift__ _aminmax _unique _unique2 addbmm addcmul addmm addmv
        addr amax amin aminmax baddbmm bincount bitwise_left_shift bitwise_right_shift bmm clamp clamp_max clamp_min
        cumprod cumsum dot floor_divide fmax fmin fmod gcd hardtanh index_add lcm max maximum min minimum mm mv nansum
        pow prod relu remainder scatter_add scatter_reduce sum trace unique_consecutive unique_dim
        unique_dim_consecutive vdot
    """,
    OpClass.ROUNDS: "_foreach_copy _to_copy add arange copy div mul range reciprocal rsub sub",
    OpClass.DRAWS: """
        _cudnn_init_dropout_state _fill_mem_eff_dropout_mask _fused_dropout _philox_key_fold_in _philox_key_split
        _philox_normal _philox_uniform _sample_dirichlet _standard_gamma bernoulli binomial cauchy exponential
        geometric log_normal multinomial native_dropout normal normal_functional poisson rand rand_like randint
        randint_like randn randn_like random randperm rrelu_with_noise rrelu_with_noise_functional uniform
    """,
    OpClass.REFUSED: """
        _adaptive_avg_pool2d _adaptive_avg_pool2d_backward _adaptive_avg_pool3d _adaptive_avg_pool3d_backward _add_relu
        _addmm_activation _amp_foreach_non_finite_check_and_unscale _amp_update_scale _batch_norm_no_update
        _batch_norm_with_update _batch_norm_with_update_functional _cdist_backward _cdist_forward _cholesky_solve_helper
        _coalesce _compute_linear_combination _conv_depthwise2d _convert_indices_from_coo_to_csr
        _convert_indices_from_csr_to_coo _convert_weight_to_int4pack _convert_weight_to_int4pack_for_cpu _convolution
        _cslt_compress _cslt_sparse_mm _cslt_sparse_mm_search _ctc_loss _ctc_loss_backward _cudnn_attention_backward
        _cudnn_attention_forward _cudnn_ctc_loss _cudnn_rnn _cudnn_rnn_backward _cummax_helper
        _cummin_helper _dirichlet_grad _dyn_quant_matmul_4bit _dyn_quant_pack_4bit_weight _efficient_attention_backward
        _efficient_attention_forward _embedding_bag _embedding_bag_backward _embedding_bag_dense_backward
        _embedding_bag_forward_only _embedding_bag_per_sample_weights_backward _empty_affine_quantized
        _empty_per_channel_affine_quantized _euclidean_dist _fake_quantize_learnable_per_channel_affine
        _fake_quantize_learnable_per_channel_affine_backward _fake_quantize_learnable_per_tensor_affine
        _fake_quantize_learnable_per_tensor_affine_backward _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
        _fft_c2c _fft_c2r _fft_r2c _flash_attention_backward _flash_attention_forward
        _flash_attention_forward_no_dropout_inplace _foobar _foreach_powsum _fused_adagrad _fused_adam _fused_adamw
        _fused_moving_avg_obs_fq_helper _fused_moving_avg_obs_fq_helper_functional _fused_rms_norm_backward
        _fused_sdp_choice _fused_sgd _grid_sampler_2d_cpu_fallback _grid_sampler_2d_cpu_fallback_backward _grouped_mm
        _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors _int_mm
        _jagged_to_padded_dense_forward _linalg_det _linalg_eigh _linalg_eigvals _linalg_slogdet _linalg_solve_ex
        _linalg_svd _log_softmax _log_softmax_backward_data _logcumsumexp _lstm_mps _make_per_channel_quantized_tensor
        _make_per_tensor_quantized_tensor _masked_scale _masked_softmax _masked_softmax_backward _mixed_dtypes_linear
        _mkldnn_reshape _mkldnn_transpose _mps_convolution _mps_convolution_transpose _native_batch_norm_legit
        _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _native_multi_head_attention
        _nested_compute_contiguous_strides_offsets _nested_from_padded _nested_from_padded_and_nested_example
        _nested_from_padded_tensor _nested_get_jagged_dummy _nested_get_lengths _nested_get_max_seqlen
        _nested_get_min_seqlen _nested_get_offsets _nested_get_ragged_idx _nested_get_values _nested_get_values_copy
        _nested_select_backward _nested_sum_backward _nested_tensor_from_mask _nested_tensor_from_mask_left_aligned
        _nested_tensor_from_tensor_list _nested_tensor_size _nested_tensor_softmax_with_shape
        _nested_tensor_storage_offsets _nested_tensor_strides _nested_view_from_buffer _nested_view_from_buffer_copy
        _nested_view_from_jagged _nested_view_from_jagged_copy _nnpack_spatial_convolution
        _padded_dense_to_jagged_forward _pdist_backward _pdist_forward _prelu_kernel _prelu_kernel_backward
        _safe_softmax _scaled_dot_product_attention_math_for_mps _scaled_dot_product_cudnn_attention
        _scaled_dot_product_cudnn_attention_backward _scaled_dot_product_efficient_attention
        _scaled_dot_product_efficient_attention_backward _scaled_dot_product_flash_attention
        _scaled_dot_product_flash_attention_backward _scaled_dot_product_flash_attention_for_cpu
        _scaled_dot_product_flash_attention_for_cpu_backward _scaled_dot_product_fused_attention_overrideable
        _scaled_dot_product_fused_attention_overrideable_backward _scaled_grouped_mm _scaled_grouped_mm_v2 _scaled_mm
        _scaled_mm_v2 _segment_reduce_backward _slow_conv2d_backward _slow_conv2d_forward _softmax
        _softmax_backward_data _sparse_addmm _sparse_broadcast_to _sparse_broadcast_to_copy
        _sparse_compressed_tensor_with_dims _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors
        _sparse_csr_prod _sparse_csr_sum _sparse_log_softmax _sparse_log_softmax_backward_data _sparse_mask_projection
        _sparse_mm_reduce_impl _sparse_mm_reduce_impl_backward _sparse_semi_structured_addmm
        _sparse_semi_structured_apply _sparse_semi_structured_apply_dense _sparse_semi_structured_linear
        _sparse_semi_structured_mm _sparse_semi_structured_tile _sparse_softmax _sparse_softmax_backward_data
        _sparse_sparse_matmul _sparse_sum _sparse_sum_backward _spdiags _spsolve _standard_gamma_grad
        _test_autograd_multiple_dispatch _test_autograd_multiple_dispatch_view
        _test_autograd_multiple_dispatch_view_copy _test_functorch_fallback _test_optional_filled_intlist
        _test_optional_floatlist _test_optional_intlist _test_parallel_materialize _test_warn_in_autograd
        _thnn_fused_gru_cell _thnn_fused_gru_cell_backward _thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl
        _to_dense _to_sparse _to_sparse_bsc _to_sparse_bsr _to_sparse_csc _to_sparse_csr _to_sparse_semi_structured
        _transform_bias_rescale_qkv _transformer_encoder_layer_fwd _trilinear _triton_multi_head_attention
        _triton_scaled_dot_attention _unsafe_masked_index _unsafe_masked_index_put_accumulate _upsample_bicubic2d_aa
        _upsample_bicubic2d_aa_backward _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward _upsample_lanczos2d_aa
        _upsample_lanczos2d_aa_backward _upsample_nearest_exact1d _upsample_nearest_exact1d_backward
        _upsample_nearest_exact2d _upsample_nearest_exact2d_backward _upsample_nearest_exact3d
        _upsample_nearest_exact3d_backward _use_cudnn_ctc_loss _use_miopen_ctc_loss _validate_compressed_sparse_indices
        _weight_int4pack_mm _weight_int4pack_mm_for_cpu _weight_int4pack_mm_with_scales_and_zeros _weight_int8pack_mm
        _weight_norm_interface _weight_norm_interface_backward acos acosh adaptive_avg_pool1d adaptive_avg_pool2d
        adaptive_avg_pool3d adaptive_avg_pool3d_backward adaptive_max_pool2d adaptive_max_pool2d_backward
        adaptive_max_pool3d adaptive_max_pool3d_backward addcdiv affine_grid_generator allclose angle asin asinh atan
        atan2 atanh avg_pool1d avg_pool2d avg_pool2d_backward avg_pool3d avg_pool3d_backward bartlett_window
        batch_norm_backward batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt
        batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats
        binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits blackman_window celu
        cholesky cholesky_inverse cholesky_solve col2im conv_depthwise3d conv_tbc convolution convolution_backward
        convolution_backward_overrideable convolution_overrideable copy_sparse_to_sparse cos cosh
        cudnn_affine_grid_generator cudnn_affine_grid_generator_backward cudnn_batch_norm cudnn_batch_norm_backward
        cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu cudnn_convolution_transpose
        cudnn_grid_sampler cudnn_grid_sampler_backward cummax cummin deg2rad dequantize digamma dist elu elu_backward
        embedding_dense_backward embedding_renorm empty_quantized erf erfc erfinv exp exp2 expm1
        fake_quantize_per_channel_affine_cachemask fake_quantize_per_tensor_affine_cachemask fft_fftfreq fft_rfftfreq
        fractional_max_pool2d fractional_max_pool2d_backward fractional_max_pool3d fractional_max_pool3d_backward frexp
        from_file gelu gelu_backward geqrf glu glu_backward glu_backward_jvp glu_jvp grid_sampler_2d
        grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward hamming_window hann_window hardshrink
        hardshrink_backward hardsigmoid hardsigmoid_backward hardswish hardswish_backward hardtanh_backward hash_tensor
        histc histogram hspmm huber_loss huber_loss_backward hypot i0 igamma igammac index_reduce int_repr kaiser_window
        kthvalue ldexp leaky_relu leaky_relu_backward lerp lgamma linalg__powsum linalg_cholesky_ex linalg_cross
        linalg_eig linalg_eigvals linalg_householder_product linalg_inv_ex linalg_ldl_factor_ex linalg_ldl_solve
        linalg_lstsq linalg_lu linalg_lu_factor_ex linalg_lu_solve linalg_matrix_exp linalg_pinv linalg_qr
        linalg_solve_triangular linalg_vector_norm linear linear_backward linspace log log10 log1p log2
        log_sigmoid_backward log_sigmoid_forward log_softmax logaddexp logaddexp2 logcumsumexp logit logit_backward
        logspace logsumexp lstm_mps_backward lu_unpack matmul_backward max_pool2d_backward max_pool2d_with_indices
        max_pool2d_with_indices_backward max_pool3d_with_indices max_pool3d_with_indices_backward max_unpool2d
        max_unpool3d mean median miopen_batch_norm miopen_batch_norm_backward miopen_convolution
        miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose miopen_ctc_loss
        miopen_depthwise_convolution miopen_rnn miopen_rnn_backward mish mish_backward mkldnn_adaptive_avg_pool2d
        mkldnn_adaptive_avg_pool2d_backward mkldnn_convolution mkldnn_linear mkldnn_linear_backward
        mkldnn_linear_backward_input mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool2d_backward
        mkldnn_max_pool3d mkldnn_max_pool3d_backward mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight
        mkldnn_rnn_layer mkldnn_rnn_layer_backward mode mps_convolution_backward mps_convolution_transpose_backward
        mse_loss mse_loss_backward multi_margin_loss multi_margin_loss_backward multilabel_margin_loss_backward
        multilabel_margin_loss_forward mvlgamma nanmedian native_batch_norm native_batch_norm_backward
        native_dropout_backward native_group_norm native_group_norm_backward native_layer_norm
        native_layer_norm_backward native_norm nll_loss2d_backward nll_loss2d_forward nll_loss_backward nll_loss_forward
        norm ormqr polar polygamma q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale
        q_zero_point qscheme quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm
        quantized_gru quantized_lstm quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d rad2deg
        reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward renorm replication_pad1d_backward
        replication_pad2d_backward replication_pad3d_backward resize_as_sparse rrelu_with_noise_backward rsqrt
        segment_reduce sigmoid sigmoid_backward silu silu_backward sin sinc sinh slow_conv3d_forward slow_conv_dilated2d
        slow_conv_dilated3d slow_conv_transpose2d slow_conv_transpose3d smooth_l1_loss smooth_l1_loss_backward
        soft_margin_loss soft_margin_loss_backward softmax softplus softplus_backward softshrink softshrink_backward
        sparse_compressed_tensor sparse_coo_tensor sparse_mask sparse_resize sparse_resize_and_clear
        sparse_sampled_addmm special_airy_ai special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1
        special_chebyshev_polynomial_t special_chebyshev_polynomial_u special_chebyshev_polynomial_v
        special_chebyshev_polynomial_w special_entr special_erfcx special_hermite_polynomial_h
        special_hermite_polynomial_he special_i0e special_i1 special_i1e special_laguerre_polynomial_l
        special_legendre_polynomial_p special_log_ndtr special_modified_bessel_i0 special_modified_bessel_i1
        special_modified_bessel_k0 special_modified_bessel_k1 special_ndtri special_scaled_modified_bessel_k0
        special_scaled_modified_bessel_k1 special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u
        special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w special_spherical_bessel_j0
        special_xlog1py special_zeta sqrt sspaddmm std std_mean tan tanh tanh_backward to_mkldnn to_padded_tensor topk
        triangular_solve unfold_backward upsample_bicubic2d upsample_bicubic2d_backward upsample_bilinear2d
        upsample_bilinear2d_backward upsample_linear1d upsample_linear1d_backward upsample_nearest1d
        upsample_nearest1d_backward upsample_nearest2d upsample_nearest2d_backward upsample_nearest3d
        upsample_nearest3d_backward upsample_trilinear3d upsample_trilinear3d_backward var var_mean xlogy
    """,
}

OP_CLASSES: dict[str, OpClass] = {name: op_class for op_class, names in _NAMES.items() for name in names.split()}
"""The class of an op by its name, without `aten::` and without the underscore of its form in place."""

_LISTS = "_foreach_"


def plain_name(op: Any) -> str:
    """The name of an op of `aten` in `OP_CLASSES`, by its overload or its name; "" for other namespaces."""
    namespace, _, name = (op if isinstance(op, str) else op.name()).partition("::")
    name = name.partition(".")[0]
    if namespace != "aten":
        return ""
    return name[:-1] if name.endswith("_") and not name.startswith("__") else name


def class_of(name: str) -> OpClass | None:
    """The class of an op of `aten` by its plain name; None: the table does not have it.

    An op on lists is what it is on a tensor where that computes nothing; what rounds is not looked at.
    """
    if name in OP_CLASSES or not name.startswith(_LISTS):
        return OP_CLASSES.get(name)
    op_class = OP_CLASSES.get(name.removeprefix(_LISTS))
    return op_class if op_class in (None, OpClass.MOVES, OpClass.EXACT) else OpClass.REFUSED


__all__ = ["OP_CLASSES", "TORCH", "OpClass", "class_of", "plain_name"]
