"""The reflections and the fused push against dense matrices, plain autograd and finite differences."""

import os
import signal
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.errors import raises_error
from tests.transport.reference import (
    DTYPES,
    close,
    dense_push,
    dense_rotation,
    plain_loop,
    seeded,
    sets,
)
from torch import Tensor

from fern.errors import FernError
from fern.transport import _compiled, _steps, reflect, reflect_back, spd_push

dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def parts(*shape: int, dtype: torch.dtype = torch.float64, reflections: int = 3) -> list[Tensor]:
    """Vectors, eigenvalues and x that require gradients."""
    generator = seeded(4)
    vectors = torch.randn(*shape[:-1], reflections, shape[-1], generator=generator, dtype=dtype)
    eigenvalues = torch.rand(*shape, generator=generator, dtype=dtype) + 0.2
    x = torch.randn(*shape, generator=generator, dtype=dtype)
    return [t.requires_grad_() for t in (vectors, eigenvalues, x)]


def rotation(vectors: Tensor) -> Tensor:  # (..., R, p) -> (..., p, p)
    """U, column by column, from `reflect`."""
    identity = torch.eye(vectors.shape[-1], dtype=vectors.dtype)
    return reflect(vectors.unsqueeze(-3), identity).mT


def one_by_one(vectors: Tensor, *others: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The sets of a batch, each with its rows of the other tensors (..., p)."""
    count, (r, p) = others[0][..., 0].numel(), vectors.shape[-2:]
    return zip(vectors.reshape(count, r, p), *(t.reshape(count, p) for t in others), strict=True)


# --- the map ------------------------------------------------------------------------------------------------


@dtypes
@given(data=st.data())
def test_the_product_of_reflections_is_orthogonal(dtype, data):
    vectors, _, _ = data.draw(sets(dtype))
    u = rotation(vectors).double()
    identity = torch.eye(vectors.shape[-1], dtype=torch.float64)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-12
    assert (u.mT @ u - identity).abs().max().item() <= tolerance
    assert (u @ u.mT - identity).abs().max().item() <= tolerance


@dtypes
@given(data=st.data())
def test_reflect_applies_the_dense_product_and_reflect_back_its_transpose(dtype, data):
    vectors, _, x = data.draw(sets(dtype))
    for one_vectors, one, turned, back in one_by_one(vectors, x, reflect(vectors, x), reflect_back(vectors, x)):
        u = dense_rotation(one_vectors)
        close(turned, u @ one.double(), float32=1e-5, float64=1e-13)
        close(back, u.T @ one.double(), float32=1e-5, float64=1e-13)


@dtypes
@given(data=st.data())
def test_push_is_the_dense_map(dtype, data):
    vectors, eigenvalues, x = data.draw(sets(dtype))
    for one_vectors, *one, pushed in one_by_one(vectors, eigenvalues, x, spd_push(vectors, eigenvalues, x)):
        close(pushed, dense_push(one_vectors, *one), float32=1e-5, float64=1e-13)


def test_the_first_vector_is_applied_first():
    vectors = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    # H_1 turns (2, 3) to (-2, 3), H_2 exchanges and negates: (-3, 2).
    torch.testing.assert_close(reflect(vectors, torch.tensor([2.0, 3.0])), torch.tensor([-3.0, 2.0]))


def test_no_reflections_leave_x_and_scale_by_the_eigenvalues_alone():
    vectors, eigenvalues, x = parts(2, 5, reflections=0)
    assert torch.equal(reflect(vectors, x), x)
    assert torch.equal(reflect_back(vectors, x), x)
    torch.testing.assert_close(spd_push(vectors, eigenvalues, x), eigenvalues * x, rtol=0, atol=0)
    found = torch.autograd.grad(spd_push(vectors, eigenvalues, x).sum(), (vectors, eigenvalues, x))
    assert found[0].shape == vectors.shape
    assert torch.equal(found[1], x)
    assert torch.equal(found[2], eigenvalues)


@dtypes
def test_the_length_of_a_vector_does_not_matter(dtype):
    vectors, eigenvalues, x = parts(3, 7, dtype=dtype)
    reference = spd_push(vectors, eigenvalues, x)
    for length in (1e-15, 1e15):
        close(spd_push(vectors * length, eigenvalues, x), reference.double(), float32=1e-5, float64=1e-13)


@dtypes
def test_a_zero_vector_is_the_identity_with_a_zero_gradient(dtype):
    vectors, eigenvalues, x = parts(9, 6, dtype=dtype)
    with torch.no_grad():
        vectors[:, 1] = 0.0
        vectors[4, 0] = torch.finfo(dtype).tiny  # its square underflows: it counts as zero
    without = torch.cat([vectors[:, :1], vectors[:, 2:]], 1).detach()
    without[4, 0] = 0.0
    pushed = spd_push(vectors, eigenvalues, x)
    torch.testing.assert_close(pushed, spd_push(without, eigenvalues, x))
    slope, *others = torch.autograd.grad(pushed.square().sum(), (vectors, eigenvalues, x))
    assert slope[:, 1].abs().max() == 0.0
    assert slope[4, 0].abs().max() == 0.0
    assert slope[:, 2].abs().min() > 0.0
    assert all(bool(g.isfinite().all()) for g in (slope, *others))


@dtypes
@pytest.mark.parametrize("engine", [_compiled, _steps], ids=["compiled", "steps"])
@pytest.mark.parametrize("bad", ["nan", "inf", "overflow"])
def test_what_cannot_be_computed_is_nan_and_not_the_identity(dtype, engine, bad):
    vectors, eigenvalues, x = (t.detach() for t in parts(2, 6, dtype=dtype))
    worst = {"nan": torch.nan, "inf": torch.inf, "overflow": torch.finfo(dtype).max / 2}[bad]
    vectors[1, 0, 0] = worst
    y, _ = engine.push(vectors, eigenvalues, x.unsqueeze(0))
    assert y[0, 0].isfinite().all()
    assert not y[0, 1].isfinite().any()


# --- batch shapes, strides, dtypes --------------------------------------------------------------------------

SHAPES = [  # vectors, eigenvalues, x
    ((), (), (4,)),
    ((), (), ()),
    ((3,), (3,), (5, 3)),
    ((2, 3), (2, 3), (4, 2, 3)),
    ((2, 1), (2, 3), (2, 3)),
    ((2, 1), (2, 1), (2, 3)),
    ((3,), (2, 1), (1, 3)),
    ((1,), (3,), ()),
    ((2, 3), (1,), (3,)),
    ((4, 1, 3), (3,), (2, 1)),
    ((0,), (0,), (0,)),
    ((3,), (3,), (0, 3)),
]


@dtypes
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_batch_shapes_broadcast(shapes, dtype):
    generator = seeded(1)
    r, p = 2, 5
    cores = ((r, p), (p,), (p,))
    arguments = [
        torch.randn(*batch, *core, generator=generator, dtype=dtype).abs().requires_grad_()
        for batch, core in zip(shapes, cores, strict=True)
    ]
    ours, loop = spd_push(*arguments), plain_loop(*arguments)
    assert ours.shape == loop.shape == (*torch.broadcast_shapes(*shapes), p)
    close(ours, loop.double(), float32=1e-5, float64=1e-13)
    weight = torch.randn(ours.shape, generator=generator, dtype=dtype)
    found = torch.autograd.grad((ours * weight).sum(), arguments)
    wanted = torch.autograd.grad((loop * weight).sum(), arguments)
    for g, w in zip(found, wanted, strict=True):
        close(g, w.double(), float32=1e-5, float64=1e-13)
    turned = reflect(arguments[0], arguments[2])
    assert turned.shape == (*torch.broadcast_shapes(shapes[0], shapes[2]), p)
    close(reflect_back(arguments[0], turned), arguments[2].double().expand_as(turned), float32=1e-5, float64=1e-13)


def test_repeats_made_by_expand_are_not_copied(monkeypatch):
    monkeypatch.setenv("FERN_KERNELS", "on")
    vectors, eigenvalues, x = (t.detach() for t in parts(2, 6))
    seen = []
    push = _compiled.push
    monkeypatch.setattr(_compiled, "push", lambda v, e, y: seen.append(v.shape) or push(v, e, y))
    wide = spd_push(vectors.unsqueeze(1).expand(2, 50, 3, 6), eigenvalues.unsqueeze(1).expand(2, 50, 6), x.unsqueeze(1))
    assert seen == [(2, 3, 6)]
    assert torch.equal(wide, spd_push(vectors, eigenvalues, x).unsqueeze(1).expand(2, 50, 6))


@dtypes
def test_strided_arguments_give_what_contiguous_ones_give(dtype):
    vectors, eigenvalues, x = (t.detach() for t in parts(10, 6, dtype=dtype))
    reference = spd_push(vectors, eigenvalues, x)
    buffer = torch.full((10, 5 * 6 + 3), torch.nan, dtype=dtype)  # one linear head's output, split
    buffer[:, 2:20], buffer[:, 20:26], buffer[:, 27:] = vectors.flatten(1), eigenvalues, x
    views = buffer[:, 2:20].unflatten(1, (3, 6)), buffer[:, 20:26], buffer[:, 27:]
    assert torch.equal(spd_push(*views), reference)
    turned = [t.mT.contiguous().mT for t in (vectors, eigenvalues, x)]
    assert not any(t.is_contiguous() for t in turned)
    assert torch.equal(spd_push(*turned), reference)
    apart = [t[::2] for t in (vectors, eigenvalues, x)]
    assert torch.equal(spd_push(*apart), reference[::2])


def test_a_lazily_negated_tensor_is_read_with_its_sign():
    vectors, eigenvalues, x = (t.detach() for t in parts(4, 6))
    lazy = torch.complex(torch.zeros_like(x), -x).conj().imag
    assert lazy.is_neg()
    torch.testing.assert_close(spd_push(vectors, eigenvalues, lazy), spd_push(vectors, eigenvalues, x))


def test_the_default_device_has_no_say():
    arguments = parts(4, 6)
    with torch.device("meta"):
        pushed = spd_push(*arguments)
        found = torch.autograd.grad(pushed, arguments, arguments[2])
    assert all(t.device.type == "cpu" for t in (pushed, *found))


def test_a_device_without_kernels_takes_the_torch_operations():
    vectors, eigenvalues, x = (t.detach().to("meta").requires_grad_() for t in parts(5, 4, 6))
    pushed = spd_push(vectors, eigenvalues, x)
    assert pushed.device.type == "meta"
    assert [g.shape for g in torch.autograd.grad(pushed, (vectors, eigenvalues, x), x)] == [
        t.shape for t in (vectors, eigenvalues, x)
    ]


def test_mixed_dtypes_are_promoted_and_halves_run():
    vectors, eigenvalues, x = (t.detach() for t in parts(4, 6))
    reference = spd_push(vectors, eigenvalues, x)
    mixed = spd_push(vectors.float(), eigenvalues, x.float())
    assert mixed.dtype == torch.float64
    torch.testing.assert_close(mixed, reference, rtol=1e-5, atol=1e-5)
    half = spd_push(vectors.bfloat16(), eigenvalues.bfloat16(), x.bfloat16())
    assert half.dtype == torch.bfloat16
    assert (half.double() - reference).abs().max() < 0.2  # bfloat16 has eight bits, thirteen roundings a step


# --- gradients ----------------------------------------------------------------------------------------------


@dtypes
def test_gradients_equal_those_of_the_plain_loop_at_the_size_of_training(dtype):
    arguments = parts(285, 14, 24, dtype=dtype, reflections=8)
    weight = torch.randn(285, 14, 24, generator=seeded(2), dtype=dtype)
    ours, loop = spd_push(*arguments), plain_loop(*arguments)
    close(ours, loop.double(), float32=1e-5, float64=1e-13)
    found = torch.autograd.grad((ours * weight).sum(), arguments)
    wanted = torch.autograd.grad((loop * weight).sum(), arguments)
    for g, w in zip(found, wanted, strict=True):
        assert (g - w).abs().max() <= (1e-5 if dtype == torch.float32 else 1e-12)


@dtypes
@given(data=st.data())
def test_both_engines_agree_forward_and_backward(dtype, data):
    vectors, eigenvalues, x = data.draw(sets(dtype, largest=20))
    n, (r, p) = max(1, x[..., 0].numel()), vectors.shape[-2:]
    v, e, y = vectors.reshape(n, r, p), eigenvalues.reshape(n, p), x.reshape(1, n, p).repeat(2, 1, 1)
    v = torch.nn.functional.normalize(v, dim=-1)  # gradients scale as 1/|v|
    grad = torch.randn(y.shape, generator=seeded(3), dtype=dtype)
    calls = [
        lambda engine: engine.push(v, e, y),
        lambda engine: engine.push_backward(v, e, y, grad),
        *(lambda engine, back=back: (engine.reflect(v, y, back=back),) for back in (False, True)),
        *(lambda engine, back=back: engine.reflect_backward(v, y, grad, back=back) for back in (False, True)),
    ]
    for call in calls:
        for ours, theirs in zip(call(_compiled), call(_steps), strict=True):
            close(ours, theirs.double(), float32=3e-5, float64=1e-12)


@pytest.mark.parametrize("reflections", [0, 1, 3, 6])
def test_gradients_equal_finite_differences(reflections):
    vectors, eigenvalues, x = parts(2, 6, reflections=reflections)
    samples = torch.randn(3, 2, 6, generator=seeded(5), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(spd_push, (vectors, eigenvalues, x))
    assert torch.autograd.gradcheck(spd_push, (vectors, eigenvalues, samples))
    assert torch.autograd.gradcheck(reflect, (vectors, x))
    assert torch.autograd.gradcheck(reflect_back, (vectors, samples))


def test_each_argument_may_be_the_only_one_that_needs_a_gradient():
    arguments = parts(3, 6)
    everything = torch.autograd.grad(spd_push(*arguments).square().sum(), arguments)
    for i, wanted in enumerate(everything):
        alone = [t if j == i else t.detach() for j, t in enumerate(arguments)]
        (found,) = torch.autograd.grad(spd_push(*alone).square().sum(), [alone[i]])
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    vectors, _, x = arguments
    for back in (reflect, reflect_back):
        full = torch.autograd.grad(back(vectors, x).pow(3).sum(), (vectors, x))
        (of_x,) = torch.autograd.grad(back(vectors.detach(), x).pow(3).sum(), (x,))
        torch.testing.assert_close(of_x, full[1], rtol=1e-12, atol=1e-12)


def test_nothing_is_recorded_without_gradients_and_results_may_be_changed_in_place():
    arguments = parts(3, 6)
    with torch.no_grad():
        assert not spd_push(*arguments).requires_grad
    pushed = spd_push(*arguments)
    wanted = torch.autograd.grad(pushed.sum(), arguments)
    changed = spd_push(*arguments)
    changed.mul_(2.0)
    for g, w in zip(torch.autograd.grad(changed.sum(), arguments), wanted, strict=True):
        torch.testing.assert_close(g, 2.0 * w)


def test_backward_keeps_vectors_eigenvalues_and_one_state_only():
    arguments = parts(5, 4, 6, reflections=6)
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        spd_push(*arguments)
    n = 5 * 4 * 6
    assert sum(kept.values()) == (6 + 2) * n * 8  # R vectors, Λ and U x in float64


# --- threads, processes, torch.compile ----------------------------------------------------------------------


@pytest.mark.parametrize("threads", [2, 3])
def test_the_number_of_threads_does_not_change_a_bit(threads, monkeypatch):
    monkeypatch.setattr(_compiled, "WORTH_A_THREAD", 1)
    arguments = parts(43, 6)
    once = [spd_push(*arguments), *torch.autograd.grad(spd_push(*arguments).square().sum(), arguments)]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    again = [spd_push(*arguments), *torch.autograd.grad(spd_push(*arguments).square().sum(), arguments)]
    assert all(torch.equal(a, b) for a, b in zip(once, again, strict=True))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_after_threads_were_used_does_not_hang(monkeypatch):
    monkeypatch.setattr(_compiled, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    arguments = torch.ones(32, 2, 3), torch.ones(32, 3), torch.ones(32, 3)
    reference = spd_push(*arguments)
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # ends it where it hangs
        try:
            os._exit(0 if torch.equal(spd_push(*arguments), reference) else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # by torch itself
def test_torch_compile_traces_the_torch_operations():
    arguments = parts(3, 6)
    compiled = torch.compile(lambda *a: spd_push(*a).sin(), backend="eager", fullgraph=True)
    ours, plain = compiled(*arguments), spd_push(*arguments).sin()
    torch.testing.assert_close(ours, plain)
    found, wanted = (torch.autograd.grad(y.sum(), arguments) for y in (ours, plain))
    for g, w in zip(found, wanted, strict=True):
        torch.testing.assert_close(g, w)


# --- bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("vectors", "eigenvalues", "x", "message"),
    [
        (torch.ones(6), torch.ones(6), torch.ones(6), "vectors: "),
        (torch.ones(2, 5), torch.ones(6), torch.ones(6), "vectors: "),
        (torch.ones(2, 6), torch.ones(5), torch.ones(6), "eigenvalues: "),
        (torch.ones(2, 6), torch.ones(()), torch.ones(6), "eigenvalues: "),
        (torch.ones(2, 6), torch.ones(6), torch.ones(()), "x: "),
        (torch.ones(2, 6).long(), torch.ones(6), torch.ones(6), "vectors: "),
        (torch.ones(2, 6), [1.0] * 6, torch.ones(6), "eigenvalues: "),
        (torch.ones(2, 6), torch.ones(6), torch.ones(6).bool(), "x: "),
        (torch.ones(4, 2, 6), torch.ones(3, 6), torch.ones(6), "batch shapes .* do not broadcast"),
        (torch.ones(2, 6, device="meta"), torch.ones(6), torch.ones(6), "vectors is on meta, eigenvalues is on cpu"),
    ],
)
def test_wrong_arguments_are_named(vectors, eigenvalues, x, message):
    with pytest.raises(FernError, match=message):
        spd_push(vectors, eigenvalues, x)


def test_reflect_names_wrong_arguments_too():
    with raises_error("vectors"):
        reflect(torch.ones(2, 5), torch.ones(6))
    with pytest.raises(FernError, match="do not broadcast"):
        reflect_back(torch.ones(3, 2, 6), torch.ones(4, 6))
