"""Sorting, strings, images, assertions."""

ROWS = {
    "example_parsing": (
        "FixedLenFeature io.FixedLenFeature FixedLenSequenceFeature io.FixedLenSequenceFeature VarLenFeature io.VarLenFeature "
        "SparseFeature io.SparseFeature parse_example io.parse_example parse_single_example io.parse_single_example"
    ),
    "math.sorting": (
        "sort argsort searchsorted bincount math.bincount histogram_fixed_width histogram_fixed_width_bins "
        "confusion_matrix math.confusion_matrix unsorted_segment_mean math.unsorted_segment_mean unsorted_segment_sqrt_n "
        "math.unsorted_segment_sqrt_n sparse_segment_sum sparse.segment_sum=sparse_segment_sum sparse_segment_mean "
        "sparse.segment_mean=sparse_segment_mean sparse_segment_sqrt_n sparse.segment_sqrt_n=sparse_segment_sqrt_n"
    ),
    "strings": (
        "string_split reduce_join strings.reduce_join regex_replace strings.regex_replace "
        "strings.regex_full_match string_to_number strings.to_number=string_to_number string_to_hash_bucket "
        "strings.to_hash_bucket=string_to_hash_bucket strings.length=string_length strings.substr substr decode_raw "
        "io.decode_raw decode_csv io.decode_csv strings.split edit_distance"
    ),
    "images.brightness": (
        "image.per_image_standardization image.adjust_brightness image.random_brightness image.adjust_contrast "
        "image.random_contrast image.convert_image_dtype"
    ),
    "images.resizing": (
        "image.random_flip_left_right image.random_flip_up_down image.flip_left_right image.flip_up_down "
        "image.crop_to_bounding_box image.pad_to_bounding_box "
        "image.resize_image_with_crop_or_pad image.resize_with_crop_or_pad=resize_image_with_crop_or_pad image.ResizeMethod "
        "image.resize_images image.resize=resize_images image.resize_bilinear image.resize_nearest_neighbor "
        "image.resize_bicubic image.encode_png io.encode_png image.transpose_image image.transpose=transpose_image"
    ),
    "array.blocks": (
        "space_to_depth nn.space_to_depth depth_to_space nn.depth_to_space space_to_batch nn.space_to_batch batch_to_space "
        "extract_image_patches image.extract_image_patches required_space_to_batch_paddings"
    ),
    "assertions.conditions": (
        "assert_equal debugging.assert_equal assert_none_equal debugging.assert_none_equal assert_less debugging.assert_less "
        "assert_less_equal debugging.assert_less_equal assert_greater debugging.assert_greater assert_greater_equal "
        "debugging.assert_greater_equal assert_positive debugging.assert_positive assert_negative debugging.assert_negative "
        "assert_non_negative debugging.assert_non_negative assert_non_positive debugging.assert_non_positive assert_type "
        "debugging.assert_type assert_integer debugging.assert_integer assert_scalar debugging.assert_scalar ensure_shape "
        "Print verify_tensor_all_finite "
        "debugging.assert_all_finite=verify_tensor_all_finite"
    ),
    "assertions.ranks": (
        "assert_rank debugging.assert_rank assert_rank_at_least debugging.assert_rank_at_least assert_rank_in "
        "debugging.assert_rank_in"
    ),
    "assertions.shapes": "debugging.assert_shapes",
    "assertions.properties": (
        "assert_near debugging.assert_near is_non_decreasing debugging.is_non_decreasing math.is_non_decreasing "
        "is_strictly_increasing debugging.is_strictly_increasing math.is_strictly_increasing is_tensor is_symbolic_tensor "
        "is_numeric_tensor debugging.is_numeric_tensor assert_proper_iterable debugging.assert_proper_iterable "
        "assert_same_float_dtype debugging.assert_same_float_dtype add_check_numerics_ops"
    ),
    "quantized": (
        "quantize quantization.quantize quantize_v2 dequantize quantization.dequantize "
        "quantization.quantize_and_dequantize quantization.quantize_and_dequantize_v2"
    ),
    "printing": "print strings.format",
    "graph_defs.tensor_protos": "make_tensor_proto make_ndarray",
    "session.handles": "get_session_handle get_session_tensor delete_session_tensor",
    "release": "executing_eagerly_outside_functions",
    "images.colors": (
        "image.adjust_gamma image.adjust_hue image.adjust_saturation image.random_hue image.random_saturation "
        "image.adjust_jpeg_quality image.random_jpeg_quality image.rgb_to_grayscale image.grayscale_to_rgb image.rgb_to_yiq "
        "image.yiq_to_rgb image.rgb_to_yuv image.yuv_to_rgb"
    ),
    "images.boxes": (
        "image.non_max_suppression image.non_max_suppression_with_scores image.combined_non_max_suppression "
        "image.non_max_suppression_overlaps=non_max_suppression_with_overlaps image.crop_and_resize image.draw_bounding_boxes "
        "image.extract_glimpse image.extract_patches=extract_image_patches_v2 image.generate_bounding_box_proposals "
        "image.sample_distorted_bounding_box"
    ),
    "images.suppression": "image.non_max_suppression_padded",
    "images.geometry": "image.central_crop image.rot90 image.resize_image_with_pad image.image_gradients image.sobel_edges",
    "images.quality": "image.total_variation image.psnr image.ssim image.ssim_multiscale",
    "images.decoding": "image.decode_image io.decode_image image.is_jpeg io.is_jpeg",
}
