"""Graphs as protocol buffer messages: written, brought back, and taken in parts."""
