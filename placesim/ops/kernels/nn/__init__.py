"""Kernels of neural networks: convolutions, pooling, normalization, activations, losses, recurrent cells and CTC."""
