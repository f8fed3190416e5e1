"""State-space duality of Mamba-2: the matrix form against the recurrence, in chunks, and with signed transitions."""

import pytest
import torch
from layerstate.adapters.reference.duality import (
    mixed_within_chunks,
    mixed_within_chunks_reference,
    state_space_duality,
)
from layerstate.adapters.reference.mamba2 import Mamba2
from torch.nn import functional


def mamba2(**options):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Mamba2(5, 5, blocks=2, width=16, headdim=16, state_size=8, **options)


def duality_inputs(batch, length, heads, headdim, states, signed=False):
    def draw(seed, *size):
        return torch.randn(*size, generator=torch.Generator().manual_seed(seed))

    inputs = [
        draw(0, batch, length, heads, headdim),
        functional.softplus(draw(1, batch, length, heads) - 2),
        -0.1 * draw(2, batch, length, heads).exp(),
        draw(3, batch, length, states),
        draw(4, batch, length, states),
    ]
    return inputs, draw(5, batch, length, heads).sign() if signed else None


def recurrence(x, delta, log_decay, B, C, sign):
    """h_t = a_t h_{t-1} + delta_t B_t x_t, y_t = C_t . h_t, one position after the other."""
    state, outputs = 0, []
    for t in range(x.shape[1]):
        a = log_decay[:, t].exp() * (1 if sign is None else sign[:, t])
        state = a[..., None, None] * state + torch.einsum("bh,bn,bhp->bhnp", delta[:, t], B[:, t], x[:, t])
        outputs.append(torch.einsum("bn,bhnp->bhp", C[:, t], state))
    return torch.stack(outputs, 1)


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 1, 16, 4), (2, 21, 3, 32, 5), (2, 64, 2, 16, 8), (2, 150, 2, 8, 4)])
def test_matrix_form_equals_the_recurrence_forward_and_backward(shape, signed):
    inputs, sign = duality_inputs(*shape, signed=signed)
    single = [t.clone().requires_grad_() for t in inputs]
    double = [t.double().requires_grad_() for t in inputs]
    out = state_space_duality(*single, sign_BLH=sign)
    expected = recurrence(*double, sign)
    assert (out - expected).norm() / expected.norm() < 2e-6
    weight = torch.randn(out.shape, generator=torch.Generator().manual_seed(9))
    gradients = torch.autograd.grad(out, single, weight)
    for gradient, right in zip(gradients, torch.autograd.grad(expected, double, weight.double()), strict=True):
        assert (gradient - right).norm() / right.norm().clamp(min=1e-12) < 5e-6


def test_fused_mixing_equals_the_plain_one():
    (x, delta, log_decay, B, C), _ = duality_inputs(2, 37, 3, 32, 8)
    inputs = [t.requires_grad_() for t in (x, delta, log_decay.cumsum(1), B, C)]
    out, expected = mixed_within_chunks(*inputs), mixed_within_chunks_reference(*inputs)
    torch.testing.assert_close(out, expected)
    assert out.grad_fn.name() != expected.grad_fn.name()


def test_size_of_the_chunk_changes_nothing_but_rounding():
    inputs, sign = duality_inputs(2, 100, 2, 16, 4, signed=True)
    whole = state_space_duality(*inputs, sign_BLH=sign, chunk=100)
    for chunk in (1, 7, 50, 64):
        torch.testing.assert_close(
            state_space_duality(*inputs, sign_BLH=sign, chunk=chunk), whole, rtol=1e-4, atol=1e-5
        )


def test_memory_grows_linearly_with_length():
    def kept(length):
        sizes = []
        inputs, _ = duality_inputs(1, length, 2, 8, 4)  # heads of 8: the plain form, which stores its matrices
        inputs = [t.requires_grad_() for t in inputs]
        with torch.autograd.graph.saved_tensors_hooks(lambda t: sizes.append(t.nbytes) or t, lambda t: t):
            state_space_duality(*inputs)
        return sum(sizes)

    assert kept(1024) < 2.2 * kept(512)


def test_signed_transition_covers_minus_one_to_one():
    mixer = mamba2(signed=True).blocks[0].mixer
    delta = torch.logspace(-6, 3, 50)[None, :, None].expand(1, 50, 2)
    log_size, sign = mixer._transition(delta)
    a = log_size.exp() * sign
    assert a.max() > 0.9999
    assert a.min() < -0.9999
    torch.testing.assert_close(a, 2 * torch.exp(-delta * mixer.A_log.exp()) - 1, rtol=1e-5, atol=1e-3)


def test_signed_and_unsigned_models_share_weights_and_differ():
    plain, signed = mamba2(), mamba2(signed=True)
    signed.load_state_dict(plain.state_dict())
    tokens = torch.arange(18).remainder(5).view(2, 9)
    assert not torch.allclose(plain(tokens), signed(tokens))
    signed(tokens).sum().backward()
    assert all(weight.grad.isfinite().all() for weight in signed.parameters())
