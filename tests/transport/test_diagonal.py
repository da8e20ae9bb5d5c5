"""The diagonal of Uᵀ Λ² U: the compiled form for a few sets is torch's formula."""

import pytest
import torch

from fern.transport import _views as _diagonal
from fern.transport._views import FEW, spd_square_diagonal


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("sets", "reflections", "size"), [((1, 1, 4), 8, 24), ((3, 2), 2, 1), ((FEW,), 5, 7)])
def test_few_sets_without_gradients_have_the_diagonal_of_many_with(
    sets: tuple[int, ...], reflections: int, size: int, dtype: torch.dtype
) -> None:
    rng = torch.Generator().manual_seed(0)
    vectors = torch.randn(*sets, reflections, size, generator=rng, dtype=dtype)
    vectors[..., 0, :] = 0.0  # reflects nothing
    eigenvalues = torch.logspace(-3, 3, size, dtype=dtype) * torch.rand(*sets, size, generator=rng, dtype=dtype)
    recorded = spd_square_diagonal(vectors, eigenvalues.clone().requires_grad_())
    with torch.no_grad():
        assert _diagonal._takes(vectors, eigenvalues)
        compiled = spd_square_diagonal(vectors, eigenvalues)
    assert recorded.requires_grad
    tolerance = 4 * torch.finfo(dtype).eps * float(recorded.detach().max())
    torch.testing.assert_close(compiled, recorded.detach(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("place", ["vectors", "eigenvalues"])
def test_a_value_that_is_none_is_not_lost_on_the_way(place: str) -> None:
    given = {"vectors": torch.ones(2, 3, 4), "eigenvalues": torch.ones(2, 4)}
    given[place].view(2, -1)[0, 1] = torch.nan
    with torch.no_grad():
        found = spd_square_diagonal(**given)
    assert found[0].isnan().all()
    assert found[1].isfinite().all()
