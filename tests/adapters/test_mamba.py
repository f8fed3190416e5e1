"""Mamba and Mamba-2: equal to transformers' CPU reference, with mamba_ssm's names, and open to ablation."""

import math

import pytest
import torch
from layerstate.adapters.base import AdapterError
from layerstate.adapters.reference.mamba import Mamba
from layerstate.adapters.reference.mamba2 import Mamba2
from layerstate.adapters.reference.state_space import from_mamba_ssm, to_mamba_ssm, to_transformers
from torch.nn import functional

VOCABULARY = 5
SMALL = {"mamba": (Mamba, {}), "mamba2": (Mamba2, {"headdim": 16, "state_size": 8})}
STANDARD = {"mamba": {"expand": 3.5}, "mamba2": {"expand": 3.75, "headdim": 32, "state_size": 64}}
# Of a mixer of width 16 with 32 inner channels; the rank of Mamba's step size is ceil(16 / 16).
MIXER_SHAPES = {
    "mamba": {
        "in_proj.weight": (2 * 32, 16),
        "conv1d.weight": (32, 1, 4),
        "conv1d.bias": (32,),
        "x_proj.weight": (1 + 2 * 16, 32),
        "dt_proj.weight": (32, 1),
        "dt_proj.bias": (32,),
        "A_log": (32, 16),
        "D": (32,),
        "out_proj.weight": (16, 32),
    },
    "mamba2": {
        "in_proj.weight": (32 + 32 + 2 * 8 + 2, 16),
        "conv1d.weight": (32 + 2 * 8, 1, 4),
        "conv1d.bias": (32 + 2 * 8,),
        "dt_bias": (2,),
        "A_log": (2,),
        "D": (2,),
        "norm.weight": (32,),
        "out_proj.weight": (16, 32),
    },
}
both = pytest.mark.parametrize("kind", SMALL)


def build(kind, vocab_size=VOCABULARY, classes=VOCABULARY, *, seed=0, blocks=2, width=16, **options):
    model, small = SMALL[kind]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return model(vocab_size, classes, blocks=blocks, width=width, **{**small, **options})


def draw_tokens(batch, length):
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(1))


def transformers_model(kind, width, expand=2, headdim=16, state_size=8):
    """transformers' model of the same shape as `build(kind, width=width, ...)`."""
    from transformers import Mamba2Config, Mamba2ForCausalLM, MambaConfig, MambaForCausalLM

    shared = {"vocab_size": VOCABULARY, "hidden_size": width, "num_hidden_layers": 2, "expand": expand}
    shared |= {"tie_word_embeddings": False, "use_cache": False}
    if kind == "mamba":
        return MambaForCausalLM(MambaConfig(state_size=16, **shared))
    heads = expand * width // headdim
    shared |= {"state_size": state_size, "head_dim": headdim, "num_heads": heads, "n_groups": 1, "chunk_size": 32}
    return Mamba2ForCausalLM(Mamba2Config(**shared))


def twins(kind, width, **options):
    """Ours and transformers' with the same weights, moved away from their initial values."""
    ours = build(kind, width=width, **options)
    with torch.no_grad():
        for index, weight in enumerate(ours.parameters()):
            weight += 0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(index))
    theirs = transformers_model(kind, width, **options)
    theirs.load_state_dict(to_transformers(ours.state_dict()))
    return ours, theirs


def outputs(model, blocks, tokens):
    """What each of `blocks` returns, in order, and the logits."""
    seen = []
    hooks = [block.register_forward_hook(lambda _m, _i, out: seen.append(out)) for block in blocks]
    logits = model(tokens)
    for hook in hooks:
        hook.remove()
    return [out[0] if isinstance(out, tuple) else out for out in seen], getattr(logits, "logits", logits)


