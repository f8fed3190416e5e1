"""Each check fails on a model that breaks its rule, names the place, and says how large the difference is."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from layerstate.adapters import AdapterError, check
from layerstate.adapters.base import Fired
from layerstate.adapters.module import Component, ModuleAdapter

LENGTH, VOCABULARY, CLASSES = 8, 3, 4


def results(adapter):
    return check(adapter, VOCABULARY, length=LENGTH, rng=np.random.default_rng(0))


def failed(adapter):
    return {result.name: result for result in results(adapter) if not result.passed}


def wrap(module):
    return ModuleAdapter.from_blocks(module, classes=CLASSES)


def sites_of(stack):
    return {"embed": stack.embed} | {f"block.{i}": block for i, block in enumerate(stack.blocks)}


def test_a_sound_model_passes_every_check(adapter):
    names = [result.name for result in results(adapter)]
    assert names == [
        *("sites", "bare_model", "deterministic", "causal", "capture", "identity_edit"),
        *("random_edit", "batch_size", "head", "resume", "ablation"),
    ]
    assert not failed(adapter)


def test_the_check_leaves_the_model_as_it_was(adapter, stack):
    stack.train()
    weights = {name: value.clone() for name, value in stack.state_dict().items()}
    results(adapter)
    assert all(part.training for part in stack.modules())
    assert all(torch.equal(value, weights[name]) for name, value in stack.state_dict().items())
    assert not any(part._forward_hooks for part in stack.modules())


def test_the_same_draw_gives_the_same_results(adapter):
    assert results(adapter) == results(adapter)


def test_a_block_that_looks_ahead_is_named(make_stack):
    class LooksAhead(make_stack.Block):
        def forward(self, h_BLD):
            return super().forward(h_BLD) + 0.1 * h_BLD.mean(1, keepdim=True)

    stack = make_stack()
    stack.blocks[1] = LooksAhead()
    found = failed(wrap(stack))
    assert set(found) == {"causal"}
    assert found["causal"].site == "block.1"
    assert found["causal"].difference > 1000 * found["causal"].limit
    assert "block.1" in found["causal"].message
    assert f"{found['causal'].difference:.2g}" in found["causal"].message


def test_a_head_that_looks_ahead_is_named(make_stack):
    class LooksAhead(make_stack.Stack):
        def forward(self, tokens_BL):
            logits_BLC = super().forward(tokens_BL)
            return logits_BLC + logits_BLC.flip(1)

    assert failed(wrap(make_stack(LooksAhead)))["causal"].site == "logits"


def test_dropout_left_on(make_stack):
    class Drops(make_stack.Block):
        def forward(self, h_BLD):
            return torch.nn.functional.dropout(super().forward(h_BLD), 0.1)

    found = failed(wrap(make_stack(block=Drops)))
    assert found["deterministic"].site == "logits"
    assert found["deterministic"].difference > found["deterministic"].limit


def test_state_kept_from_one_call_to_the_next(make_stack):
    class Remembers(make_stack.Stack):
        calls = 0

        def forward(self, tokens_BL):
            self.calls += 1
            return super().forward(tokens_BL) * self.calls

    assert "deterministic" in failed(wrap(make_stack(Remembers)))


def test_statistics_of_the_batch(make_stack):
    class Centres(make_stack.Block):
        def forward(self, h_BLD):
            return super().forward(h_BLD) - h_BLD.mean(0, keepdim=True)

    assert set(failed(wrap(make_stack(block=Centres)))) >= {"batch_size"}


def test_a_capture_that_changes_the_model(stack):
    class Perturbs(ModuleAdapter):
        def capture(self, tokens, sites=None, positions=None):
            captured = super().capture(tokens, sites, positions)
            with torch.no_grad():
                stack.embed.weight += 0.01
            return captured

    assert failed(Perturbs.from_blocks(stack, classes=CLASSES))["capture"].difference > 1e-4


def test_a_capture_that_returns_the_wrong_rows_for_several_positions(stack):
    class WrongRows(ModuleAdapter):
        def capture(self, tokens, sites=None, positions=None):
            if positions is None:
                return super().capture(tokens, sites)
            return super().capture(tokens, sites, np.sort(positions, axis=1))

    assert set(failed(WrongRows.from_blocks(stack, classes=CLASSES))) == {"capture"}


def test_a_capture_that_reads_the_normalised_last_state(stack):
    class Normed(ModuleAdapter):
        def capture(self, tokens, sites=None, positions=None):
            captured = super().capture(tokens, sites, positions)
            if "block.2" in captured:
                captured["block.2"] = captured["block.2"] / captured["block.2"].std(-1, keepdims=True) * 3
            return captured

    with torch.no_grad():
        stack.head[0].weight.uniform_()
    adapter = Normed(stack, classes=CLASSES, sites=sites_of(stack), head=stack.head[1])
    found = failed(adapter)
    assert set(found) == {"head"}
    assert found["head"].site == "block.2"


@pytest.mark.parametrize("shift", [0.01, -0.01])
def test_a_wrapper_whose_logits_differ_from_the_bare_model(stack, shift):
    class Shifted(ModuleAdapter):
        def logits(self, tokens):
            return super().logits(tokens) + np.float32(shift)

    found = failed(Shifted.from_blocks(stack, classes=CLASSES))
    assert found["bare_model"].difference == pytest.approx(0.01, rel=1e-3)
    assert "0.01" in found["bare_model"].message


def test_an_edit_that_moves_what_it_should_leave(stack):
    class Halves(ModuleAdapter):
        def edit(self, edits):
            return super().edit({site: (lambda h, edit=edit: edit(h.half().float())) for site, edit in edits.items()})

    assert set(failed(Halves.from_blocks(stack, classes=CLASSES))) == {"identity_edit"}


def test_a_site_that_the_logits_do_not_depend_on(make_stack):
    class SideBranch(make_stack.Stack):
        def forward(self, tokens_BL):
            h_BLD = self.embed(tokens_BL)
            self.blocks[0](h_BLD)
            return self.head(self.blocks[2](self.blocks[1](h_BLD)))

    found = failed(wrap(make_stack(SideBranch)))
    assert set(found) == {"random_edit", "resume"}
    assert found["random_edit"].site == "block.0"
    assert found["random_edit"].difference == 0


def test_an_edit_that_never_reaches_the_model(stack):
    class Ignores(ModuleAdapter):
        @contextmanager
        def edit(self, edits):
            yield Fired(dict.fromkeys(edits, 1))

    assert set(failed(Ignores.from_blocks(stack, classes=CLASSES))) == {"random_edit"}


def test_a_last_site_that_something_skips(make_stack):
    class Skips(make_stack.Stack):
        def forward(self, tokens_BL):
            h_BLD = embedded_BLD = self.embed(tokens_BL)
            for block in self.blocks:
                h_BLD = block(h_BLD)
            return self.head(h_BLD) + embedded_BLD[..., :CLASSES]

    stack = make_stack(Skips)
    whole = ModuleAdapter(stack, classes=CLASSES, sites=sites_of(stack))
    # One that runs only what comes after a site misses what went past it.
    for adapter, wrong in ((wrap(stack), {"head", "resume"}), (whole, {"head"})):
        found = failed(adapter)
        assert set(found) == wrong
        assert found["head"].site == "block.2"


def test_blocks_left_out_at_the_end(stack):
    shortened = dict(list(sites_of(stack).items())[:-1])
    assert not failed(ModuleAdapter(stack, classes=CLASSES, sites=shortened)), "resuming runs what is left"
    found = failed(ModuleAdapter(stack, classes=CLASSES, sites=shortened, head=stack.head))
    assert found["head"].site == "block.1"


def test_a_component_that_never_fires(make_stack):
    class Direct(make_stack.Block):
        def forward(self, h_BLD):
            return h_BLD + torch.tanh(h_BLD @ self.mixer.linear.weight)

    found = failed(wrap(make_stack(block=Direct)))
    assert set(found) == {"ablation"}
    assert found["ablation"].site == "mixer.zero"
    assert "never fired in 3 of 3 places" in found["ablation"].message


def test_an_ablation_that_stays(stack):
    class Stays(ModuleAdapter):
        def ablate(self, component, mode):
            context = super().ablate(component, mode)
            context.__exit__ = None
            return self._leave(context)

        @contextmanager
        def _leave(self, context):
            yield context.__enter__()
            self.kept = context

    found = failed(Stays.from_blocks(stack, classes=CLASSES))
    assert "After the ablation was closed" in found["ablation"].message


def test_an_ablation_that_fires_and_changes_nothing_passes_with_a_remark(make_stack):
    stack = make_stack()
    components = {"mixer": Component(("zero",), tuple(block.mixer for block in stack.blocks))}
    with torch.no_grad():
        for block in stack.blocks:
            block.mixer.linear.weight.zero_()
            block.mixer.linear.bias.zero_()
    adapter = ModuleAdapter(stack, classes=CLASSES, sites=sites_of(stack), components=components)
    (result,) = [result for result in results(adapter) if result.name == "ablation"]
    assert result.passed
    assert "no logit changed" in result.message


def test_fewer_sites_than_blocks(adapter):
    class LastOnly(ModuleAdapter):
        def capture(self, tokens, sites=None, positions=None):
            captured = super().capture(tokens, sites, positions)
            return captured if sites else {"block.2": captured["block.2"]}

    found = failed(LastOnly.from_blocks(adapter.module, classes=CLASSES))
    assert "block.2, not embed, block.0" in found["sites"].message


@pytest.mark.parametrize("names", [(), ("embed",), ("block.0", "embed"), ("embed", "block.1")])
def test_sites_with_other_names(adapter, names):
    adapter.sites = names
    assert "The sites are embed, block.0" in failed(adapter)["sites"].message


def test_activations_that_are_not_finite(make_stack):
    class Explodes(make_stack.Block):
        def forward(self, h_BLD):
            return super().forward(h_BLD) / 0.0

    (result,) = results(wrap(make_stack(block=Explodes)))
    assert not result.passed
    assert "block.0 holds values that are not finite" in result.message


def test_logits_that_are_not_finite(make_stack):
    class Explodes(make_stack.Stack):
        def forward(self, tokens_BL):
            return super().forward(tokens_BL) + float("nan")

    assert "logits holds values that are not finite" in failed(wrap(make_stack(Explodes)))["sites"].message


def test_logits_that_are_not_finite_now_and_then(make_stack):
    class Flickers(make_stack.Stack):
        calls = 0

        def forward(self, tokens_BL):
            self.calls += 1
            return super().forward(tokens_BL) + (float("nan") if self.calls % 3 == 0 else 0.0)

    assert failed(wrap(make_stack(Flickers)))["bare_model"].difference == float("inf")


def test_too_small_a_case_is_an_error(adapter):
    for vocab_size, length in ((1, 8), (3, 1)):
        with pytest.raises(AdapterError, match="at least 2"):
            check(adapter, vocab_size, length=length, rng=np.random.default_rng(0))
