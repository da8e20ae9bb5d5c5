"""Patches of a series."""

import torch
from torch import Tensor


def end_padded_patches(
    x: Tensor,  # (..., T)
    *,
    size: int,
    stride: int,
) -> Tensor:  # (..., (T - size) // stride + 2, size), a view of the padded series
    """Overlapping patches, after the last value was repeated ``stride`` times (PatchTST's rule).

    Example:
        >>> end_padded_patches(torch.arange(5.0), size=4, stride=2)
        tensor([[0., 1., 2., 3.],
                [2., 3., 4., 4.]])
    """
    padded = torch.cat((x, x[..., -1:].expand(*x.shape[:-1], stride)), dim=-1)
    return padded.unfold(-1, size, stride)
