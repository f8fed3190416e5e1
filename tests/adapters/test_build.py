import numpy as np
import pytest
import torch
from layerstate.adapters import VERSIONS, AdapterError, adapter_version, build_adapter, load_weights, save_weights
from layerstate.adapters.module import ModuleAdapter
from safetensors.torch import load_file
from torch import nn

LSTM = {"architecture": {"type": "lstm", "blocks": 2, "width": 8, "hidden": 8}}


def build(seed=0, options=LSTM, **changes):
    return build_adapter(
        **{"adapter": "reference", "options": options, "vocab_size": 3, "classes": 4, "seed": seed} | changes
    )


def weights(adapter):
    return torch.cat([value.flatten() for value in adapter.module.state_dict().values()])


@pytest.mark.parametrize("kind", ["transformer", "mamba", "mamba2", "lstm", "gru"])
def test_initial_weights_are_a_function_of_the_seed(kind):
    sizes = {"lstm": {"hidden": 8}, "gru": {"hidden": 8}}.get(kind, {})
    options = {"architecture": {"type": kind, "blocks": 2, "width": 32, **sizes}}
    torch.manual_seed(1)
    first = weights(build(0, options))
    torch.manual_seed(2)
    assert torch.equal(weights(build(0, options)), first)
    assert not torch.equal(weights(build(1, options)), first)


def test_building_leaves_the_global_generator_alone():
    state = torch.random.get_rng_state()
    build()
    assert torch.equal(torch.random.get_rng_state(), state)
    with pytest.raises(AdapterError):
        build(options={"architecture": {"type": "nothing"}})
    assert torch.equal(torch.random.get_rng_state(), state)


def test_the_options_are_not_changed():
    options = {"architecture": dict(LSTM["architecture"])}
    build(options=options)
    assert options == LSTM


def test_the_version_is_that_of_the_adapter():
    assert {name: adapter_version(name) for name in VERSIONS} == VERSIONS
    assert build().version == VERSIONS["reference"]


def test_an_unknown_adapter_or_device_is_an_error():
    with pytest.raises(AdapterError, match="Did you mean reference"):
        build(adapter="refrence")
    with pytest.raises(AdapterError, match="no device 'gpu'"):
        build(device="gpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_without_cuda_is_an_error():
    with pytest.raises(AdapterError, match="Use cpu"):
        build(device="cuda")


def test_weights_come_back_from_a_file(tmp_path):
    first, second = build(0), build(1)
    save_weights(first, tmp_path / "weights.safetensors")
    assert [file.name for file in tmp_path.iterdir()] == ["weights.safetensors"]
    load_weights(second, tmp_path / "weights.safetensors")
    tokens = np.array([[0, 1, 2]])
    np.testing.assert_array_equal(first.logits(tokens), second.logits(tokens))


class Tied(nn.Module):
    """Embedding and readout are one tensor."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(4, 4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4)])
        self.head = nn.Linear(4, 4, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.blocks[0](self.embed(tokens)))


def test_shared_tensors_are_written_once_and_stay_shared(tmp_path):
    first, second = (ModuleAdapter.from_blocks(Tied(), classes=4) for _ in range(2))
    save_weights(first, tmp_path / "w")
    assert set(load_file(tmp_path / "w")) == {"embed.weight", "blocks.0.weight", "blocks.0.bias"}
    load_weights(second, tmp_path / "w")
    assert torch.equal(weights(first), weights(second))
    assert second.module.head.weight is second.module.embed.weight


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden": 4}, r"Of another shape: blocks\.0\.mixer\.rnn\.weight_ih_l0 is \(32, 8\), the model's \(16, 8\)"),
        ({"blocks": 3}, r"Missing: blocks\.2\.norm\.weight"),
        ({"blocks": 1}, r"Unknown: blocks\.1"),
    ],
)
def test_weights_of_another_model_are_an_error_and_change_nothing(tmp_path, change, said):
    save_weights(build(0), tmp_path / "w")
    other = build(1, {"architecture": LSTM["architecture"] | change})
    before = weights(other)
    with pytest.raises(AdapterError, match=said):
        load_weights(other, tmp_path / "w")
    assert torch.equal(weights(other), before)


@pytest.mark.parametrize("content", [b"", b"not weights", None])
def test_a_missing_or_damaged_file_is_an_error(tmp_path, content):
    if content is not None:
        (tmp_path / "w").write_bytes(content)
    with pytest.raises(AdapterError, match="can't be read as weights"):
        load_weights(build(), tmp_path / "w")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    save_weights(build(0), tmp_path / "w")
    before = (tmp_path / "w").read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_weights(build(1), tmp_path / "w")
    assert (tmp_path / "w").read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["w"]
