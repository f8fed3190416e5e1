"""mamba_ssm's mixers in our residual stack: what its absence says, and how stand-ins of its names are wrapped."""

import json

import numpy as np
import pytest
import torch
from layerstate.adapters import AdapterError, build_adapter, check
from layerstate.adapters import mamba_ssm as backend
from layerstate.adapters.reference.mamba import Mamba
from layerstate.adapters.reference.mamba2 import Mamba2
from safetensors.torch import save_file
from torch import nn

ARCHITECTURE = {"type": "mamba", "blocks": 2, "width": 16, "expand": 2.0, "state_size": 4, "conv_kernel": 4}
ARCHITECTURE |= {"conv1d": True}
OPTIONS = {"mamba": {"blocks": 2, "width": 16, "state_size": 4}}
OPTIONS["mamba2"] = OPTIONS["mamba"] | {"headdim": 16}
KINDS = {"mamba": Mamba, "mamba2": Mamba2}


class StandIn(nn.Module):
    """A mixer with the names of mamba_ssm: its convolution is an nn.Conv1d, read without being called."""

    def __init__(self, kind, options):
        super().__init__()
        inner = KINDS[kind](2, 2, **(options | {"blocks": 1})).blocks[0].mixer
        for name, part in list(inner.named_children()):
            if name != "conv1d":
                setattr(self, name, part)
        for name, parameter in list(inner.named_parameters(recurse=False)):
            setattr(self, name, parameter)
        channels, _, taps = inner.conv1d.weight.shape
        self.conv1d = nn.Conv1d(channels, channels, taps, groups=channels, padding=taps - 1)
        self._inner = [inner]

    def forward(self, h_BLD):
        inner = self._inner[0]
        inner.conv1d._parameters["weight"] = self.conv1d.weight
        inner.conv1d._parameters["bias"] = self.conv1d.bias
        return inner(h_BLD)


@pytest.fixture(params=["mamba", "mamba2"])
def wrapped(request):
    torch.manual_seed(0)
    options = OPTIONS[request.param]
    return request.param, backend.wrap_mixers(lambda *_: StandIn(request.param, options), options, 3, 4, device="cpu")


def test_without_cuda_it_says_what_to_use():
    with pytest.raises(AdapterError, match=r"computes on CUDA only, and the device is cpu. `adapter: reference` has"):
        build_adapter("mamba_ssm", {"architecture": ARCHITECTURE}, vocab_size=3, classes=4, seed=0)


def test_without_the_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "mamba_ssm", None)
    with pytest.raises(AdapterError, match=r"mamba_ssm can't be imported .*: install layerstate\[mamba\]"):
        backend.build_mamba_ssm(
            {"architecture": ARCHITECTURE}, vocab_size=3, classes=4, device=torch.device("cuda"), base=".", version=1
        )


def test_updates_that_no_kernel_reads_are_refused():
    with pytest.raises(AdapterError, match="low-rank updates never reach"):
        backend.build_mamba_ssm(
            {"architecture": ARCHITECTURE, "lora": {"rank": 2}},
            vocab_size=3,
            classes=4,
            device=torch.device("cuda"),
            base=".",
            version=1,
        )


def test_the_stack_conforms_and_its_taps_are_ablated(wrapped):
    _, adapter = wrapped
    assert adapter.components == {"mixer": ("zero",), "conv1d": ("bypass", "current_tap")}
    results = check(adapter, 3, length=6, rng=np.random.default_rng(0))
    assert [result.message for result in results if not result.passed] == []
    assert all(result.difference > 0.0 for result in results if result.name == "ablation")


def test_weights_go_from_one_backend_to_the_other(wrapped):
    kind, adapter = wrapped
    ours = KINDS[kind](3, 4, **OPTIONS[kind])
    theirs = adapter.module.state_dict()
    assert {name: value.shape for name, value in theirs.items()} == {
        name: value.shape for name, value in ours.state_dict().items()
    }
    ours.load_state_dict(theirs)
    tokens = torch.randint(3, (2, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert (ours(tokens) - adapter.module(tokens)).abs().max() <= 1e-5


class Package:
    """What `import mamba_ssm` would give: mixers called with its own argument names."""

    def __init__(self):
        self.calls = []

    def Mamba(self, width, **options):
        self.calls.append((width, options))
        named = {"state_size": options["d_state"], "conv_kernel": options["d_conv"], "expand": options["expand"]}
        return StandIn("mamba", {"blocks": 1, "width": width} | named)


def test_a_checkpoint_of_its_own_is_loaded(monkeypatch, tmp_path):
    package = Package()
    monkeypatch.setitem(__import__("sys").modules, "mamba_ssm", package)
    ours = Mamba(6, 2, **OPTIONS["mamba"])
    names = {"embed.weight": "backbone.embedding.weight", "head.0.weight": "backbone.norm_f.weight"}
    names |= {"head.1.weight": "lm_head.weight"}
    state = {names.get(n, f"backbone.layers.{n.removeprefix('blocks.')}"): v for n, v in ours.state_dict().items()}
    save_file({name: value.contiguous() for name, value in state.items()}, tmp_path / "model.safetensors")
    config = {"d_model": 16, "n_layer": 2, "vocab_size": 6, "ssm_cfg": {"d_state": 4}, "rms_norm": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    real = torch.device("cuda")
    monkeypatch.setattr(backend, "wrap_mixers", lambda *a, device, **k: wrap(*a, device="cpu", **k))
    adapter = backend.build_mamba_ssm(
        {"checkpoint": {"folder": str(tmp_path)}, "symbols": [5, 0, 2]},
        vocab_size=3,
        classes=2,
        device=real,
        base=tmp_path,
        version=1,
    )
    expected = {"d_state": 4, "d_conv": 4, "expand": 2, "dt_rank": "auto"}
    assert package.calls == [(16, {"layer_idx": number} | expected) for number in (0, 1)]
    adapter.module.head[1].weight.data = ours.head[1].weight.data
    tokens = np.array([[0, 1, 2, 1]])
    with torch.no_grad():
        wanted = ours(torch.tensor([5, 0, 2])[torch.as_tensor(tokens)])
    assert np.allclose(adapter.logits(tokens), wanted.numpy(), atol=1e-5)


wrap = backend.wrap_mixers