@pytest.mark.parametrize(
    ("kind", "batch", "length", "options"),
    [
        ("mamba", 1, 1, {"width": 16}),
        ("mamba", 3, 9, {"width": 24, "expand": 3}),
        ("mamba", 2, 80, {"width": 32}),
        ("mamba2", 1, 1, {"width": 16}),
        ("mamba2", 3, 9, {"width": 16, "expand": 3, "headdim": 8}),
        ("mamba2", 2, 40, {"width": 64, "expand": 3, "headdim": 32, "state_size": 64}),
        ("mamba2", 2, 150, {"width": 32}),
    ],
)
def test_equals_transformers_block_for_block_forward_and_backward(kind, batch, length, options):
    """From one token to more than a chunk; channels and heads that fill vectors, and some that don't."""
    ours, theirs = twins(kind, **options)
    tokens = draw_tokens(batch, length)
    found, logits = outputs(ours, ours.blocks, tokens)
    expected, expected_logits = outputs(theirs, theirs.backbone.layers, tokens)
    assert len(found) == len(expected) == 2
    for mine, right in zip([*found, logits], [*expected, expected_logits], strict=True):
        torch.testing.assert_close(mine, right, rtol=0, atol=1e-4)

    for out in (logits, expected_logits):
        functional.cross_entropy(out.flatten(0, 1), tokens.flatten()).backward()
    gradients = to_transformers({name: weight.grad for name, weight in ours.named_parameters()})
    for name, weight in theirs.named_parameters():
        error = (gradients[name] - weight.grad).norm() / weight.grad.norm().clamp(min=1e-6)
        assert error < 1e-3, name


@both
def test_convolution_hook_never_fires_in_transformers_and_does_here(kind):
    """Why ablation goes through a module that is called: there, the code uses the weight directly."""
    ours, theirs = twins(kind, width=16)
    calls = []
    theirs.backbone.layers[0].mixer.conv1d.register_forward_hook(lambda *_: calls.append("theirs"))
    ours.blocks[0].mixer.conv1d.register_forward_hook(lambda *_: calls.append("ours"))
    for model in (theirs, ours):
        model(draw_tokens(2, 4))
    assert calls == ["ours"]


@both
def test_names_and_shapes_are_those_of_mamba_ssm(kind):
    state = to_mamba_ssm(build(kind).state_dict())
    expected = {"backbone.embedding.weight": (5, 16), "backbone.norm_f.weight": (16,), "lm_head.weight": (5, 16)}
    for i in range(2):
        expected[f"backbone.layers.{i}.norm.weight"] = (16,)
        expected |= {f"backbone.layers.{i}.mixer.{name}": shape for name, shape in MIXER_SHAPES[kind].items()}
    assert {name: tuple(value.shape) for name, value in state.items()} == expected


@both
@pytest.mark.parametrize("there", [to_mamba_ssm, to_transformers])
def test_state_dicts_load_both_ways(kind, there):
    source, target, tokens = build(kind), build(kind, seed=1), draw_tokens(2, 7)
    assert not torch.equal(source(tokens), target(tokens))
    target.load_state_dict(from_mamba_ssm(there(source.state_dict())))
    assert torch.equal(source(tokens), target(tokens))


def test_weight_of_another_model_is_refused_by_name():
    with pytest.raises(AdapterError, match="no place in a Mamba"):
        from_mamba_ssm({"transformer.h.0.attn.weight": torch.zeros(1)})


@pytest.mark.parametrize(
    ("kind", "vocab_size", "classes", "count"),
    [
        ("mamba", 2, 2, 816_512),
        ("mamba", 6, 6, 817_536),
        ("mamba", 4, 11, 817_920),
        ("mamba2", 2, 2, 825_908),
        ("mamba2", 6, 6, 826_932),
        ("mamba2", 4, 11, 827_316),
    ],
)
def test_standard_size_is_within_three_percent_of_the_transformer(kind, vocab_size, classes, count):
    model = build(kind, vocab_size, classes, blocks=4, width=128, **STANDARD[kind])
    assert sum(weight.numel() for weight in model.parameters()) == count
    assert abs(count / 827_000 - 1) < 0.03


def test_initial_values_of_mamba_are_those_of_mamba_ssm():
    mixer = build("mamba", blocks=4, width=128).blocks[0].mixer
    torch.testing.assert_close(mixer.A_log.exp(), torch.arange(1.0, 17).expand(256, 16))
    assert (mixer.D == 1).all()
    step = functional.softplus(mixer.dt_proj.bias)
    assert 0.0009 < step.min() < 0.002
    assert 0.05 < step.max() < 0.11
    rank = math.ceil(128 / 16)
    assert 0.95 * rank**-0.5 < mixer.dt_proj.weight.abs().max() <= rank**-0.5
    bound = 256**-0.5 / 2  # of a linear map from 256 channels, over sqrt(4 blocks)
    assert 0.95 * bound < mixer.out_proj.weight.abs().max() <= bound


