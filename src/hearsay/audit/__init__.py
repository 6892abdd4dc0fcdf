"""Attacks on what we promise. Results belong in internal/: they are measured on private text."""
