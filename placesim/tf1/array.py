"""Array functions: what TensorFlow writes in Python around its ops that move and shape tensors."""

from __future__ import annotations
