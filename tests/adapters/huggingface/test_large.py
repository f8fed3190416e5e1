"""The shapes of the checkpoints that the pretrained suite names, with random weights, on two cores and in 8 GiB."""

import json
import subprocess
import sys

import pytest

CODE = """
import json, resource, sys, tempfile, time
from pathlib import Path
import numpy as np
import torch
torch.set_num_threads(1)
from transformers import AutoModelForCausalLM, GPTNeoXConfig, MambaConfig
from layerstate.adapters import build_adapter, check
from layerstate.suite.protocols import load_protocol
from layerstate.suite.runner.view import View
from layerstate.suite.spec.schema import TaskSpec
from layerstate.tasks import load_task

CONFIGS = {
    "matched": MambaConfig(hidden_size=768, num_hidden_layers=24, vocab_size=50280),
    "transformers": GPTNeoXConfig(
        hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072, vocab_size=50304
    ),
}
backend = sys.argv[1]
task_spec = TaskSpec.model_validate({
    "kind": "task", "name": "parity", "title": "P", "family": "parity", "structure": "prefix_update",
    "target": "parity", "states": ["parity"], "lengths": {"train": 6, "evaluate": [6]},
    "sizes": {"probe_train": 24, "probe_test": 12, "evaluate": 12},
})
started = time.monotonic()
with tempfile.TemporaryDirectory() as folder:
    with torch.no_grad():
        AutoModelForCausalLM.from_config(CONFIGS[backend]).save_pretrained(folder)
    options = {"checkpoint": {"folder": folder}, "symbols": [15, 16], "backend": backend}
    task = load_task("parity", {}, "parity", Path())
    def build():
        return build_adapter("huggingface", options, vocab_size=2, classes=2, seed=0)
    adapter = build()
    built = time.monotonic()
    results = check(adapter, 2, length=4, rng=np.random.default_rng(0))
    checked = time.monotonic()
    protocol = load_protocol("probe_profile")
    view = View(adapter, task, task_spec, 0, build)
    outcome = protocol.measure(view, protocol.params.model_validate({"max_positions": 60}))
    probed = time.monotonic()
print(json.dumps({
    "failed": [result.message for result in results if not result.passed],
    "sites": len(adapter.sites),
    "components": sorted(adapter.components),
    "parameters": sum(p.numel() for p in adapter.module.parameters()),
    "readings": len({dict(reading.at).get("site") for reading in outcome.readings}),
    "seconds": [round(built - started, 1), round(checked - built, 1), round(probed - checked, 1)],
    "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
}))
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("backend", "blocks", "components", "parameters"),
    [
        ("matched", 24, ["conv1d", "mixer"], 90_523_392),
        ("transformers", 12, ["attention", "mixer", "mlp"], 85_059_074),
    ],
)
def test_a_full_shape_is_checked_and_probed_in_eight_gib(backend, blocks, components, parameters):
    done = subprocess.run([sys.executable, "-c", CODE, backend], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["failed"] == []
    assert said["sites"] == blocks + 1
    assert said["components"] == components
    assert said["parameters"] == parameters
    assert said["readings"] >= blocks + 1
    assert said["peak_gib"] <= 8.0, said
    print(said)
