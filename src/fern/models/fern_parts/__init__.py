"""The parts of Fern: coupling layers, heads, soft clamps, normalisation, and a compiled path for few rows."""
