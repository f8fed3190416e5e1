"""Mamba-2: equal to transformers' CPU reference and to the recurrence, with mamba_ssm's names."""

import pytest
import torch
from layerstate.adapters.base import AdapterError
from layerstate.adapters.reference.duality import (
    mixed_within_chunks,
    mixed_within_chunks_reference,
    state_space_duality,
)
from layerstate.adapters.reference.mamba2 import Mamba2
from layerstate.adapters.reference.state_space import from_mamba_ssm, to_mamba_ssm, to_transformers
from torch.nn import functional
from transformers import Mamba2Config, Mamba2ForCausalLM

MIXER_SHAPES = {
    "in_proj.weight": (32 + 32 + 2 * 8 + 2, 16),
    "conv1d.weight": (32 + 2 * 8, 1, 4),
    "conv1d.bias": (32 + 2 * 8,),
    "dt_bias": (2,),
    "A_log": (2,),
    "D": (2,),
    "norm.weight": (32,),
    "out_proj.weight": (16, 32),
}


def seeded(build, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def mamba2(vocab_size=5, classes=5, *, blocks=2, width=16, headdim=16, state_size=8, **options):
    sizes = {"blocks": blocks, "width": width, "headdim": headdim, "state_size": state_size}
    return seeded(lambda: Mamba2(vocab_size, classes, **sizes, **options))


def draw_tokens(batch, length, vocab_size=5):
    return torch.randint(vocab_size, (batch, length), generator=torch.Generator().manual_seed(1))


def block_outputs(model, blocks, tokens):
    """Logits, and what each of `blocks` returns, in order."""
    seen = []
    hooks = [block.register_forward_hook(lambda _m, _i, out: seen.append(out)) for block in blocks]
    logits = model(tokens)
    for hook in hooks:
        hook.remove()
    return getattr(logits, "logits", logits), [out[0] if isinstance(out, tuple) else out for out in seen]


def twins(width, headdim, state_size, expand=2):
    """Ours and transformers' with the same weights, both away from their initial values."""
    ours = mamba2(width=width, headdim=headdim, state_size=state_size, expand=expand)
    with torch.no_grad():
        for index, weight in enumerate(ours.parameters()):
            weight += 0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(index))
    config = Mamba2Config(
        vocab_size=5,
        hidden_size=width,
        num_hidden_layers=2,
        state_size=state_size,
        expand=expand,
        head_dim=headdim,
        num_heads=int(expand * width) // headdim,
        n_groups=1,
        chunk_size=32,
        tie_word_embeddings=False,
        use_cache=False,
    )
    theirs = seeded(lambda: Mamba2ForCausalLM(config))
    theirs.load_state_dict(to_transformers(ours.state_dict()))
    return ours, theirs


@pytest.mark.parametrize(
    ("batch", "length", "width", "headdim", "state_size", "expand"),
    [(1, 1, 16, 16, 8, 2), (3, 9, 16, 8, 16, 3), (2, 40, 64, 32, 64, 3), (2, 150, 32, 16, 16, 2)],
)
def test_equals_transformers_block_for_block_forward_and_backward(batch, length, width, headdim, state_size, expand):
    """One token, one matrix, several chunks; heads that fill vectors, and heads that don't."""
    ours, theirs = twins(width, headdim, state_size, expand)
    tokens = draw_tokens(batch, length)
    logits, outputs = block_outputs(ours, ours.blocks, tokens)
    expected, expected_outputs = block_outputs(theirs, theirs.backbone.layers, tokens)
    assert len(outputs) == len(expected_outputs) == 2
    for mine, right in zip([*outputs, logits], [*expected_outputs, expected], strict=True):
        torch.testing.assert_close(mine, right, rtol=0, atol=1e-4)

    for out in (logits, expected):
        functional.cross_entropy(out.flatten(0, 1), tokens.flatten()).backward()
    gradients = {name: weight.grad for name, weight in ours.named_parameters()}
    right = {name: weight.grad for name, weight in theirs.named_parameters()}
    for name, gradient in to_transformers(gradients).items():
        scale = right[name].norm().clamp(min=1e-6)
        assert (gradient - right[name]).norm() / scale < 1e-3, name


