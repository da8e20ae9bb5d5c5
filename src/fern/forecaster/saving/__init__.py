"""A fitted forecaster on disk, on the Hugging Face Hub and as an exported program. Nothing goes through pickle."""
