"""Dynamical systems with known equations, shocks, scenarios and oracles (NumPy and Numba, no torch)."""
