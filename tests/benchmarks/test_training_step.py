"""How much faster a training step of Mamba and Mamba-2 is here than in other CPU implementations, in one run.

Processor time on one thread, so that other work on the machine hardly counts. The bounds are far below what a
quiet machine shows; the ratios themselves are printed and kept with the benchmark.
"""

import importlib.util
import time

import pytest
import torch
from layerstate.adapters.reference.mamba import Mamba
from layerstate.adapters.reference.mamba2 import Mamba2
from torch import nn
from torch.nn import functional

BATCH, LENGTH, BLOCKS, WIDTH, TOKENS = 16, 40, 2, 128, 6


class Logits(nn.Module):
    """A model whose output carries its logits as an attribute."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens).logits


def transformers_mamba():
    from transformers import MambaConfig, MambaForCausalLM

    config = MambaConfig(
        vocab_size=TOKENS, hidden_size=WIDTH, num_hidden_layers=BLOCKS, state_size=16, expand=2, use_cache=False
    )
    return Logits(MambaForCausalLM(config))


def transformers_mamba2():
    """With chunks of 64, as here: its default of 256 pads a sequence of 40 to 256."""
    from transformers import Mamba2Config, Mamba2ForCausalLM

    config = Mamba2Config(
        vocab_size=TOKENS,
        hidden_size=WIDTH,
        num_hidden_layers=BLOCKS,
        state_size=64,
        expand=2,
        head_dim=32,
        num_heads=2 * WIDTH // 32,
        n_groups=1,
        chunk_size=64,
        use_cache=False,
    )
    return Logits(Mamba2ForCausalLM(config))


def mambapy_mamba():
    from mambapy.mamba import Mamba as Stack
    from mambapy.mamba import MambaConfig

    stack = Stack(MambaConfig(d_model=WIDTH, n_layers=BLOCKS, d_state=16, expand_factor=2))
    return nn.Sequential(nn.Embedding(TOKENS, WIDTH), stack, nn.Linear(WIDTH, TOKENS, bias=False))


def ours_mamba():
    return Mamba(TOKENS, TOKENS, blocks=BLOCKS, width=WIDTH, expand=2)


def ours_mamba2():
    return Mamba2(TOKENS, TOKENS, blocks=BLOCKS, width=WIDTH, expand=2, headdim=32, state_size=64)


PAIRS = {
    "mamba-transformers": (ours_mamba, transformers_mamba, 4),
    "mamba-mambapy": (ours_mamba, mambapy_mamba, 2),
    "mamba2-transformers": (ours_mamba2, transformers_mamba2, 2),
}


def training_step(build):
    """A function that does one step of AdamW on a model, tokens as their own labels."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = build().train()
        tokens = torch.randint(TOKENS, (BATCH, LENGTH))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()

    return step


def fastest(step, rounds):
    """Processor seconds of the fastest of `rounds` calls, after one that does not count."""
    step()
    times = []
    for _ in range(rounds):
        start = time.process_time()
        step()
        times.append(time.process_time() - start)
    return min(times)


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize("pair", PAIRS)
def test_training_step_is_several_times_faster_than_the_peer(benchmark, pair, capsys):
    ours, peer, at_least = PAIRS[pair]
    if "mambapy" in pair and importlib.util.find_spec("mambapy") is None:
        pytest.skip("mambapy is not installed")
    theirs = fastest(training_step(peer), 2)
    benchmark.pedantic(training_step(ours), rounds=5, warmup_rounds=1)
    mine = benchmark.stats.stats.min if benchmark.stats else fastest(training_step(ours), 5)
    ratio = theirs / mine
    benchmark.extra_info.update(peer_seconds=theirs, ratio=ratio)
    with capsys.disabled():
        print(f"\n{pair}: {mine * 1e3:.0f} ms here, {theirs * 1e3:.0f} ms there, {ratio:.1f} times faster")
    assert ratio >= at_least