def test_names_and_shapes_are_those_of_mamba_ssm():
    state = to_mamba_ssm(mamba2().state_dict())
    expected = {"backbone.embedding.weight": (5, 16), "backbone.norm_f.weight": (16,), "lm_head.weight": (5, 16)}
    for i in range(2):
        expected[f"backbone.layers.{i}.norm.weight"] = (16,)
        expected |= {f"backbone.layers.{i}.mixer.{name}": shape for name, shape in MIXER_SHAPES.items()}
    assert {name: tuple(value.shape) for name, value in state.items()} == expected


def test_state_dicts_load_both_ways():
    source, target = mamba2(), seeded(lambda: Mamba2(5, 5, blocks=2, width=16, headdim=16, state_size=8), seed=1)
    tokens = draw_tokens(2, 7)
    assert not torch.equal(source(tokens), target(tokens))
    target.load_state_dict(from_mamba_ssm(to_mamba_ssm(source.state_dict())))
    assert torch.equal(source(tokens), target(tokens))


@pytest.mark.parametrize(("vocab_size", "classes", "count"), [(2, 2, 825_908), (6, 6, 826_932), (4, 11, 827_316)])
def test_standard_size_is_within_three_percent_of_the_transformer(vocab_size, classes, count):
    model = mamba2(vocab_size, classes, blocks=4, width=128, expand=3.75, headdim=32, state_size=64)
    assert sum(weight.numel() for weight in model.parameters()) == count
    assert abs(count / 827_000 - 1) < 0.03


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
    tokens = draw_tokens(2, 9)
    assert not torch.allclose(plain(tokens), signed(tokens))
    signed(tokens).sum().backward()
    assert all(weight.grad.isfinite().all() for weight in signed.parameters())


def test_convolution_covers_x_B_and_C_and_bypass_equals_no_convolution():
    tokens = draw_tokens(3, 12)
    model, without = mamba2(), mamba2(conv1d=False)
    without.load_state_dict(model.state_dict(), strict=False)
    assert model.components == {"mixer": ("zero",), "conv1d": ("bypass", "current_tap")}
    assert without.components == {"mixer": ("zero",)}
    assert not torch.equal(model(tokens), without(tokens))
    for convolution in model.ablatable("conv1d"):
        assert convolution.weight.shape[0] == 32 + 2 * 8
        convolution.ablation = "bypass"
    assert torch.equal(model(tokens), without(tokens))


def test_zeroed_mixers_leave_the_embedding():
    model, tokens = mamba2(), draw_tokens(3, 12)
    for mixer in model.ablatable("mixer"):
        mixer.ablation = "zero"
    assert torch.equal(model(tokens), model.head(model.embed(tokens)))


def test_convolution_hook_never_fires_in_transformers_and_does_here():
    ours, theirs = twins(16, 16, 8)
    calls = []
    theirs.backbone.layers[0].mixer.conv1d.register_forward_hook(lambda *_: calls.append("theirs"))
    ours.blocks[0].mixer.conv1d.register_forward_hook(lambda *_: calls.append("ours"))
    for model in (theirs, ours):
        model(draw_tokens(2, 4))
    assert calls == ["ours"]


@pytest.mark.parametrize("at", [0, 40, 63, 64, 99])
def test_a_changed_token_changes_nothing_before_it(at):
    model, tokens = mamba2(), draw_tokens(2, 100)
    before = model(tokens)
    tokens[:, at] = (tokens[:, at] + 1) % 5
    after = model(tokens)
    assert torch.equal(after[:, :at], before[:, :at])
    assert not torch.equal(after[:, at], before[:, at])


def test_gives_the_same_bytes_twice():
    model, tokens = mamba2(), draw_tokens(2, 100)
    assert torch.equal(model(tokens), model(tokens))


def test_heads_that_do_not_divide_the_channels_are_refused():
    with pytest.raises(AdapterError, match="32 inner channels"):
        mamba2(headdim=20)
