import dataclasses
from collections import namedtuple

import numpy as np
import pytest
import torch
from layerstate.adapters import Adapter, AdapterError, EditNeverFired
from layerstate.adapters.module import Component, ModuleAdapter
from torch import nn


def by_hand(stack, tokens):
    """The residual stream after the embedding and after each block, and the logits, with no adapter."""
    with torch.no_grad():
        stream = [stack.embed(torch.as_tensor(tokens))]
        for block in stack.blocks:
            stream.append(block(stream[-1]))
        return [h_BLD.numpy() for h_BLD in stream], stack.head(stream[-1]).numpy()


def hooks_in(module):
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in module.modules())


def test_it_keeps_the_adapter_contract(adapter):
    assert isinstance(adapter, Adapter)
    assert adapter.sites == ("embed", "block.0", "block.1", "block.2")
    assert adapter.components == {"mixer": ("zero",)}


def test_logits_are_those_of_the_bare_model_across_batches(adapter, stack, tokens):
    logits = adapter.logits(tokens)
    assert logits.dtype == np.float32
    np.testing.assert_allclose(logits, by_hand(stack, tokens)[1], atol=1e-6)


def test_each_site_is_the_stream_after_its_block_before_the_final_norm(adapter, stack, tokens):
    stream, _ = by_hand(stack, tokens)
    captured = adapter.capture(tokens)
    assert list(captured) == list(adapter.sites)
    for values, expected in zip(captured.values(), stream, strict=True):
        np.testing.assert_allclose(values, expected, atol=1e-6)


def test_capture_at_positions_equals_the_full_capture_there(adapter, tokens):
    positions = np.random.default_rng(1).integers(0, tokens.shape[1], (len(tokens), 4))
    full, chosen = adapter.capture(tokens), adapter.capture(tokens, positions=positions)
    for site, values in full.items():
        assert chosen[site].shape == (len(tokens), 4, values.shape[-1])
        for row in range(len(tokens)):
            np.testing.assert_array_equal(chosen[site][row], values[row, positions[row]])


@pytest.mark.parametrize("positions", [np.zeros((3, 1), int), np.full((10, 1), 6), np.full((10, 1), -1), np.arange(10)])
def test_positions_that_do_not_fit_are_an_error(adapter, tokens, positions):
    with pytest.raises(AdapterError, match="Positions"):
        adapter.capture(tokens, positions=positions)


@pytest.mark.parametrize("bad", [np.zeros((0, 4), int), np.zeros(4, int), np.zeros((2, 3))])
def test_tokens_that_are_no_sequences_are_an_error(adapter, bad):
    for read in (adapter.logits, adapter.capture):
        with pytest.raises(AdapterError, match="Tokens"):
            read(bad)


def test_reading_leaves_every_submodule_in_its_training_mode(adapter, stack, tokens):
    stack.train()
    stack.blocks[1].eval()
    before = [part.training for part in stack.modules()]
    adapter.logits(tokens)
    adapter.head(adapter.capture(tokens)["block.2"])
    assert [part.training for part in stack.modules()] == before


def test_the_head_reads_the_last_site(adapter, tokens):
    np.testing.assert_allclose(adapter.head(adapter.capture(tokens)["block.2"]), adapter.logits(tokens), atol=1e-6)


def test_a_head_by_resumed_forward_equals_the_named_head(stack, adapter, tokens):
    sites = {"embed": stack.embed} | {f"block.{i}": block for i, block in enumerate(stack.blocks)}
    resumed = ModuleAdapter(stack, classes=4, sites=sites, batch_size=4)
    activations = np.random.default_rng(2).normal(size=(10, 6, 8)).astype(np.float32)
    np.testing.assert_allclose(resumed.head(activations), adapter.head(activations), atol=1e-6)


