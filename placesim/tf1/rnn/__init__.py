"""Recurrent networks: cells, and the functions that apply one to a sequence."""
