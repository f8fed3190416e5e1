"""Any causal language model of transformers: its blocks, norm and components are found, and it conforms."""

import numpy as np
import pytest
import torch
from layerstate.adapters import AdapterError, build_adapter, check

from .families import CONFIGS, make_model

SYMBOLS = [3, 5, 7, 1]
ATTENDS, MIXES = {"mixer", "attention", "mlp"}, {"mixer", "conv1d"}
COMPONENTS = {
    "mamba": MIXES,
    "mamba2": MIXES,
    "falcon_mamba": MIXES,
    "gpt_neox": ATTENDS,
    "gpt2": ATTENDS,
    "llama": ATTENDS,
    "qwen2": ATTENDS,
    "qwen3": ATTENDS,
    "recurrent_gemma": ATTENDS | MIXES,
    "jamba": ATTENDS | MIXES,
    "zamba": ATTENDS | MIXES,
    "rwkv": {"mixer"},
    "xlstm": {"mixer"},
    "opt": {"mixer", "attention"},
}
BLOCKS = {"jamba": 4, "zamba": 6}


def build(folder, symbols=SYMBOLS, **options):
    options = {"checkpoint": {"folder": str(folder)}, "symbols": symbols} | options
    return build_adapter("huggingface", options, vocab_size=len(symbols), classes=3, seed=0)


@pytest.mark.parametrize("family", CONFIGS)
def test_a_family_conforms(family, checkpoints):
    adapter = build(checkpoints(family))
    assert adapter.sites == ("embed", *(f"block.{i}" for i in range(BLOCKS.get(family, 3))))
    assert set(adapter.components) == COMPONENTS[family]
    results = check(adapter, len(SYMBOLS), length=6, rng=np.random.default_rng(0))
    assert [result.message for result in results if not result.passed] == []
    ablations = {result.site: result.difference for result in results if result.name == "ablation"}
    assert all(difference > 0.0 for difference in ablations.values()), ablations


@pytest.mark.parametrize("family", ["mamba", "gpt_neox", "gpt2", "llama", "recurrent_gemma", "zamba"])
def test_a_site_is_the_residual_stream_between_blocks(family, checkpoints):
    """`embed` is what enters the first block, and `block.i` what block i gives, before the final norm."""
    adapter = build(checkpoints(family))
    backbone = adapter.module.backbone
    ids = torch.tensor(SYMBOLS)[torch.tensor([[0, 1, 2, 3, 1]])]
    seen = {}

    def enter(module, arguments, keywords):
        seen["embed"] = (arguments or (keywords["hidden_states"],))[0].clone()

    theirs = make_model(family).eval()
    theirs.load_state_dict(
        {k: v for k, v in backbone.state_dict().items() if v.shape == theirs.state_dict()[k].shape}, strict=False
    )
    blocks = next(m for n, m in theirs.named_modules() if n.rpartition(".")[2] in ("layers", "h", "blocks"))
    blocks[0].register_forward_pre_hook(enter, with_kwargs=True)
    blocks[-1].register_forward_hook(
        lambda module, arguments, output: seen.update(last=output if isinstance(output, torch.Tensor) else output[0])
    )
    embedding = theirs.get_input_embeddings().weight.data
    embedding[torch.tensor(SYMBOLS)] = backbone.get_input_embeddings().weight.data
    with torch.no_grad():
        theirs(input_ids=ids, use_cache=False)
    found = adapter.capture(np.array([[0, 1, 2, 3, 1]]))
    assert np.allclose(found["embed"], seen["embed"].numpy(), atol=1e-6)
    assert np.allclose(found[adapter.sites[-1]], seen["last"].numpy(), atol=1e-5)


def test_hooks_on_conv1d_never_fire_in_transformers_and_the_taps_are_ablated_all_the_same(checkpoints):
    adapter = build(checkpoints("mamba"))
    tokens = np.random.default_rng(0).integers(0, 4, (3, 7))
    fired = []
    for block in adapter.module.backbone.layers:
        block.mixer.conv1d.register_forward_hook(lambda *_: fired.append(1))
    clean = adapter.logits(tokens)
    assert fired == []
    with adapter.ablate("conv1d", "bypass") as counts:
        ablated = adapter.logits(tokens)
    assert counts.counts == {"conv1d": 3}
    assert np.abs(clean - ablated).max() > 1e-3
    assert np.array_equal(adapter.logits(tokens), clean)


def test_only_the_rows_of_the_symbols_are_kept(checkpoints):
    adapter = build(checkpoints("llama"))
    whole = make_model("llama")
    assert adapter.module.backbone.get_input_embeddings().weight.shape[0] == len(SYMBOLS)
    kept = sum(parameter.numel() for parameter in adapter.module.backbone.parameters())
    assert kept == sum(parameter.numel() for parameter in whole.parameters()) - (12 - 4) * 32


def test_the_head_alone_depends_on_the_seed(checkpoints):
    options = {"checkpoint": {"folder": str(checkpoints("gpt_neox"))}, "symbols": SYMBOLS}
    first, same, other = (
        build_adapter("huggingface", options, vocab_size=4, classes=3, seed=seed).module.state_dict()
        for seed in (0, 0, 1)
    )
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert {name for name in first if not torch.equal(first[name], other[name])} == {"head.weight", "head.bias"}


def test_an_encoder_is_refused_as_it_looks_ahead(tmp_path):
    from transformers import BertConfig, BertModel

    sizes = {"vocab_size": 12, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    BertModel(BertConfig(**sizes, intermediate_size=64)).save_pretrained(tmp_path)
    results = check(build(tmp_path), 4, length=6, rng=np.random.default_rng(0))
    (causal,) = [result for result in results if result.name == "causal"]
    assert not causal.passed
    assert "as encoders do" in causal.message


def test_a_decoder_with_the_same_blocks_is_not(tmp_path):
    from transformers import BertConfig, BertModel

    sizes = {"vocab_size": 12, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    BertModel(BertConfig(**sizes, intermediate_size=64, is_decoder=True)).save_pretrained(tmp_path)
    results = check(build(tmp_path), 4, length=6, rng=np.random.default_rng(0))
    assert next(result for result in results if result.name == "causal").passed


def test_an_encoder_decoder_is_refused_before_its_weights_are_read(tmp_path):
    from transformers import T5Config, T5Model

    T5Model(T5Config(vocab_size=12, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2)).save_pretrained(tmp_path)
    with pytest.raises(AdapterError, match=r"encoder-decoder .t5.*its encoder sees the whole sequence"):
        build(tmp_path)


def test_names_in_the_spec_go_before_what_is_found(checkpoints):
    folder = checkpoints("gpt_neox")
    named = build(folder, sites={"blocks": ["layers.0", "layers.1", "layers.2"], "norm": "final_layer_norm"})
    tokens = np.array([[0, 1, 2, 3]])
    assert np.array_equal(named.logits(tokens), build(folder).logits(tokens))
    assert build(folder, components={"dense": "layers.*.mlp.dense_h_to_4h"}).components["dense"] == ("zero",)
    with pytest.raises(AdapterError, match=r"sites.norm: layers.0.mlp applied to the last block's output"):
        build(folder, sites={"norm": "layers.0.mlp"})
    with pytest.raises(AdapterError, match=r"sites.blocks: no submodule is called 'layer.\*'. Did you mean"):
        build(folder, sites={"blocks": "layer.*"})