def test_initial_values_of_mamba2_are_those_of_mamba_ssm():
    mixer = build("mamba2", width=256, headdim=8).blocks[0].mixer
    assert 1 <= mixer.A_log.exp().min() < 3
    assert 14 < mixer.A_log.exp().max() <= 16
    step = functional.softplus(mixer.dt_bias)
    assert 0.0009 < step.min() < 0.005
    assert 0.03 < step.max() < 0.11


def test_convolution_taps_by_hand():
    """out_t = w0 x_{t-3} + w1 x_{t-2} + w2 x_{t-1} + w3 x_t + bias; bypass is x, current_tap is w3 x_t + bias."""
    convolution = build("mamba").blocks[0].mixer.conv1d
    x = torch.randn(1, 5, 32, generator=torch.Generator().manual_seed(0))
    w, bias = convolution.weight[:, 0], convolution.bias
    by_hand = w[:, 0] * x[0, 1] + w[:, 1] * x[0, 2] + w[:, 2] * x[0, 3] + w[:, 3] * x[0, 4] + bias
    torch.testing.assert_close(convolution(x)[0, 4], by_hand)
    torch.testing.assert_close(convolution(x)[0, 0], w[:, 3] * x[0, 0] + bias)
    convolution.ablation = "bypass"
    assert torch.equal(convolution(x), x)
    convolution.ablation = "current_tap"
    torch.testing.assert_close(convolution(x), w[:, 3] * x + bias)


@both
def test_model_without_convolution_is_the_model_with_it_bypassed(kind):
    """The matched backend: one code path, so that nothing but the convolution differs."""
    model, without, tokens = build(kind), build(kind, conv1d=False), draw_tokens(3, 12)
    missing = without.load_state_dict(model.state_dict(), strict=False)
    assert all("conv1d" in name for name in missing.unexpected_keys)
    assert model.components == {"mixer": ("zero",), "conv1d": ("bypass", "current_tap")}
    assert without.components == {"mixer": ("zero",)}
    assert not torch.equal(model(tokens), without(tokens))
    for convolution in model.ablatable("conv1d"):
        convolution.ablation = "bypass"
    assert torch.equal(model(tokens), without(tokens))


@both
def test_zeroed_mixers_leave_the_embedding(kind):
    model, tokens = build(kind), draw_tokens(3, 12)
    for mixer in model.ablatable("mixer"):
        mixer.ablation = "zero"
    assert torch.equal(model(tokens), model.head(model.embed(tokens)))


@both
@pytest.mark.parametrize("component", ["mixer", "conv1d"])
def test_every_ablatable_part_is_called_once_a_block(kind, component):
    model, calls = build(kind, blocks=3), []
    for part in model.ablatable(component):
        part.register_forward_hook(lambda module, *_: calls.append(module))
    model(draw_tokens(2, 4))
    assert calls == model.ablatable(component)
    assert len(calls) == 3


@both
@pytest.mark.parametrize("at", [0, 40, 63, 64, 99])
def test_a_changed_token_changes_nothing_before_it(kind, at):
    model, tokens = build(kind), draw_tokens(2, 100)
    before = model(tokens)
    tokens[:, at] = (tokens[:, at] + 1) % VOCABULARY
    after = model(tokens)
    torch.testing.assert_close(after[:, :at], before[:, :at], rtol=0, atol=1e-6)
    assert not torch.allclose(after[:, at], before[:, at], rtol=0, atol=1e-4)


@both
def test_gives_the_same_bytes_twice(kind):
    model, tokens = build(kind), draw_tokens(2, 100)
    assert torch.equal(model(tokens), model(tokens))


def test_channels_need_not_fill_whole_vectors():
    model = build("mamba", width=10, expand=1.7)
    model(draw_tokens(2, 5)).sum().backward()
    assert model.blocks[0].mixer.A_log.grad.shape == (17, 16)


@pytest.mark.parametrize("rank", [0, "automatic", 2.5])
def test_rank_of_the_step_size_is_checked(rank):
    with pytest.raises(AdapterError, match="dt_rank"):
        build("mamba", dt_rank=rank)


def test_heads_that_do_not_divide_the_channels_are_refused():
    with pytest.raises(AdapterError, match="32 inner channels"):
        build("mamba2", headdim=20)