@pytest.mark.parametrize("named_head", [True, False])
def test_the_head_ignores_edits_in_force_and_does_not_fire_them(stack, adapter, tokens, named_head):
    if not named_head:
        sites = {"embed": stack.embed} | {f"block.{i}": block for i, block in enumerate(stack.blocks)}
        adapter = ModuleAdapter(stack, classes=4, sites=sites)
    last, expected = adapter.capture(tokens)["block.2"], adapter.logits(tokens)
    with adapter.edit({"block.2": lambda h_BLD: h_BLD * 0}) as fired:
        np.testing.assert_allclose(adapter.head(last), expected, atol=1e-6)
        assert fired.counts == {"block.2": 0}
        adapter.logits(tokens)


def test_an_identity_edit_changes_nothing_and_a_real_one_does(adapter, tokens):
    clean = adapter.logits(tokens)
    for site in adapter.sites:
        with adapter.edit({site: lambda h_BLD: h_BLD}) as fired:
            np.testing.assert_array_equal(adapter.logits(tokens), clean)
        assert fired.counts == {site: 3}  # 10 sequences in batches of 4
        with adapter.edit({site: lambda h_BLD: h_BLD + torch.arange(8.0)}):
            assert np.abs(adapter.logits(tokens) - clean).max() > 1e-3
    np.testing.assert_array_equal(adapter.logits(tokens), clean)


def test_a_capture_inside_an_edit_sees_the_edited_activations(adapter, tokens):
    clean = adapter.capture(tokens)
    with adapter.edit({"block.0": lambda h_BLD: h_BLD + 5}):
        edited = adapter.capture(tokens)
    np.testing.assert_array_equal(edited["embed"], clean["embed"])
    np.testing.assert_array_equal(edited["block.0"], clean["block.0"] + 5)
    assert np.abs(edited["block.1"] - clean["block.1"]).max() > 1


def test_nested_edits_compose_in_the_order_they_were_opened(adapter, tokens):
    clean = adapter.capture(tokens)["block.1"]
    with adapter.edit({"block.1": lambda h_BLD: h_BLD + 1}), adapter.edit({"block.1": lambda h_BLD: h_BLD * 2}):
        np.testing.assert_array_equal(adapter.capture(tokens)["block.1"], (clean + 1) * 2)


def test_an_edit_and_an_ablation_compose(adapter, tokens):
    embedded = adapter.capture(tokens)["embed"]
    with adapter.ablate("mixer", "zero"), adapter.edit({"embed": lambda h_BLD: h_BLD + 1}):
        np.testing.assert_array_equal(adapter.capture(tokens)["block.2"], embedded + 1)


def test_patching_a_run_into_itself_is_a_no_op_and_into_another_is_not(adapter, tokens):
    first, second = tokens[:4], tokens[4:8]
    source = torch.as_tensor(adapter.capture(first)["block.1"])

    def patch(h_BLD):
        patched = h_BLD.clone()
        patched[:, 3] = source[:, 3]
        return patched

    with adapter.edit({"block.1": patch}):
        into_itself, into_other = adapter.logits(first), adapter.logits(second)
    np.testing.assert_array_equal(into_itself, adapter.logits(first))
    clean = adapter.logits(second)
    assert (np.abs(into_other[:, 3] - clean[:, 3]).max(-1) > 0).all(), "every pair must change, not the first alone"
    np.testing.assert_array_equal(into_other[:, :3], clean[:, :3])


def test_an_edit_in_place_does_not_reach_what_was_captured_before(adapter, tokens):
    clean = adapter.capture(tokens)["embed"].copy()
    captured = adapter.capture(tokens)["embed"]
    with adapter.edit({"embed": lambda h_BLD: h_BLD.zero_()}):
        adapter.logits(tokens)
    np.testing.assert_array_equal(captured, clean)


def test_a_block_that_adds_in_place_does_not_reach_the_site_before_it(make_stack, tokens):
    class InPlace(make_stack.Block):
        def forward(self, h_BLD):
            h_BLD += self.mixer(h_BLD)
            return h_BLD

    in_place = ModuleAdapter.from_blocks(make_stack(block=InPlace), classes=4).capture(tokens)
    for site, values in ModuleAdapter.from_blocks(make_stack(), classes=4).capture(tokens).items():
        np.testing.assert_array_equal(in_place[site], values)


