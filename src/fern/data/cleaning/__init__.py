"""Tables mended by a policy, and the log of every change."""
