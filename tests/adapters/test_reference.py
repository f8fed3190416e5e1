import numpy as np
import pytest
import torch
from layerstate.adapters import AdapterError, build_adapter, check
from layerstate.adapters.reference import ARCHITECTURES, build
from layerstate.adapters.reference.transformer import rotate
from torch import nn

SIZES = {
    "transformer": {},
    "transformer_rope": {"positions": "rotary"},
    "transformer_nope": {"positions": "none"},
    "mamba": {},
    "mamba_no_conv1d": {"conv1d": False},
    "mamba2": {},
    "mamba2_no_conv1d": {"conv1d": False},
    "lstm": {"hidden": 24},
    "gru": {"hidden": 24},
}


def adapt(name, blocks=3, width=32, **options):
    architecture = {"type": name.partition("_")[0], "blocks": blocks, "width": width, **SIZES[name], **options}
    return build_adapter("reference", {"architecture": architecture}, vocab_size=5, classes=4, seed=0)


@pytest.fixture
def tokens():
    return np.random.default_rng(0).integers(0, 5, (4, 9))


@pytest.mark.parametrize("name", SIZES)
def test_every_reference_model_passes_the_conformance_check(name):
    results = check(adapt(name), 5, length=9, rng=np.random.default_rng(0))
    assert all(result.passed for result in results), [result.message for result in results if not result.passed]


@pytest.mark.parametrize("name", SIZES)
def test_sites_mean_the_same_in_every_architecture(name, tokens):
    """block.i is the stream after block i, before the final norm; n blocks give n + 1 sites."""
    adapter = adapt(name)
    model = adapter.module
    captured = adapter.capture(tokens)
    assert list(captured) == ["embed", "block.0", "block.1", "block.2"]
    with torch.no_grad():
        h_BLD = model.embed(torch.as_tensor(tokens))
        np.testing.assert_allclose(captured["embed"], h_BLD, atol=1e-6)
        for index, block in enumerate(model.blocks):
            h_BLD = block(h_BLD)
            np.testing.assert_allclose(captured[f"block.{index}"], h_BLD, atol=1e-6)
        np.testing.assert_allclose(adapter.logits(tokens), model.head(h_BLD), atol=1e-6)
    norm, readout = model.head
    assert isinstance(norm, nn.LayerNorm | nn.RMSNorm)
    assert isinstance(readout, nn.Linear)


@pytest.mark.parametrize("name", SIZES)
def test_every_ablation_fires_once_a_block_and_changes_the_logits(name, tokens):
    adapter = adapt(name)
    clean = adapter.logits(tokens)
    assert "mixer" in adapter.components
    for component, modes in adapter.components.items():
        for mode in modes:
            with adapter.ablate(component, mode) as fired:
                assert np.abs(adapter.logits(tokens) - clean).max() > 1e-4, f"{component}.{mode} changes nothing"
            assert fired.counts == {component: 3}
    np.testing.assert_array_equal(adapter.logits(tokens), clean)


@pytest.mark.parametrize("name", SIZES)
def test_without_mixers_a_position_knows_its_own_token_only(name, tokens):
    adapter = adapt(name)
    changed = tokens.copy()
    changed[:, 0] = (changed[:, 0] + 1) % 5
    assert np.abs(adapter.logits(changed) - adapter.logits(tokens))[:, 1:].max() > 0
    with adapter.ablate("mixer", "zero"):
        difference = adapter.logits(changed) - adapter.logits(tokens)
    np.testing.assert_array_equal(difference[:, 1:], 0)


@pytest.mark.parametrize("name", ["transformer", "transformer_rope", "transformer_nope"])
def test_attention_and_mlp_account_for_the_whole_block(name, tokens):
    adapter = adapt(name)
    assert adapter.components == {"mixer": ("zero",), "attention": ("zero",), "mlp": ("zero",)}
    with adapter.ablate("attention", "zero"), adapter.ablate("mlp", "zero"):
        captured = adapter.capture(tokens)
    np.testing.assert_array_equal(captured["block.2"], captured["embed"])


def test_learned_positions_end_with_a_clear_error():
    adapter = adapt("transformer", max_length=16)
    assert adapter.logits(np.zeros((1, 16), int)).shape == (1, 16, 4)
    with pytest.raises(
        AdapterError, match=r"17 tokens is longer than the 16 learned positions.*max_length to 17 or more"
    ):
        adapter.logits(np.zeros((1, 17), int))


