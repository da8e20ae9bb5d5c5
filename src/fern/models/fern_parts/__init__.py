"""The parts of Fern: clamps, coupling layers, networks, paths, normalisation, a flow map, few rows in one call."""
