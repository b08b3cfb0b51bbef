"""Neural networks."""

ROWS = {
    "nn.activations": (
        "nn.relu6 nn.leaky_relu nn.crelu nn.swish nn.silu=swish nn.softmax math.softmax nn.log_softmax math.log_softmax "
        "nn.bias_add nn.xw_plus_b nn.relu_layer nn.top_k math.top_k nn.in_top_k math.in_top_k nn.zero_fraction "
        "math.zero_fraction"
    ),
    "nn.normalization": (
        "nn.l2_normalize math.l2_normalize linalg.l2_normalize nn.moments nn.weighted_moments nn.sufficient_statistics "
        "nn.normalize_moments nn.batch_normalization nn.batch_norm_with_global_normalization nn.fused_batch_norm nn.dropout "
        "nn.experimental.general_dropout nn.experimental.stateless_dropout"
    ),
    "nn.losses": (
        "nn.softmax_cross_entropy_with_logits nn.softmax_cross_entropy_with_logits_v2 "
        "nn.sparse_softmax_cross_entropy_with_logits nn.sigmoid_cross_entropy_with_logits "
        "nn.weighted_cross_entropy_with_logits nn.log_poisson_loss"
    ),
    "nn.convolutions": (
        "nn.conv1d nn.conv2d nn.conv3d nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose nn.conv2d_backprop_filter "
        "nn.conv2d_backprop_input nn.dilation2d nn.erosion2d"
    ),
    "nn.dilated": (
        "nn.atrous_conv2d nn.convolution nn.depthwise_conv2d nn.depthwise_conv2d_native nn.separable_conv2d "
        "nn.with_space_to_batch"
    ),
    "nn.pooling": (
        "nn.max_pool nn.avg_pool nn.max_pool1d nn.avg_pool1d nn.max_pool2d nn.avg_pool2d=avg_pool nn.max_pool3d nn.avg_pool3d "
        "nn.max_pool_v2 nn.avg_pool_v2 nn.max_pool_with_argmax nn.pool nn.fractional_max_pool nn.fractional_avg_pool"
    ),
    "nn.embedding": "nn.embedding_lookup",
    "nn.sparse_embedding": "nn.embedding_lookup_sparse nn.safe_embedding_lookup_sparse",
    "nn.candidates": (
        "nn.uniform_candidate_sampler random.uniform_candidate_sampler nn.log_uniform_candidate_sampler "
        "random.log_uniform_candidate_sampler nn.learned_unigram_candidate_sampler random.learned_unigram_candidate_sampler "
        "nn.fixed_unigram_candidate_sampler random.fixed_unigram_candidate_sampler nn.all_candidate_sampler "
        "random.all_candidate_sampler nn.compute_accidental_hits"
    ),
    "nn.sampled_losses": "nn.nce_loss nn.sampled_softmax_loss",
    "nn.transposed": "nn.conv_transpose",
    "nn.ctc": (
        "nn.ctc_loss nn.ctc_loss_v2 nn.collapse_repeated nn.ctc_greedy_decoder "
        "nn.ctc_beam_search_decoder nn.ctc_beam_search_decoder_v2"
    ),
}
