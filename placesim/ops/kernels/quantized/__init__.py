"""Kernels of quantized integers: conversions from and to floats, arithmetic, and fake quantization."""
