"""A batch in blocks that stay in the processor's cache."""

from collections.abc import Callable

import torch
from torch import Tensor

ROWS_AT_ONCE = 256
"""Series of one channel that are computed together. A few hundred are fastest on a CPU, and bound the memory."""


def in_blocks(
    predict: Callable[[Tensor], Tensor],
    past: Tensor,  # (B, L, C)
    *,
    rows: int = ROWS_AT_ONCE,
) -> Tensor:  # (B, H, C)
    """``predict(past)``, as many windows at a time as make about ``rows`` series.

    Only for a model in which windows do not influence each other, so not for one that normalises by the batch in
    training. On other devices than the CPU the batch is not cut.

    Example:
        >>> seen = []
        >>> in_blocks(lambda part: (seen.append(len(part)), part)[1], torch.zeros(5, 4, 3), rows=6).shape, seen
        (torch.Size([5, 4, 3]), [2, 2, 1])
    """
    windows = max(1, rows // past.shape[2])
    if past.shape[0] <= windows or past.device.type != "cpu":
        return predict(past)
    return torch.cat([predict(part) for part in torch.split(past, windows)])
