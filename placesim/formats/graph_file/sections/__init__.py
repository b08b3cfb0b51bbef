"""Readers of the other sections of a graph file: devices, links, hosts, config, steps, placement."""
