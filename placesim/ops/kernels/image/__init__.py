"""Kernels of images: resizing, colors, boxes and their suppression, patches and projections."""
