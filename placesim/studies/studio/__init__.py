"""Answers of the studio about a graph and a machine that a page edits."""
