"""The dtype for sums that cancel."""

import torch


def wide_dtype(device: torch.device) -> torch.dtype:
    """float64, or float32 on the one device type (mps) that has nothing wider."""
    return torch.float32 if device.type == "mps" else torch.float64