def test_an_edit_that_never_fired_is_an_error(adapter, tokens):
    with pytest.raises(EditNeverFired, match=r"block\.1"), adapter.edit({"block.1": lambda h_BLD: h_BLD}):
        pass


def test_a_component_that_the_model_never_calls_is_an_error(make_stack, tokens):
    class UnusedConvolution(make_stack.Mixer):
        """Like Mamba in transformers on a CPU: the weight is used, the submodule is never called."""

        def __init__(self):
            super().__init__()
            self.conv1d = nn.Conv1d(8, 8, 1)

        def forward(self, h_BLD):
            return super().forward(h_BLD @ self.conv1d.weight[..., 0])

    class WithConvolution(make_stack.Block):
        def __init__(self):
            super().__init__()
            self.mixer = UnusedConvolution()

    stack = make_stack(block=WithConvolution)
    sites = {"embed": stack.embed} | {f"block.{i}": block for i, block in enumerate(stack.blocks)}
    convolutions = tuple(block.mixer.conv1d for block in stack.blocks)
    adapter = ModuleAdapter(stack, classes=4, sites=sites, components={"conv1d": Component(("zero",), convolutions)})
    with (
        pytest.raises(EditNeverFired, match=r"3 of 3 places.*blocks\.0\.mixer\.conv1d"),
        adapter.ablate("conv1d", "zero"),
    ):
        adapter.logits(tokens)


def test_a_component_that_fires_in_some_blocks_only_is_an_error(make_stack, tokens):
    class SkipsTheSecond(make_stack.Stack):
        def forward(self, tokens_BL):
            return self.head(self.blocks[2](self.blocks[0](self.embed(tokens_BL))))

    adapter = ModuleAdapter.from_blocks(make_stack(SkipsTheSecond), classes=4)
    with pytest.raises(EditNeverFired, match=r"1 of 3 places.*blocks\.1\.mixer"), adapter.ablate("mixer", "zero"):
        adapter.logits(tokens)
    with pytest.raises(AdapterError, match=r"blocks\.1 of the site block\.1 was never called"):
        adapter.capture(tokens)


def test_a_block_called_twice_is_no_site(make_stack, tokens):
    class Loops(make_stack.Stack):
        def forward(self, tokens_BL):
            return self.head(self.blocks[0](self.blocks[0](self.embed(tokens_BL))))

    adapter = ModuleAdapter.from_blocks(make_stack(Loops, blocks=1), classes=4)
    with pytest.raises(AdapterError, match="called 2 times"):
        adapter.capture(tokens)


