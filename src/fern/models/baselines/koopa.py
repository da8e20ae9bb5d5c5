"""Koopa (Liu et al., NeurIPS 2023): Koopman operators for the steady and for the changing part of a series."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar

import torch
from torch import Generator, Tensor, nn

from fern.errors import FernError, require_whole
from fern.models.base import ModelConfig, PointForecaster, Sees
from fern.models.layers import Perceptron, RevIN, require_rate
from fern.models.registry import register_model
from fern.transport._checks import has_values

SEGMENT = 48
"""The segment length where none is given and the context is long enough for two of them."""

LARGEST = 1e30
"""Where the coefficients of a forecast are held: far beyond any use, and still finite in float32."""


@dataclass(frozen=True, kw_only=True)
class KoopaConfig(ModelConfig):
    """The settings of `Koopa`. Defaults are the published ones.

    ``segment_length``  time steps of a segment, the unit in which the changing part moves. The context must hold at
                        least two segments, the second of which may be filled up. None: 48, or half a short context.
    ``blocks``          residual blocks.
    ``dynamic``         E, the size of the Koopman embedding.
    ``hidden``          the width inside the encoders and decoders.
    ``layers``          linear maps in each encoder and decoder.
    ``alpha``           the share of frequencies that count as steady: those with the largest training amplitudes.
    ``dropout``         inside the encoders and decoders, while training.
    """

    segment_length: int | None = None
    blocks: int = 3
    dynamic: int = 128
    hidden: int = 64
    layers: int = 2
    alpha: float = 0.2
    dropout: float = 0.05
    _sees: ClassVar[Sees] = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("layers", self.layers, 2)
        for name in ("blocks", "dynamic", "hidden"):
            require_whole(name, getattr(self, name), 1)
        if not 0.0 <= self.alpha <= 1.0:
            raise FernError(argument="alpha", got=self.alpha, expected="a fraction from 0 to 1")
        require_rate("dropout", self.dropout)
        if self.context_length < 2:
            raise FernError(argument="context_length", got=self.context_length, expected="at least 2 for two segments")
        if self.segment_length is not None:
            require_whole("segment_length", self.segment_length, 1)
            if self.segment_length >= self.context_length:
                raise FernError(
                    argument="segment_length",
                    got=self.segment_length,
                    expected=f"less than context_length, which is {self.context_length}: the operator is fitted to "
                    "steps from one segment to the next",
                )

    @property
    def used_segment_length(self) -> int:
        """The segment length after the rule for None."""
        return self.segment_length or min(SEGMENT, ceil(self.context_length / 2))

    @property
    def segments(self) -> int:
        """Segments of the context."""
        return ceil(self.context_length / self.used_segment_length)

    @property
    def frequencies(self) -> int:
        """Frequencies of the context, 0 among them."""
        return self.context_length // 2 + 1


class Koopa(PointForecaster):
    """The context, normalised, as a steady and a changing part, each moved by a linear operator in its own embedding.

    Block i of the stack splits its input r by frequency: the share ``alpha`` of frequencies with the largest mean
    amplitude *over the training windows* is steady, the rest is changing. Its forecast is the sum of

    - ``decode(K_i encode(steady))``, channel by channel from the whole context to the whole horizon, with a learnt K_i;
    - ``decode(z_F K^h)`` for segment h of the horizon, all channels together, where z_1 … z_F are the encoded segments
      of the changing part and K is the least-squares operator of this window, see `LocalOperator`.

    Block i + 1 gets r less the decoded one-step reconstruction of the changing part. The forecasts of all blocks add
    up. Encoders and decoders are shared by the blocks.

    `prepare` must see the training windows before the first forecast: the amplitudes are kept in a buffer.

    Correspondence with thuml/Koopa, one map each: ``steady_encoder.maps.j`` is ``time_inv_encoder.layers.(3j)`` and so
    on for ``steady_decoder``, ``changing_encoder`` (``time_var_encoder``) and ``changing_decoder``; ``operators.i`` is
    ``time_inv_kps.i.K``; ``mask_spectrum`` is `steady_frequencies`. Two things are theirs and kept: a context that is
    no whole number of segments gets its own last steps in front, and of the reconstruction the *first* L steps are
    taken. (The port in Time-Series-Library, which dropped the first forecast segment until January 2024, still differs:
    its segments are as long as the horizon.)

    Example:
        >>> model = Koopa(KoopaConfig(context_length=96, horizon=24, channels=2)).eval()
        >>> past, future = torch.randn(4, 96, 2), torch.randn(4, 24, 2)
        >>> model.prepare([(past, future)])
        >>> model(past).mean.shape
        torch.Size([4, 24, 2])
    """

    config: KoopaConfig
    amplitudes: Tensor

    def __init__(self, config: KoopaConfig) -> None:
        super().__init__(config)

        def perceptron(inputs: int, outputs: int, activation: str) -> Perceptron:
            widths = (inputs, *(config.layers - 1) * [config.hidden], outputs)
            return Perceptron(widths, activation=activation, dropout=config.dropout)

        segment = config.used_segment_length * config.channels
        self.revin = RevIN(config.channels)
        self.steady_encoder = perceptron(config.context_length, config.dynamic, "relu")
        self.steady_decoder = perceptron(config.dynamic, config.horizon, "relu")
        self.operators = nn.ModuleList(OrthogonalStart(config.dynamic) for _ in range(config.blocks))
        self.changing_encoder = perceptron(segment, config.dynamic, "tanh")
        self.changing_decoder = perceptron(config.dynamic, segment, "tanh")
        self.register_buffer("amplitudes", torch.full((config.frequencies,), torch.nan))

    def prepare(self, batches: Iterable[tuple[Tensor, Tensor]]) -> None:
        """The mean amplitude of each frequency over the contexts of all windows and channels."""
        total = torch.zeros(self.config.frequencies, dtype=torch.float64)
        count = 0
        for past, _ in batches:
            self._check_past(past)
            total += torch.fft.rfft(past, dim=1).abs().double().mean(dim=2).sum(dim=0).cpu()
            count += past.shape[0]
        if count == 0:
            raise FernError("got none", argument="batches", expected="at least one training window")
        self.amplitudes.copy_(total / count)

    @property
    def steady_frequencies(self) -> Tensor:  # (int(alpha · frequencies),)
        """The frequencies of the steady part, largest training amplitude first."""
        if has_values(self.amplitudes) and bool(self.amplitudes.isnan().any()):
            raise FernError("the training spectrum is not known yet; call prepare(batches) first", argument="model")
        return self.amplitudes.topk(int(self.config.frequencies * self.config.alpha)).indices

    def predict(self, past: Tensor) -> Tensor:
        """The sum of the blocks' forecasts, in the units of the series."""
        residual, statistics = self.revin.normalise(past.transpose(1, 2))
        changes = torch.ones(self.config.frequencies, dtype=past.dtype, device=past.device)
        changes[self.steady_frequencies] = 0.0
        forecast = past.new_zeros(())
        for i, operator in enumerate(self.operators):
            changing = torch.fft.irfft(torch.fft.rfft(residual) * changes, n=self.config.context_length)
            steady = self.steady_decoder(operator(self.steady_encoder(residual - changing)))
            embedded = self.changing_encoder(self._cut_segments(changing))
            local = LocalOperator(embedded)
            steps = ceil(self.config.horizon / self.config.used_segment_length)
            forecast = forecast + steady + self._decode(local.forecast(steps))[..., : self.config.horizon]
            if i + 1 < len(self.operators):
                residual = residual - self._decode(local.reconstruction())[..., : self.config.context_length]
        return self.revin.restore(forecast, statistics).transpose(1, 2)

    def _cut_segments(self, x: Tensor) -> Tensor:  # (B, C, L) -> (B, F, segment · C)
        length, segments = self.config.used_segment_length, self.config.segments
        missing = segments * length - self.config.context_length
        if missing:
            x = torch.cat((x[..., -missing:], x), dim=-1)
        return x.reshape(*x.shape[:2], segments, length).permute(0, 2, 3, 1).flatten(2)

    def _decode(self, embedded: Tensor) -> Tensor:  # (B, n, E) -> (B, C, n · segment)
        decoded: Tensor = self.changing_decoder(embedded)
        return decoded.reshape(decoded.shape[0], -1, self.config.channels).transpose(1, 2)


