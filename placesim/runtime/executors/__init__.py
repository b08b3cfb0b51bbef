"""Executors: programs of partitions, run in a fixed order or by data flow."""
