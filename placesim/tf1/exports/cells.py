"""Recurrent networks."""

from __future__ import annotations


def _under(prefixes: str, names: str) -> str:
    """Map the same names in several modules."""
    return " ".join(f"{prefix}.{name}" for prefix in prefixes.split() for name in names.split())


_CELLS = "nn.rnn_cell contrib.rnn"
_NETWORKS = "nn contrib.rnn"

ROWS = {
    "rnn.cells": _under(_CELLS, "RNNCell BasicRNNCell GRUCell") + " contrib.rnn.LayerRNNCell",
    "rnn.lstm": _under(_CELLS, "LSTMStateTuple BasicLSTMCell LSTMCell"),
    "rnn.wrappers": _under(_CELLS, "MultiRNNCell DropoutWrapper ResidualWrapper DeviceWrapper"),
    "rnn.static": _under(_NETWORKS, "static_rnn static_state_saving_rnn static_bidirectional_rnn"),
    "rnn.dynamic": "nn.dynamic_rnn nn.bidirectional_dynamic_rnn contrib.rnn.transpose_batch_time=swapped",
    "rnn.raw": "nn.raw_rnn",
    "rnn.states": "contrib.rnn.best_effort_input_batch_size=batch_size_of",
    "rnn.contrib_cells": _under(
        "contrib.rnn",
        "LayerNormBasicLSTMCell CoupledInputForgetGateLSTMCell UGRNNCell NASCell ConvLSTMCell Conv1DLSTMCell Conv2DLSTMCell "
        "Conv3DLSTMCell",
    ),
    "rnn.contrib_wrappers": _under(
        "contrib.rnn",
        "InputProjectionWrapper OutputProjectionWrapper EmbeddingWrapper HighwayWrapper AttentionCellWrapper",
    ),
    "rnn.block_cells": _under("contrib.rnn", "LSTMBlockCell GRUBlockCellV2 GRUBlockCell LSTMBlockFusedCell"),
    "rnn.legacy_seq2seq": _under(
        "contrib.legacy_seq2seq",
        "rnn_decoder basic_rnn_seq2seq tied_rnn_seq2seq embedding_rnn_decoder embedding_rnn_seq2seq embedding_tied_rnn_seq2seq",
    ),
    "rnn.legacy_attention": _under(
        "contrib.legacy_seq2seq", "attention_decoder embedding_attention_decoder embedding_attention_seq2seq"
    ),
    "rnn.legacy_losses": _under("contrib.legacy_seq2seq", "sequence_loss_by_example sequence_loss model_with_buckets"),
    "rnn.decoding": _under(
        "contrib.seq2seq", "Decoder BasicDecoder BasicDecoderOutput dynamic_decode sequence_loss tile_batch"
    ),
    "rnn.beams": _under(
        "contrib.seq2seq",
        "BeamSearchDecoder BeamSearchDecoderOutput BeamSearchDecoderState FinalBeamSearchDecoderOutput gather_tree",
    ),
    "rnn.decoder_inputs": _under(
        "contrib.seq2seq",
        "Helper CustomHelper TrainingHelper ScheduledEmbeddingTrainingHelper GreedyEmbeddingHelper SampleEmbeddingHelper "
        "InferenceHelper",
    ),
    "rnn.attention": _under(
        "contrib.seq2seq",
        "AttentionMechanism BahdanauAttention LuongAttention AttentionWrapper AttentionWrapperState hardmax",
    ),
    "rnn.stacking": _under("contrib.rnn", "stack_bidirectional_rnn stack_bidirectional_dynamic_rnn"),
}