class LocalOperator:
    """The linear operator that best moves each embedded segment of a window to the next: z_{i+1} ≈ z_i K.

    With X = z_1 … z_{F-1} and Y = z_2 … z_F as rows, K = X⁺Y is the least-squares solution of least norm. Singular
    values of X below ε·max(F - 1, E) of the largest count as zero (ε of the dtype of z), as LAPACK's and NumPy's
    least squares do; so K exists whatever the rank, on every device, and segments that are all alike give no NaN.

    K has E×E entries but rank F - 1 at most, and is never formed for a forecast: with A = YX⁺ of size F - 1 and its
    last row c_1, z_F K^h = c_h Y where c_{h+1} = c_h A. Only inner products of the z are needed. They are formed in
    float64: there the square of the condition number does no harm to float32 embeddings. In a float64 model singular
    values below about 1e-8 of the largest are lost that way.

    An operator that grows without bound holds its coefficients at ±1e30; the decoder's tanh is saturated long before.

    Example:
        >>> z = torch.tensor([[[1.0], [2.0], [4.0]]])
        >>> LocalOperator(z).matrix(), LocalOperator(z).forecast(2).flatten()
        (tensor([[[2.]]]), tensor([ 8., 16.]))
    """

    def __init__(
        self,
        embedded: Tensor,  # (B, F, E)
    ) -> None:
        rows = max(embedded.shape[1] - 1, embedded.shape[2])
        smallest = max((torch.finfo(embedded.dtype).eps * rows) ** 2, torch.finfo(torch.float64).eps * rows)
        double = embedded.double()
        products = double @ double.mT
        self.embedded = embedded
        self.gram = products[:, :-1, :-1]
        self.inverse = torch.linalg.pinv(self.gram, hermitian=True, rtol=smallest)
        self.step = products[:, 1:, :-1] @ self.inverse

    def matrix(self) -> Tensor:  # (B, E, E)
        """K itself, to look at: its eigenvalues are the growth and the rotation of the changing part."""
        x, y = self.embedded[:, :-1].double(), self.embedded[:, 1:].double()
        operator: Tensor = x.mT @ self.inverse @ y
        return operator.to(self.embedded.dtype)

    def forecast(self, steps: int) -> Tensor:  # (B, steps, E)
        """z_F K, z_F K², …"""
        coefficients = [self.step[:, -1:]]
        for _ in range(steps - 1):
            coefficients.append((coefficients[-1] @ self.step).clamp(-LARGEST, LARGEST))
        return self._combine(torch.cat(coefficients, dim=1))

    def reconstruction(self) -> Tensor:  # (B, F, E)
        """z_1 and the one-step forecasts z_1 K … z_{F-1} K."""
        return torch.cat((self.embedded[:, :1], self._combine(self.gram @ self.inverse)), dim=1)

    def _combine(self, coefficients: Tensor) -> Tensor:
        return coefficients.to(self.embedded.dtype) @ self.embedded[:, 1:]


