"""Pure arithmetic of the guarantee: what happened, what it costs, what is left. Sees no text and no tensors."""
