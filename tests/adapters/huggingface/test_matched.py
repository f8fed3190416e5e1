"""The matched backend computes what transformers does, with the checkpoint's weights in our own blocks."""

import json
import shutil

import numpy as np
import pytest
import torch
from layerstate.adapters import AdapterError
from layerstate.adapters.huggingface.checkpoint import Checkpoint
from layerstate.adapters.huggingface.matched import load_state_space, read_weights, state_space_options
from layerstate.adapters.reference.mamba import Mamba
from layerstate.adapters.reference.mamba2 import Mamba2
from layerstate.adapters.reference.state_space import to_mamba_ssm, to_transformers
from safetensors.torch import save_file

from .families import make_config
from .test_families import SYMBOLS, build

TOKENS = np.random.default_rng(0).integers(0, 4, (4, 30))
both = pytest.mark.parametrize("family", ["mamba", "mamba2"])


def pair(folder):
    """The two backends of a checkpoint with one head."""
    theirs, ours = build(folder), build(folder, backend="matched")
    with torch.no_grad():
        theirs.module.head.bias.zero_()
        ours.module.head[1].weight.copy_(theirs.module.head.weight)
    return theirs, ours


@both
def test_logits_agree(family, checkpoints):
    theirs, ours = pair(checkpoints(family))
    difference = np.abs(theirs.logits(TOKENS) - ours.logits(TOKENS)).max()
    assert difference <= 1e-4, difference
    assert theirs.sites == ours.sites
    expected = theirs.capture(TOKENS)
    for site, found in ours.capture(TOKENS).items():
        assert np.abs(found - expected[site]).max() <= 1e-4, site


@both
@pytest.mark.parametrize(("component", "mode"), [("conv1d", "bypass"), ("conv1d", "current_tap"), ("mixer", "zero")])
def test_ablations_agree(family, component, mode, checkpoints):
    """In transformers the taps are ablated, in our blocks the convolution: both are the same intervention."""
    found = []
    for adapter in pair(checkpoints(family)):
        with adapter.ablate(component, mode):
            found.append(adapter.logits(TOKENS))
    assert np.abs(found[0] - found[1]).max() <= 1e-4


@both
def test_language_model_logits_agree(family, checkpoints):
    from transformers import AutoModelForCausalLM

    folder = checkpoints(family)
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    checkpoint = Checkpoint(folder, "it")
    kind, options = state_space_options(checkpoint.config(), "it")
    ours = load_state_space(kind, options, read_weights(checkpoint), torch.arange(12), 12, "it")
    ours.head[1].weight.data = theirs.lm_head.weight.data
    tokens = torch.as_tensor(np.random.default_rng(1).integers(0, 12, (3, 25)))
    with torch.no_grad():
        assert (theirs(tokens, use_cache=False).logits - ours(tokens)).abs().max() <= 1e-4


MAMBA_SSM = {
    "mamba": ({"d_model": 32, "n_layer": 3, "ssm_cfg": {"d_state": 4}}, Mamba),
    "mamba2": ({"d_model": 32, "n_layer": 3, "ssm_cfg": {"layer": "Mamba2", "d_state": 4, "headdim": 16}}, Mamba2),
}


@both
def test_a_checkpoint_of_mamba_ssm_is_read_by_its_own_names(family, checkpoints, tmp_path):
    config, kind = MAMBA_SSM[family]
    ours = build(checkpoints(family), backend="matched")
    state = to_mamba_ssm(ours.module.state_dict())
    embedding = torch.randn(12, 32)
    embedding[torch.tensor(SYMBOLS)] = state["backbone.embedding.weight"]
    state |= {"backbone.embedding.weight": embedding, "lm_head.weight": embedding.clone()}
    save_file({name: value.contiguous() for name, value in state.items()}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config | {"rms_norm": True, "attn_layer_idx": []}))
    read = build(tmp_path, backend="matched")
    assert isinstance(read.module, kind)
    read.module.head[1].weight.data = ours.module.head[1].weight.data
    assert np.array_equal(read.logits(TOKENS), ours.logits(TOKENS))


@both
def test_state_dicts_have_the_names_and_shapes_of_transformers(family, checkpoints):
    from transformers import AutoModelForCausalLM

    theirs = AutoModelForCausalLM.from_config(make_config(family)).state_dict()
    ours = build(checkpoints(family), list(range(12)), backend="matched")
    ours.module.head[1] = torch.nn.Linear(32, 12, bias=False)
    given = to_transformers(ours.module.state_dict())
    assert {name: value.shape for name, value in given.items()} == {name: value.shape for name, value in theirs.items()}


@pytest.mark.parametrize(
    ("family", "changes", "message"),
    [
        ("llama", {}, "of the kind 'llama'; the matched backend has mamba and mamba2"),
        ("mamba", {"use_bias": True}, "use_bias: True, and the matched backend False"),
        ("mamba2", {"n_groups": 2}, "n_groups: 2, and the matched backend 1"),
        ("mamba2", {"time_step_limit": [0.1, 1.0]}, r"time_step_limit: \[0.1, 1.0\], and the matched backend no limit"),
        ("mamba2", {"num_heads": 3}, "3 heads of 16 are not the 64 inner channels"),
        ("mamba", {"state_size": 5}, "its weights don't fit its config: .*A_log is"),
        ("mamba", {"num_hidden_layers": 4}, "blocks.3.*is missing"),
    ],
)
def test_what_the_blocks_lack_is_refused(family, changes, message, checkpoints, tmp_path):
    folder = shutil.copytree(checkpoints(family), tmp_path / "changed")
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(AdapterError, match=message):
        build(folder, backend="matched")
