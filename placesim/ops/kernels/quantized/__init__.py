"""Kernels of quantized integers: conversions from and to floats, arithmetic on them, and fake quantization."""
