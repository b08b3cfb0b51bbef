"""Measurements of steps that TensorFlow, its profiler or Nsight Systems wrote."""
