"""Blocks, norm and parts are told by what a pass does, whatever they are called."""

import pytest
import torch
from layerstate.adapters import AdapterError
from layerstate.adapters.huggingface.parts import find_parts
from layerstate.adapters.huggingface.structure import find_structure
from torch import nn

TOKENS = torch.arange(12).reshape(2, 6) % 5


class Mean(nn.Module):
    """Averages what it has seen: attention with equal weights."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        return self.inner(x).cumsum(1) / torch.arange(1, x.shape[1] + 1)[:, None]


class Sum(Mean):
    """Adds up what it has seen: a state that grows."""

    def forward(self, x):
        return self.inner(x).cumsum(1)


class Block(nn.Module):
    def __init__(self, mix):
        super().__init__()
        self.mix, self.wide = mix, nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x):
        x = x + self.mix(x)
        return x + self.wide(x)


class Wrapped(nn.Module):
    """A block that holds another with its residual stream."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


class Model(nn.Module):
    def __init__(self, stack, final=None, *, more=None):
        super().__init__()
        self.tokens, self.stack, self.final = nn.Embedding(5, 8), nn.ModuleList(stack), final
        self.more = nn.ModuleList(more or [])

    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in [*self.stack, *self.more]:
            x = block(x)
        return self.final(x) if self.final is not None else x


def found(model, **named):
    torch.manual_seed(0)
    return find_structure(model, model, TOKENS, **named)


def test_blocks_and_norm():
    model = Model([Block(Mean()), Block(Sum())], nn.LayerNorm(8))
    structure = found(model)
    assert structure.names == ("stack.0", "stack.1")
    assert structure.norm is model.final
    assert structure.direct


def test_without_a_norm_the_last_block_is_the_last_state():
    structure = found(Model([Block(Mean())]))
    assert structure.norm is None
    assert structure.direct


def test_two_stacks_of_one_length_have_to_be_told_apart():
    model = Model([Block(Mean())], more=[Block(Mean())])
    with pytest.raises(AdapterError, match=r"several lists of 1 blocks: stack, more. Name the one"):
        found(model)
    assert found(model, blocks=["stack.0", "more.0"]).names == ("stack.0", "more.0")


def test_a_model_without_blocks():
    with pytest.raises(AdapterError, match="No list of blocks was found"):
        found(Model([]))


def test_parts_by_what_they_do():
    torch.manual_seed(0)
    model = Model([Block(Mean()), Block(Sum()), Wrapped(Block(Sum()))], nn.LayerNorm(8))
    parts = find_parts(found(model), model)
    first, second, third = model.stack
    assert parts == {
        "mixer": [first.mix, second.mix, third.inner.mix],
        "attention": [first.mix],
        "mlp": [first.wide, second.wide, third.inner.wide],
    }


def test_a_part_that_mixes_and_holds_an_mlp_is_looked_into():
    class Both(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix, self.wide = Mean(), nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))

        def forward(self, x):
            return self.wide(self.mix(x))

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.both = Both()

        def forward(self, x):
            return x + self.both(x)

    torch.manual_seed(0)
    model = Model([Outer()])
    both = model.stack[0].both
    assert find_parts(found(model), model) == {"mixer": [both.mix], "attention": [both.mix], "mlp": [both.wide]}


def test_a_named_block_that_is_no_block():
    model = Model([Block(Mean())], nn.LayerNorm(8))
    model.idle = nn.Linear(8, 8)
    with pytest.raises(AdapterError, match=r"sites.blocks: idle is called 0 times in a forward pass"):
        found(model, blocks=["stack.0", "idle"])
