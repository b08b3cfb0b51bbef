"""Placement: rewrites, colocation groups, constraints, the placer's choice and its reasons."""
