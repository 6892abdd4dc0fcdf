"""Verbs only: parse, call, print."""
