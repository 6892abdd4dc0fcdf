"""Attacks on what we promise. Results belong in internal/: they are measured on private text."""

ATTACKS = ("mechanism", "membership", "neighbourhood", "shadow", "extraction", "linkage")  # here: the help names them
