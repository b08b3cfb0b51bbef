"""Neural networks: convolutions, pooling, normalization, activations, losses, recurrent cells and CTC."""
