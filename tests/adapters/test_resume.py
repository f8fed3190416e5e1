from typing import Any

import numpy as np
import pytest
import torch
from layerstate.adapters import AdapterError
from layerstate.adapters.module import ModuleAdapter
from layerstate.adapters.reference import build as build_reference


class TestResume:
    """The forward pass goes on from activations at a site."""

    TOKENS = np.arange(24, dtype=np.int64).reshape(4, 6) % 4

    @pytest.fixture(params=["transformer", "mamba", "gru"])
    def model(self, request: pytest.FixtureRequest) -> Any:
        options: dict[str, dict[str, Any]] = {
            "transformer": {"blocks": 2, "width": 8, "heads": 2},
            "mamba": {"blocks": 2, "width": 8},
            "gru": {"blocks": 2, "width": 8, "hidden": 8},
        }
        torch.manual_seed(0)
        return build_reference(request.param, options[request.param], 4, 3)

    def test_it_gives_what_an_edit_at_the_site_gives(self, model: Any) -> None:
        for resumable in (True, False):
            adapter = ModuleAdapter.from_blocks(model, classes=3, resumable=resumable, batch_size=3)
            for site, h_BLD in adapter.capture(self.TOKENS).items():
                with adapter.edit({site: lambda h: h * 2 + 1}):
                    edited = adapter.logits(self.TOKENS)
                np.testing.assert_allclose(adapter.resume(self.TOKENS, site, h_BLD * 2 + 1), edited, atol=1e-5)

    def test_ablations_after_the_site_act(self, model: Any) -> None:
        adapter = ModuleAdapter.from_blocks(model, classes=3)
        with adapter.ablate("mixer", "zero"):
            ablated, embedded = adapter.logits(self.TOKENS), adapter.capture(self.TOKENS)["embed"]
            np.testing.assert_allclose(adapter.resume(self.TOKENS, "embed", embedded), ablated, atol=1e-5)
        assert np.abs(ablated - adapter.logits(self.TOKENS)).max() > 1e-6

    def test_activations_of_other_tokens_are_refused(self, model: Any) -> None:
        adapter = ModuleAdapter.from_blocks(model, classes=3)
        with pytest.raises(AdapterError, match=r"\(4, 6, width\) at embed, not \(3, 6, 8\)"):
            adapter.resume(self.TOKENS, "embed", np.zeros((3, 6, 8), np.float32))
