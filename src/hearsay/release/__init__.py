"""The only exit: bounds, integer sums, noise and the door. Everything that leaves was charged before it left."""
