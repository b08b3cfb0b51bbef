"""Gradient functions of ops, a module for each family of ops."""
