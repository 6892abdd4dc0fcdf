"""Sees public inputs and released answers only."""
