"""The contract of models that are fitted to rows: in closed form or by keeping the rows, never by gradient."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from fern.errors import FernError
from fern.models.base import ModelConfig, PointForecaster, require_finite

JUDGED = 128
"""Validation windows on which settings are chosen; `fern.training.train` spreads them evenly over all there are."""


class FittedForecaster(PointForecaster):
    """A forecaster that learns from rows, in one go, and chooses its open settings on validation windows.

    A model of this kind implements `fit_rows` and `predict` and names in ``open_settings`` those settings of its config
    that are None until validation has chosen them. `fern.training.train` calls `fit` where other models are trained, so
    benchmark, stress tests and `FernForecaster` treat it as they treat any model.

    What is fitted belongs in buffers. A choice belongs in the config: after `fit` it has no open setting left, so that
    a file of the model tells what was chosen, and a model built with those settings fits without choosing.
    """

    open_settings: tuple[str, ...] = ()

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self._asked = config

    @property
    def chooses(self) -> bool:
        """True: open settings are chosen on all of the validation windows, without a gradient."""
        return True

    def fit(
        self,
        stretches: Sequence[Tensor],  # each (T_i, C): unbroken rows, oldest first
        past: Tensor,  # (n, L, C), of validation windows
        future: Tensor,  # (n, H, C)
    ) -> None:
        """Learn from the rows; what the settings leave open is chosen by the MSE on the validation windows.

        Rows of the windows' futures must not be among the stretches: a model that has seen them by heart would choose
        to repeat them.

        Example:
            >>> from fern.models import build_model
            >>> rows = torch.sin(torch.arange(400.0) / 5)[:, None]
            >>> model = build_model("analog", context_length=40, horizon=20, channels=1)
            >>> model.fit([rows[:300]], rows[None, 300:340], rows[None, 340:360])
            >>> bool((model(rows[None, 330:370]).mean - rows[None, 370:390]).abs().max() < 0.2)
            True
        """
        self._check_past(past)
        self.check_future(past, future)
        require_finite("future", future)
        for place, rows in enumerate(stretches):
            if rows.ndim != 2 or rows.shape[1] != self.config.channels or not bool(torch.isfinite(rows).all()):
                raise FernError(
                    f"stretches: entry {place} has shape {tuple(rows.shape)}, needs (time, {self.config.channels}) "
                    "of finite numbers"
                )
        longest, needed = max((len(rows) for rows in stretches), default=0), self.config.horizon + 1
        if longest < needed:
            raise FernError(f"stretches: the longest has {longest} rows, needs at least {needed} (the horizon and one)")
        self.config = self._asked
        with torch.no_grad():
            chosen = self.fit_rows(stretches, past, future)
        self.config = replace(self._asked, **chosen)

    @abstractmethod
    def fit_rows(self, stretches: Sequence[Tensor], past: Tensor, future: Tensor) -> dict[str, Any]:
        """Fill the buffers and give the chosen ``open_settings``; called by `fit`, which has checked the arguments."""

    @property
    def chosen(self) -> dict[str, Any]:
        """The open settings as they are now: None where nothing was chosen yet."""
        return {name: getattr(self.config, name) for name in self.open_settings}

    def require_fitted(self, buffer: Tensor) -> None:
        """Refuse to forecast while a buffer that `fit_rows` fills is empty or not a number."""
        if buffer.numel() == 0 or bool(buffer.isnan().any()):
            raise FernError(
                f"model: {type(self).__name__} is not fitted yet; train it, or call fit(rows, past, future)"
            )
