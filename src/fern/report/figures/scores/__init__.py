"""Figures of scores: errors of models, ranks, errors by step, errors by epoch."""
