"""Answers of the studio: a graph and a machine that a page edits, and what happens then."""
