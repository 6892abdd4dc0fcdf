"""What the student is compared with, as methods of `hearsay run`: references that nobody protects, and DP-SGD."""
