"""Mamba: equal to transformers' CPU reference, with mamba_ssm's names, and open to ablation."""

import math

import pytest
import torch
from layerstate.adapters.base import AdapterError
from layerstate.adapters.reference.mamba import Mamba
from layerstate.adapters.reference.state_space import from_mamba_ssm, to_mamba_ssm, to_transformers
from torch.nn import functional
from transformers import MambaConfig, MambaForCausalLM

MIXER_SHAPES = {
    "in_proj.weight": (64, 16),
    "conv1d.weight": (32, 1, 4),
    "conv1d.bias": (32,),
    "x_proj.weight": (1 + 32, 32),
    "dt_proj.weight": (32, 1),
    "dt_proj.bias": (32,),
    "A_log": (32, 16),
    "D": (32,),
    "out_proj.weight": (16, 32),
}


def seeded(build, seed=0):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def mamba(vocab_size=5, classes=5, *, blocks=2, width=16, **options):
    return seeded(lambda: Mamba(vocab_size, classes, blocks=blocks, width=width, **options))


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


def twins(width, blocks, expand=2):
    """Ours and transformers' with the same weights, both away from their initial values."""
    ours = mamba(width=width, blocks=blocks, expand=expand)
    with torch.no_grad():
        for index, weight in enumerate(ours.parameters()):
            weight += 0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(index))
    config = MambaConfig(
        vocab_size=5,
        hidden_size=width,
        num_hidden_layers=blocks,
        state_size=16,
        expand=expand,
        tie_word_embeddings=False,
        use_cache=False,
    )
    theirs = seeded(lambda: MambaForCausalLM(config))
    theirs.load_state_dict(to_transformers(ours.state_dict()))
    return ours, theirs


@pytest.mark.parametrize(
    ("batch", "length", "width", "blocks", "expand"), [(1, 1, 16, 2, 2), (3, 9, 24, 3, 3), (2, 80, 32, 2, 2)]
)
def test_equals_transformers_block_for_block_forward_and_backward(batch, length, width, blocks, expand):
    ours, theirs = twins(width, blocks, expand)
    tokens = draw_tokens(batch, length)
    logits, outputs = block_outputs(ours, ours.blocks, tokens)
    expected, expected_outputs = block_outputs(theirs, theirs.backbone.layers, tokens)
    assert len(outputs) == len(expected_outputs) == blocks
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
    state = to_mamba_ssm(mamba().state_dict())
    expected = {"backbone.embedding.weight": (5, 16), "backbone.norm_f.weight": (16,), "lm_head.weight": (5, 16)}
    for i in range(2):
        expected[f"backbone.layers.{i}.norm.weight"] = (16,)
        expected |= {f"backbone.layers.{i}.mixer.{name}": shape for name, shape in MIXER_SHAPES.items()}
    assert {name: tuple(value.shape) for name, value in state.items()} == expected


def test_state_dicts_load_both_ways():
    source, target = mamba(), seeded(lambda: Mamba(5, 5, blocks=2, width=16), seed=1)
    tokens = draw_tokens(2, 7)
    assert not torch.equal(source(tokens), target(tokens))
    for there in (to_mamba_ssm, to_transformers):
        target.load_state_dict(from_mamba_ssm(there(source.state_dict())))
        assert torch.equal(source(tokens), target(tokens))


def test_weight_of_another_model_is_refused_by_name():
    with pytest.raises(AdapterError, match="no place in a Mamba"):
        from_mamba_ssm({"transformer.h.0.attn.weight": torch.zeros(1)})


@pytest.mark.parametrize(("vocab_size", "classes", "count"), [(2, 2, 816_512), (6, 6, 817_536), (4, 11, 817_920)])
def test_standard_size_is_within_three_percent_of_the_transformer(vocab_size, classes, count):
    model = mamba(vocab_size, classes, blocks=4, width=128, expand=3.5)
    assert sum(weight.numel() for weight in model.parameters()) == count
    assert abs(count / 827_000 - 1) < 0.03


