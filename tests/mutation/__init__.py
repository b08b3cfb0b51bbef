"""Mutation of the package: random one-line changes, and the tests that notice them."""
