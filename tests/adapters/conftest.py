"""A small residual-stream model that keeps the convention of the reference zoo, for breaking one rule at a time."""

import numpy as np
import pytest
import torch
from layerstate.adapters.module import ModuleAdapter
from torch import nn

VOCABULARY, CLASSES, WIDTH, BLOCKS = 3, 4, 8, 3


class Mixer(nn.Module):
    """A causal running mean and a linear map."""

    def __init__(self):
        super().__init__()
        self.ablation = None
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, h_BLD):
        if self.ablation == "zero":
            return torch.zeros_like(h_BLD)
        counts_L1 = torch.arange(1, h_BLD.shape[1] + 1, device=h_BLD.device)[:, None]
        return torch.tanh(self.linear(h_BLD.cumsum(1) / counts_L1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.mixer = Mixer()

    def forward(self, h_BLD):
        return h_BLD + self.mixer(h_BLD)


class Stack(nn.Module):
    """embed, three blocks, a norm and a linear head."""

    components = {"mixer": ("zero",)}  # noqa: RUF012

    def __init__(self, block=Block, blocks=BLOCKS):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList([block() for _ in range(blocks)])
        self.head = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, CLASSES))

    def forward(self, tokens_BL):
        h_BLD = self.embed(tokens_BL)
        for block in self.blocks:
            h_BLD = block(h_BLD)
        return self.head(h_BLD)

    def ablatable(self, component):
        return [block.mixer for block in self.blocks]


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def make_stack():
    """Build a `Stack` with fixed weights; the keyword arguments are those of the class, `kind` a subclass."""

    def make(kind=Stack, **options):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return kind(**options)

    make.Stack, make.Block, make.Mixer = Stack, Block, Mixer
    return make


@pytest.fixture
def stack(make_stack):
    return make_stack()


@pytest.fixture
def adapter(stack):
    return ModuleAdapter.from_blocks(stack, classes=CLASSES, batch_size=4)


@pytest.fixture
def tokens():
    return np.random.default_rng(0).integers(0, VOCABULARY, (10, 6))