class OrthogonalStart(nn.Linear):
    """A square linear map without bias that starts as a random rotation, so that nothing grows or shrinks."""

    def __init__(self, size: int) -> None:
        super().__init__(size, size, bias=False)
        self.initialise_parameters(None)

    def initialise_parameters(self, generator: Generator | None) -> None:
        """The orthogonal factor of a Gaussian matrix."""
        if self.weight.is_meta:
            return  # an outline has no values, and to draw them there would load torch's compiler
        with torch.no_grad():
            left, _, right = torch.linalg.svd(self.weight.normal_(generator=generator))
            self.weight.copy_(left @ right)


_NAMES = ("dynamic", "hidden", "layers", "blocks")
_SCRIPTS: dict[str, dict[int, tuple[int, int, int, int]]] = {
    "etth2": {96: (64, 512, 2, 4), 192: (64, 64, 2, 1), 288: (64, 64, 3, 4), 384: (64, 64, 2, 1)},
    "weather": {96: (128, 64, 2, 4), 192: (64, 128, 3, 2), 288: (128, 64, 2, 2), 384: (128, 64, 2, 3)},
    "electricity": {96: (256, 512, 3, 3), 192: (128, 512, 3, 1), 288: (512, 512, 3, 1), 384: (64, 512, 2, 1)},
    "exchange": {96: (128, 256, 3, 4), 192: (64, 64, 3, 4), 288: (512, 64, 2, 2), 384: (64, 128, 3, 2)},
    "traffic": {96: (512, 256, 3, 1), 192: (64, 128, 2, 3), 288: (128, 128, 2, 1), 384: (128, 128, 2, 1)},
    "ili": {48: (128, 512, 2, 4), 72: (512, 512, 3, 3), 96: (256, 512, 2, 2), 120: (64, 256, 4, 3)},
}
"""Settings by context; horizon and segment are half of it."""

PRESETS: dict[str, dict[str, Any]] = {
    "paper": {"segment_length": 48, "blocks": 3, "dynamic": 128, "hidden": 64, "layers": 2, "alpha": 0.2},
    **{
        f"{dataset}-{context}": {**dict(zip(_NAMES, values, strict=True)), "segment_length": context // 2}
        for dataset, contexts in _SCRIPTS.items()
        for context, values in contexts.items()
    },
}
"""The setting of the comparison at 336 → 336, and those of the project's scripts."""


register_model("koopa", KoopaConfig, Koopa, presets=PRESETS)
