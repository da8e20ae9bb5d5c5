"""Cleaning of tables by a policy, with a log of every change."""
