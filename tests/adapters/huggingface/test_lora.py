"""Low-rank updates: the head and the updates are trained, and none is put where no pass goes through it."""

import numpy as np
import pytest
import torch
from layerstate.adapters import AdapterError, load_weights, save_weights

from .test_families import build

LORA = {"rank": 2, "alpha": 4.0, "dropout": 0.0, "targets": None}
TOKENS = np.random.default_rng(0).integers(0, 4, (3, 6))


def trainable(adapter):
    return {name for name, parameter in adapter.module.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize(
    ("family", "backend"), [("gpt2", "transformers"), ("llama", "transformers"), ("mamba", "matched")]
)
def test_what_is_trained_and_nothing_is_changed_at_first(family, backend, checkpoints):
    plain, adapter = (build(checkpoints(family), backend=backend, lora=lora) for lora in (None, LORA))
    names = trainable(adapter)
    assert all("lora_" in name or name.startswith("head.") for name in names)
    assert any(name.startswith("head.") and name.endswith("weight") for name in names)
    if backend == "transformers":
        adapter.module.head.load_state_dict(plain.module.head.state_dict())
    else:
        adapter.module.head[1].load_state_dict(plain.module.head[1].state_dict())
    assert np.allclose(plain.logits(TOKENS), adapter.logits(TOKENS), atol=1e-6)


@pytest.mark.parametrize(("family", "backend"), [("gpt2", "transformers"), ("mamba", "matched"), ("mamba2", "matched")])
def test_every_update_is_reached_in_training(family, backend, checkpoints):
    adapter = build(checkpoints(family), backend=backend, lora=LORA)
    adapter.module.train()
    adapter.module(torch.as_tensor(TOKENS)).square().sum().backward()
    updates = {n: p.grad for n, p in adapter.module.named_parameters() if "lora_B" in n}
    assert updates
    assert all(gradient is not None and bool((gradient != 0).any()) for gradient in updates.values())


def test_targets_that_are_not_there_or_not_called(checkpoints):
    named = build(checkpoints("llama"), lora=LORA | {"targets": ["q_proj", "v_proj"]})
    assert {name.split(".")[-4] for name in trainable(named) if "lora_" in name} <= {"q_proj", "v_proj", "self_attn"}
    with pytest.raises(AdapterError, match=r"training.lora.targets: 'query' is no linear map of the blocks. There are"):
        build(checkpoints("llama"), lora=LORA | {"targets": ["query"]})
    with pytest.raises(AdapterError, match=r"training.lora.targets: layers.0.mixer.dt_proj is never called"):
        build(checkpoints("mamba"), lora=LORA | {"targets": ["in_proj", "dt_proj"]})
    with pytest.raises(AdapterError, match=r"'out_proj' is incompatible.*the matched backend has no such limit"):
        build(checkpoints("mamba"), lora=LORA)
    assert trainable(build(checkpoints("mamba"), lora=LORA | {"targets": ["in_proj", "x_proj"]}))


def test_weights_come_back_from_their_file(checkpoints, tmp_path):
    adapter, other = (build(checkpoints("gpt2"), lora=LORA) for _ in range(2))
    with torch.no_grad():
        for parameter in adapter.module.parameters():
            if parameter.requires_grad:
                parameter += 0.1
    save_weights(adapter, tmp_path / "weights.safetensors")
    load_weights(other, tmp_path / "weights.safetensors")
    assert np.array_equal(adapter.logits(TOKENS), other.logits(TOKENS))
