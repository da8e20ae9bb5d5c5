"""Paths over the horizon: cut into patches, begun by a linear map of the context, and smoothed."""

from torch import Generator, Tensor, cat, nn
from torch.nn.functional import avg_pool1d, pad


def in_patches(values: Tensor, patches: int, patch_size: int, *, filler: float) -> Tensor:  # (..., H) -> (..., g, p)
    """The horizon cut into patches, the last filled up."""
    missing = patches * patch_size - values.shape[-1]
    if missing:
        values = pad(values, (0, missing), value=filler)
    return values.view(*values.shape[:-1], patches, patch_size)


class ContextMap(nn.Linear):
    """A linear map of the context to the horizon, shared over channels, that starts as the mean of the context."""

    def __init__(self, length: int, horizon: int) -> None:
        super().__init__(length, horizon)
        self.initialise_parameters(None)

    def initialise_parameters(self, generator: Generator | None) -> None:
        """Weights 1/L and no bias; nothing is drawn."""
        nn.init.constant_(self.weight, 1.0 / self.in_features)
        nn.init.zeros_(self.bias)


def smoothed(
    path: Tensor,  # (..., H)
    width: int,
) -> Tensor:  # (..., H)
    """The path after two moving averages of ``width`` steps (odd), a triangular window of 2·width − 1.

    Beyond its ends a path goes on as its own point reflection, 2·y_1 − y_(1+k): a straight line stays as it is, and
    the first step is not drawn towards the later ones.

    Example:
        >>> import torch
        >>> smoothed(torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0]), 3).tolist()
        [0.0, 1.0, 2.0, 3.0, 4.0]
    """
    rows = path.reshape(-1, path.shape[-1])
    for _ in range(2):
        reach = min(width // 2, rows.shape[-1] - 1)
        if reach < 1:
            break
        before = 2 * rows[:, :1] - rows[:, 1 : reach + 1].flip(-1)
        after = 2 * rows[:, -1:] - rows[:, -reach - 1 : -1].flip(-1)
        rows = avg_pool1d(cat((before, rows, after), dim=-1).unsqueeze(1), 2 * reach + 1, stride=1).squeeze(1)
    return rows.view(path.shape)
