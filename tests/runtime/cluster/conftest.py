"""A shell for the tests of this room."""

from tests.cli.conftest import shell

__all__ = ["shell"]