@pytest.mark.parametrize("name", ["transformer_rope", "transformer_nope", "mamba", "mamba2", "lstm", "gru"])
def test_models_without_learned_positions_take_any_length(name):
    assert adapt(name).logits(np.zeros((1, 300), int)).shape == (1, 300, 4)


def test_rotary_attention_depends_on_the_distance_alone():
    q, k = torch.randn(2, 1, 1, 1, 8, generator=torch.Generator().manual_seed(0)).expand(2, 1, 1, 12, 8)
    scores = (rotate(q) @ rotate(k).transpose(-1, -2))[0, 0]
    for distance in range(12):
        along = scores.diagonal(-distance)
        assert torch.allclose(along, along[0].expand_as(along), atol=1e-4)
    assert scores.std() > 0.1
    assert torch.allclose(rotate(q).norm(dim=-1), q.norm(dim=-1), atol=1e-5)


def test_without_positions_equal_tokens_look_equal():
    tokens = np.full((1, 9), 2)
    same = adapt("transformer_nope").logits(tokens)[0]
    np.testing.assert_allclose(same, np.broadcast_to(same[0], same.shape), atol=1e-5)
    learned = adapt("transformer").logits(tokens)[0]
    assert np.abs(learned - learned[0]).max() > 1e-3


def test_the_transformer_starts_from_small_weights():
    model = build("transformer", {"blocks": 4, "width": 128}, 4, 4)
    for name, value in model.named_parameters():
        if value.ndim == 2 and value.numel() > 1000:
            assert value.std().item() == pytest.approx(0.02, rel=0.05), name
    assert all((part.bias == 0).all() for part in model.modules() if isinstance(part, nn.Linear))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_recurrent_model_carries_its_state_along_the_sequence(kind, tokens):
    adapter = adapt(kind)
    whole, prefix = adapter.logits(tokens), adapter.logits(tokens[:, :5])
    np.testing.assert_allclose(prefix, whole[:, :5], atol=1e-6)


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_a_recurrent_model_learns_parity_in_few_steps(kind):
    """A residual stream must not cost what a plain stack learns at once: XOR of the prefix, length 8."""
    model = adapt(kind, blocks=2, width=32, hidden=32).module
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    rng = torch.Generator().manual_seed(0)
    for _ in range(180):
        bits_BL = torch.randint(0, 2, (64, 8), generator=rng)
        loss = nn.functional.cross_entropy(model(bits_BL).flatten(0, 1), (bits_BL.cumsum(1) % 2).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    bits_BL = torch.randint(0, 2, (256, 8), generator=rng)
    assert (model(bits_BL).argmax(-1) == bits_BL.cumsum(1) % 2).float().mean() > 0.99


def test_unknown_types_and_options_are_errors_with_the_nearest():
    sizes = {"blocks": 2, "width": 8}
    for kind, options, said in [
        ("transfromer", {}, "Did you mean transformer"),
        ("rwkv", {}, ", ".join(sorted(ARCHITECTURES))),
        ("transformer", {"haeds": 2}, "no option 'haeds'. Did you mean heads"),
        ("lstm", {"heads": 2}, "no option 'heads'"),
        ("lstm", {}, "needs the option hidden"),
    ]:
        with pytest.raises(AdapterError, match=said):
            build(kind, sizes | options, 2, 2)
    with pytest.raises(AdapterError, match="needs the options blocks, width"):
        build("transformer", {}, 2, 2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"width": "128"}, "width .* is '128'; it takes a whole number from 1"),
        ({"width": True}, "width .* is True"),
        ({"blocks": 0}, "blocks .* is 0"),
        ({"blocks": 2.0}, "blocks .* is 2.0"),
        ({"positions": "rotray"}, "positions .* is 'rotray'; it takes one of learned, rotary, none"),
        ({"width": 10}, "width 10 can't be split over 4 heads. Choose a width that is a multiple of 4"),
        ({"width": 12, "positions": "rotary"}, "multiple of 8"),
    ],
)
def test_values_that_do_not_fit_are_errors(options, said):
    with pytest.raises(AdapterError, match=said):
        build("transformer", {"blocks": 2, "width": 8} | options, 2, 2)


def test_a_switch_takes_true_or_false_only():
    with pytest.raises(AdapterError, match=r"conv1d .* is 0; it takes true or false"):
        build("mamba", {"blocks": 1, "width": 8, "conv1d": 0}, 2, 2)