def test_hooks_and_switches_are_gone_after_an_exception(adapter, stack, tokens):
    clean = adapter.logits(tokens)
    with pytest.raises(ZeroDivisionError), adapter.ablate("mixer", "zero"), adapter.edit({"embed": lambda h: h * 2}):
        raise ZeroDivisionError
    with pytest.raises(ZeroDivisionError), adapter.edit({"block.1": lambda h_BLD: h_BLD / (1 // 0)}):
        adapter.logits(tokens)
    with pytest.raises(AdapterError, match="IndexError"):
        adapter.logits(np.full((2, 3), 99))
    with pytest.raises(AdapterError, match="IndexError"):
        adapter.capture(np.full((2, 3), 99))
    assert hooks_in(stack) == 0
    assert all(block.mixer.ablation is None for block in stack.blocks)
    np.testing.assert_array_equal(adapter.logits(tokens), clean)


def test_an_exception_inside_is_not_hidden_by_an_edit_that_had_not_fired_yet(adapter):
    with pytest.raises(KeyError), adapter.edit({"embed": lambda h_BLD: h_BLD}):
        raise KeyError("what really happened")


def test_the_training_mode_comes_back_after_an_exception(adapter, stack):
    stack.train()
    with pytest.raises(AdapterError, match="IndexError"):
        adapter.logits(np.full((2, 3), 99))
    assert all(part.training for part in stack.modules())


def test_edits_work_with_gradients(adapter, stack, tokens):
    shift = torch.zeros(8, requires_grad=True)
    with adapter.edit({"block.0": lambda h_BLD: h_BLD + shift}):
        stack(torch.as_tensor(tokens)).sum().backward()
    assert shift.grad is not None
    assert shift.grad.abs().sum() > 0


@pytest.mark.parametrize("edit", [lambda h_BLD: None, lambda h_BLD: h_BLD[:, :2], lambda h_BLD: h_BLD.numpy()])
def test_an_edit_must_return_activations_of_the_same_shape(adapter, tokens, edit):
    with pytest.raises(AdapterError, match=r"The edit at block\.0 returned"), adapter.edit({"block.0": edit}):
        adapter.logits(tokens)


def test_unknown_names_are_errors_with_the_nearest(adapter, tokens):
    with pytest.raises(AdapterError, match=r"Did you mean block\.\d"):
        adapter.capture(tokens, ["blok.1"])
    with pytest.raises(AdapterError, match=r"no site 'block\.3'"):
        adapter.edit({"block.3": lambda h_BLD: h_BLD})
    with pytest.raises(AdapterError, match="Did you mean mixer"):
        adapter.ablate("mixr", "zero")
    with pytest.raises(AdapterError, match="zero"):
        adapter.ablate("mixer", "bypass")


def test_logits_of_another_shape_are_an_error(stack, tokens):
    adapter = ModuleAdapter.from_blocks(stack, classes=5)
    with pytest.raises(AdapterError, match=r"\(10, 6, 4\).*\(10, 6, 5\)"):
        adapter.logits(tokens)


@pytest.mark.parametrize("names", [["embed"], ["block.0", "embed"], ["embed", "block.1"], []])
def test_sites_are_embed_and_blocks_in_order(stack, names):
    with pytest.raises(AdapterError, match="The sites are embed"):
        ModuleAdapter(stack, classes=4, sites=dict(zip(names, [stack.embed, *stack.blocks], strict=False)))


def test_one_submodule_cannot_be_two_sites(stack):
    with pytest.raises(AdapterError, match="one submodule"):
        ModuleAdapter(stack, classes=4, sites={"embed": stack.embed, "block.0": stack.embed})


Pair = namedtuple("Pair", ["stream", "extra"])


@dataclasses.dataclass(frozen=True)
class Record:
    stream: torch.Tensor
    extra: str


class Holder:
    def __init__(self, stream, extra):
        self.stream, self.extra = stream, extra


@pytest.mark.parametrize(
    ("wrap", "unwrap", "part"),
    [
        (lambda h: (h, "x"), lambda out: out[0], 0),
        (lambda h: ["x", h], lambda out: out[1], 1),
        (lambda h: ("x", h), lambda out: out[-1], -1),
        (lambda h: Pair(h, "x"), lambda out: out.stream, 0),
        (lambda h: Pair(h, "x"), lambda out: out.stream, "stream"),
        (lambda h: {"stream": h, "extra": "x"}, lambda out: out["stream"], "stream"),
        (lambda h: Record(h, "x"), lambda out: out.stream, "stream"),
        (lambda h: Holder(h, "x"), lambda out: out.stream, "stream"),
    ],
    ids=["tuple", "list", "from_the_end", "named_by_index", "named_by_name", "mapping", "dataclass", "object"],
)
def test_an_element_of_what_a_block_returns_is_read_edited_and_put_back(make_stack, tokens, wrap, unwrap, part):
    class Wrapped(make_stack.Block):
        def forward(self, h_BLD):
            return wrap(super().forward(h_BLD))

    class Unwraps(make_stack.Stack):
        def forward(self, tokens_BL):
            h_BLD = self.embed(tokens_BL)
            for block in self.blocks:
                h_BLD = unwrap(block(h_BLD))
            return self.head(h_BLD)

    plain = ModuleAdapter.from_blocks(make_stack(), classes=4)
    wrapped = ModuleAdapter.from_blocks(make_stack(Unwraps, block=Wrapped), classes=4, output=part)
    resumed = ModuleAdapter(wrapped.module, classes=4, sites=wrapped._modules, output=part)
    for values, expected in zip(wrapped.capture(tokens).values(), plain.capture(tokens).values(), strict=True):
        np.testing.assert_array_equal(values, expected)
    with wrapped.edit({"block.1": lambda h_BLD: -h_BLD}), plain.edit({"block.1": lambda h_BLD: -h_BLD}):
        np.testing.assert_array_equal(wrapped.logits(tokens), plain.logits(tokens))
    last = plain.capture(tokens)["block.2"]
    np.testing.assert_allclose(resumed.head(last), plain.head(last), atol=1e-6)


def test_a_block_that_returns_several_things_needs_to_say_which(make_stack, tokens):
    class Wrapped(make_stack.Block):
        def forward(self, h_BLD):
            return super().forward(h_BLD), "x"

    class Unwraps(make_stack.Stack):
        def forward(self, tokens_BL):
            h_BLD = self.embed(tokens_BL)
            for block in self.blocks:
                h_BLD, _ = block(h_BLD)
            return self.head(h_BLD)

    stack = make_stack(Unwraps, block=Wrapped)
    for part in (None, 1, 7, "stream"):
        with pytest.raises(AdapterError, match=r"block\.0 returned a tuple \(Tensor, str\).*sites\.output"):
            ModuleAdapter.from_blocks(stack, classes=4, output=part).capture(tokens)


def test_a_stream_that_is_not_batch_first_is_an_error(make_stack, tokens):
    class LengthFirst(make_stack.Stack):
        def forward(self, tokens_BL):
            h_LBD = self.embed(tokens_BL).transpose(0, 1)
            for block in self.blocks:
                h_LBD = block(h_LBD)
            return self.head(h_LBD.transpose(0, 1))

    adapter = ModuleAdapter.from_blocks(make_stack(LengthFirst), classes=4)
    with pytest.raises(AdapterError, match=r"block\.0 gives activations \(6, 10, 8\).*batch first"):
        adapter.capture(tokens)


def test_a_component_is_replaced_from_outside_by_zeros_or_by_its_input(make_stack, stack, tokens):
    sites = {"embed": stack.embed} | {f"block.{i}": block for i, block in enumerate(stack.blocks)}
    mixers = Component(("zero", "bypass"), tuple(block.mixer for block in stack.blocks))
    adapter = ModuleAdapter(stack, classes=4, sites=sites, components={"mixer": mixers})
    embedded = adapter.capture(tokens)["embed"]
    with adapter.ablate("mixer", "zero") as fired:
        np.testing.assert_array_equal(adapter.capture(tokens)["block.2"], embedded)
    assert fired.counts == {"mixer": 3}
    with adapter.ablate("mixer", "bypass"):
        np.testing.assert_array_equal(adapter.capture(tokens)["block.2"], 8 * embedded)


def test_zeroing_a_recurrent_layer_from_outside_keeps_its_hidden_state(make_stack, tokens):
    class Recurrent(make_stack.Block):
        def __init__(self):
            super().__init__()
            self.rnn = nn.LSTM(8, 8, batch_first=True)

        def forward(self, h_BLD):
            hidden_BLD, (last, _) = self.rnn(h_BLD)
            assert last.shape == (1, len(h_BLD), 8)
            return h_BLD + hidden_BLD

    stack = make_stack(block=Recurrent)
    sites = {"embed": stack.embed} | {f"block.{i}": block for i, block in enumerate(stack.blocks)}
    layers = Component(("zero",), tuple(block.rnn for block in stack.blocks))
    adapter = ModuleAdapter(stack, classes=4, sites=sites, components={"mixer": layers})
    with adapter.ablate("mixer", "zero"):
        captured = adapter.capture(tokens)
    np.testing.assert_array_equal(captured["block.2"], captured["embed"])


def test_a_component_whose_shapes_differ_cannot_be_bypassed(stack, tokens):
    sites = {"embed": stack.embed, "block.0": stack.blocks[0]}
    head = Component(("bypass",), (stack.head[1],))
    adapter = ModuleAdapter(stack, classes=4, sites=sites, components={"head": head})
    with pytest.raises(AdapterError, match="can't be bypassed"), adapter.ablate("head", "bypass"):
        adapter.logits(tokens)
