"""What a model costs: its parameters and the multiply-adds of a forecast."""

import torch
from torch.utils.flop_counter import FlopCounterMode

from fern.models.base import Forecaster


def parameter_count(model: Forecaster) -> int:
    """How many numbers are learnt."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def multiply_adds(model: Forecaster) -> int:
    """Multiply-adds of the point forecast of one window, all its channels.

    Counted are the products of matrices and the convolutions that run in evaluation mode, as the usual counters
    do (half of what they call FLOPs); elementwise work, Fern's reflections (R·4·H a channel) among it, is not.
    """
    config, training = model.config, model.training
    reference = next(model.parameters(), torch.empty(0))
    past = torch.zeros(1, config.context_length, config.channels, dtype=reference.dtype, device=reference.device)
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: _in_place_operations})
    try:
        model.eval()
        # With gradients: without them a model may take a shorter way that the counter does not see.
        with torch.enable_grad(), counter:
            model(past)
    finally:
        model.train(training)
    return int(counter.get_total_flops()) // 2


def _in_place_operations(_into: torch.Size, a: torch.Size, b: torch.Size, *, out_shape: torch.Size) -> int:
    """Of ``into += a b``, which the counter does not know."""
    return 2 * a[0] * a[1] * b[1]
