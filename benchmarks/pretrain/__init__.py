"""Pretraining on synthetic series, and what is measured on real ones before their test windows."""
