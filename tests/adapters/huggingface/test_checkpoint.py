"""A checkpoint is whole, in safetensors and of the right kind, or it is refused with what to do."""

import json
import shutil

import httpx2
import pytest
from huggingface_hub import errors
from layerstate.adapters import AdapterError, checkpoint_digest

from .conftest import save
from .test_families import build

HUB = {"repo": "someone/some-model", "revision": "abc123"}


@pytest.fixture
def folder(checkpoints, tmp_path):
    return shutil.copytree(checkpoints("llama"), tmp_path / "copy")


def test_what_is_not_there(folder, tmp_path):
    with pytest.raises(AdapterError, match="there is no folder"):
        build(tmp_path / "nowhere")
    (folder / "model.safetensors").unlink()
    with pytest.raises(AdapterError, match=r"there are no weights in .*A download may have stopped half-way"):
        build(folder)
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(AdapterError, match=r"its weights are in pytorch_model.bin, and layerstate reads"):
        build(folder)
    (folder / "config.json").unlink()
    with pytest.raises(AdapterError, match=r"there is no config.json in"):
        build(folder)


@pytest.mark.parametrize("backend", ["transformers", "matched"])
def test_weights_that_are_cut_off(backend, checkpoints, tmp_path):
    folder = shutil.copytree(checkpoints("mamba"), tmp_path / "copy")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(AdapterError, match=r"model.safetensors is damaged or cut off .*Download it again"):
        build(folder, backend=backend)


def test_a_shard_that_is_missing(tmp_path):
    from .families import make_model

    make_model("llama", head=True).save_pretrained(tmp_path, max_shard_size="40KB")
    shards = sorted(tmp_path.glob("*.safetensors"))
    assert len(shards) > 1
    assert build(tmp_path).sites[-1] == "block.2"
    shards[1].unlink()
    with pytest.raises(AdapterError, match=f"{shards[1].name} of {len(shards)} files of weights are missing"):
        build(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_layers": 5}, r"its weights lack layers.3.*in all\), which would be left at random"),
        ({"intermediate_size": 65}, "can't be loaded: .*mismatch"),
        ({"model_type": "nothing-known"}, "can't be loaded: .*nothing-known"),
    ],
)
def test_a_config_that_does_not_fit(changes, message, folder):
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(AdapterError, match=message):
        build(folder)


def test_a_config_that_is_no_json(folder):
    (folder / "config.json").write_text("{")
    with pytest.raises(AdapterError, match=r"config.json can't be read"):
        build(folder)


CODE = """
import torch
from transformers import LlamaConfig, LlamaModel

class OwnConfig(LlamaConfig):
    model_type = "own-kind"

class OwnModel(LlamaModel):
    config_class = OwnConfig
"""


def test_code_of_a_checkpoint_runs_only_when_a_person_says_so(folder):
    from layerstate.adapters import build_adapter

    (folder / "own.py").write_text(CODE + "\nopen(__file__ + '.ran', 'w').close()\n")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own-kind", "auto_map": {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"}}
    (folder / "config.json").write_text(json.dumps(config))
    options = {"checkpoint": {"folder": str(folder)}, "symbols": [1, 2]}
    with pytest.raises(AdapterError, match=r"brings its own Python code, which is not run.*--trust-remote-code"):
        build_adapter("huggingface", options, vocab_size=2, classes=2, seed=0)
    adapter = build_adapter("huggingface", options, vocab_size=2, classes=2, seed=0, trust_remote_code=True)
    assert type(adapter.module.backbone).__name__ == "OwnModel"


def response(status):
    return httpx2.Response(status, request=httpx2.Request("GET", "https://huggingface.co/api"))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (errors.GatedRepoError("no", response=response(403)), "someone/some-model is gated: accept its terms"),
        (
            errors.RepositoryNotFoundError("no", response=response(404)),
            "There is no model someone/some-model on",
        ),
        (errors.RevisionNotFoundError("no", response=response(404)), "someone/some-model has no revision 'abc123'"),
        (
            errors.LocalEntryNotFoundError("no"),
            r"can't be downloaded .*hf download \S+ --revision abc123",
        ),
        (errors.OfflineModeIsEnabled("no"), "the cache is under HF_HOME"),
        (OSError(28, "No space left on device"), "The disk of the cache .* is full"),
    ],
)
def test_what_the_hub_says_comes_in_words(error, message, monkeypatch):
    import huggingface_hub

    def fails(*_, local_files_only=False, **__):
        raise errors.LocalEntryNotFoundError("not cached") if local_files_only else error

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fails)
    from layerstate.adapters import build_adapter

    with pytest.raises(AdapterError, match=message):
        build_adapter("huggingface", {"checkpoint": HUB, "symbols": [1, 2]}, vocab_size=2, classes=2, seed=0)


def test_a_whole_snapshot_in_the_cache_needs_no_network(folder, monkeypatch):
    import huggingface_hub
    from layerstate.adapters import build_adapter

    asked = []

    def cached(*arguments, **options):
        asked.append(options.get("local_files_only", False))
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", cached)
    build_adapter("huggingface", {"checkpoint": HUB, "symbols": [1, 2]}, vocab_size=2, classes=2, seed=0)
    assert asked == [True]
    weights = folder / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[: len(whole) // 2])

    def repaired(*arguments, **options):
        asked.append(options.get("local_files_only", False))
        if not asked[-1]:
            weights.write_bytes(whole)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", repaired)
    build_adapter("huggingface", {"checkpoint": HUB, "symbols": [1, 2]}, vocab_size=2, classes=2, seed=0)
    assert asked == [True, True, False]


def test_the_digest_is_that_of_the_files(folder, tmp_path):
    def digest(where):
        return checkpoint_digest({"folder": str(where)}, tmp_path)

    before = digest(folder)
    assert digest(shutil.copytree(folder, tmp_path / "again")) == before
    (folder / "README.md").write_text("Not part of it.")
    assert digest(folder) == before
    (folder / "config.json").write_text((folder / "config.json").read_text() + "\n")
    assert digest(folder) != before
    assert checkpoint_digest(HUB, tmp_path) is None
    save(tmp_path / "other", "gpt2")
    assert digest(tmp_path / "other") != before