def test_initial_values_are_those_of_mamba_ssm():
    mixer = mamba(blocks=4, width=128).blocks[0].mixer
    assert mixer.x_proj.weight.shape[0] - 2 * 16 == math.ceil(128 / 16)
    torch.testing.assert_close(mixer.A_log.exp(), torch.arange(1.0, 17).expand(256, 16))
    assert (mixer.D == 1).all()
    step = functional.softplus(mixer.dt_proj.bias)
    assert 0.0009 < step.min() < 0.002
    assert 0.05 < step.max() < 0.11
    bound = 256**-0.5 / 2  # of a linear map from 256 features, over sqrt(4 blocks)
    assert 0.95 * bound < mixer.out_proj.weight.abs().max() <= bound


def test_convolution_taps_by_hand():
    """out_t = w0 x_{t-3} + w1 x_{t-2} + w2 x_{t-1} + w3 x_t + bias; bypass is x, current_tap is w3 x_t + bias."""
    convolution = mamba().blocks[0].mixer.conv1d
    x = torch.randn(1, 5, 32, generator=torch.Generator().manual_seed(0))
    w, bias = convolution.weight[:, 0], convolution.bias
    by_hand = w[:, 0] * x[0, 1] + w[:, 1] * x[0, 2] + w[:, 2] * x[0, 3] + w[:, 3] * x[0, 4] + bias
    torch.testing.assert_close(convolution(x)[0, 4], by_hand)
    torch.testing.assert_close(convolution(x)[0, 0], w[:, 3] * x[0, 0] + bias)
    convolution.ablation = "bypass"
    assert torch.equal(convolution(x), x)
    convolution.ablation = "current_tap"
    torch.testing.assert_close(convolution(x), w[:, 3] * x + bias)


def test_model_without_convolution_is_the_model_with_it_bypassed():
    """The matched backend: one code path, so that nothing but the convolution differs."""
    tokens = draw_tokens(3, 12)
    model, without = mamba(), mamba(conv1d=False)
    missing = without.load_state_dict(model.state_dict(), strict=False)
    assert all("conv1d" in name for name in missing.unexpected_keys)
    assert "conv1d" not in without.components
    assert not torch.equal(model(tokens), without(tokens))
    for convolution in model.ablatable("conv1d"):
        convolution.ablation = "bypass"
    assert torch.equal(model(tokens), without(tokens))


def test_zeroed_mixers_leave_the_embedding():
    model, tokens = mamba(), draw_tokens(3, 12)
    for mixer in model.ablatable("mixer"):
        mixer.ablation = "zero"
    assert torch.equal(model(tokens), model.head(model.embed(tokens)))


@pytest.mark.parametrize("component", ["mixer", "conv1d"])
def test_every_ablatable_part_is_called_once_a_block(component):
    model, calls = mamba(blocks=3), []
    for part in model.ablatable(component):
        part.register_forward_hook(lambda module, *_: calls.append(module))
    model(draw_tokens(2, 4))
    assert calls == model.ablatable(component)
    assert len(calls) == 3


def test_convolution_hook_never_fires_in_transformers():
    """Why ablation here goes through a module that is called: there, the weight is read directly."""
    _, theirs = twins(16, 2)
    calls = []
    theirs.backbone.layers[0].mixer.conv1d.register_forward_hook(lambda *_: calls.append(1))
    theirs(draw_tokens(2, 4))
    assert not calls


def test_a_changed_token_changes_nothing_before_it():
    model, tokens = mamba(), draw_tokens(2, 80)
    before = model(tokens)
    tokens[:, 40] = (tokens[:, 40] + 1) % 5
    after = model(tokens)
    assert torch.equal(after[:, :40], before[:, :40])
    assert not torch.equal(after[:, 40], before[:, 40])


def test_channels_need_not_fill_whole_vectors():
    model = mamba(width=10, expand=1.7)
    model(draw_tokens(2, 5)).sum().backward()
    assert model.blocks[0].mixer.A_log.grad.shape == (17, 16)


@pytest.mark.parametrize("rank", [0, "automatic", 2.5])
def test_rank_of_the_step_size_is_checked(rank):
    with pytest.raises(AdapterError, match="dt_rank"):
        mamba(dt_rank=rank)
