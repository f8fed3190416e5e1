"""The fused CPU operations of Mamba and Mamba-2 against plain PyTorch in double precision."""

import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from layerstate.adapters.reference import compilation, kernels
from layerstate.adapters.reference.causal_conv1d import causal_conv1d, causal_conv1d_reference
from layerstate.adapters.reference.gated_norm import gated_rms_norm, gated_rms_norm_reference
from layerstate.adapters.reference.selective_scan import (
    fused_scan_serves,
    selective_scan,
    selective_scan_reference,
)
from layerstate.adapters.reference.vector_math import LANES, exp2, load, sigmoid, softplus, store
from numba import config, njit

# One vector of channels and several, with and without a rest; one position; more positions than the backward's chunk.
SHAPES = [(1, 1, 16, 16), (3, 7, 5, 4), (2, 40, 48, 16), (2, 150, 35, 8)]
VECTOR_FUNCTIONS = {
    "exp2": (exp2, torch.exp2),
    "softplus": (softplus, F.softplus),
    "sigmoid": (sigmoid, torch.sigmoid),
}
NAMES = ("x", "dt", "A", "B", "C", "skip", "z")


def draw(*sizes):
    return [torch.randn(*size, generator=torch.Generator().manual_seed(i)) for i, size in enumerate(sizes)]


def scan_inputs(batch, length, channels, states):
    x, dt, A, B, C, skip, z = draw(
        (batch, length, channels),
        (batch, length, channels),
        (channels, states),
        (batch, length, states),
        (batch, length, states),
        (channels,),
        (batch, length, channels),
    )
    return [x, dt - 2, -torch.exp(A), B, C, skip, z]


def relative(found, expected):
    return ((found - expected).norm() / expected.norm().clamp(min=1e-12)).item()


def assert_same_with_gradients(fused, reference, inputs, names):
    """`fused` in float32 is `reference` in float64 within rounding, and so are the gradients of all inputs."""
    single = [t.clone().requires_grad_() for t in inputs]
    double = [t.double().requires_grad_() for t in inputs]
    out, expected = fused(*single), reference(*double)
    assert relative(out, expected) < 1e-6
    (weight,) = draw(out.shape)
    found = torch.autograd.grad(out, single, weight)
    for name, gradient, right in zip(names, found, torch.autograd.grad(expected, double, weight.double()), strict=True):
        assert relative(gradient, right) < 5e-6, name


@pytest.mark.parametrize("shape", SHAPES)
def test_fused_scan_equals_the_plain_one_forward_and_backward(shape):
    inputs = scan_inputs(*shape)
    assert fused_scan_serves(*inputs)
    assert_same_with_gradients(selective_scan, selective_scan_reference, inputs, NAMES)


def test_plain_scan_has_the_gradients_of_finite_differences():
    inputs = [t.double().requires_grad_() for t in scan_inputs(2, 4, 3, 2)]
    assert torch.autograd.gradcheck(selective_scan_reference, inputs)


@pytest.mark.parametrize(("channels", "taps"), [(16, 4), (20, 4), (48, 1), (16, 9)])
def test_fused_convolution_equals_the_plain_one_forward_and_backward(channels, taps):
    inputs = draw((3, 6, channels), (channels, taps), (channels,))
    assert_same_with_gradients(causal_conv1d, causal_conv1d_reference, inputs, ("x", "weight", "bias"))


def test_fused_gated_norm_equals_the_plain_one_forward_and_backward():
    inputs = draw((3, 6, 48), (3, 6, 48), (48,))
    assert_same_with_gradients(
        lambda *t: gated_rms_norm(*t, 1e-5), lambda *t: gated_rms_norm_reference(*t, 1e-5), inputs, ("y", "z", "weight")
    )


def test_slices_are_read_in_place_like_copies():
    x, dt, A, B, C, skip, z = scan_inputs(2, 9, 32, 4)
    xz, BC = torch.cat((x, z), -1), torch.cat((B, C), -1)
    sliced = selective_scan(xz[..., :32], dt, A, BC[..., :4], BC[..., 4:], skip, xz[..., 32:])
    assert torch.equal(sliced, selective_scan(x, dt, A, B, C, skip, z))
    turned = selective_scan(x.transpose(1, 2).contiguous().transpose(1, 2), dt, A, B, C, skip, z)
    assert torch.equal(turned, selective_scan(x, dt, A, B, C, skip, z))


def test_scan_is_causal():
    """A longer sequence begins with what the shorter one gives; a change at t changes nothing before t."""
    inputs = scan_inputs(2, 80, 16, 4)
    out = selective_scan(*inputs)
    short = [t[:, :30] if t.dim() == 3 else t for t in inputs]
    assert torch.equal(selective_scan(*short), out[:, :30])
    inputs[0][:, 30] += 1
    changed = selective_scan(*inputs)
    assert torch.equal(changed[:, :30], out[:, :30])
    assert not torch.equal(changed[:, 30], out[:, 30])


def test_scan_gives_the_same_bytes_on_any_number_of_threads():
    def outcome(threads):
        torch.set_num_threads(threads)
        inputs = [t.requires_grad_() for t in scan_inputs(4, 20, 32, 8)]
        out = selective_scan(*inputs)
        return [out, *torch.autograd.grad(out.sum(), inputs)]

    assert all(torch.equal(one, two) for one, two in zip(outcome(1), outcome(2), strict=True))


def test_scan_keeps_its_inputs_for_the_way_back_and_no_states():
    batch, length, channels, states = 4, 64, 32, 16
    kept = []
    inputs = [t.requires_grad_() for t in scan_inputs(batch, length, channels, states)]
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.nbytes) or t, lambda t: t):
        selective_scan(*inputs)
    assert kept
    assert sum(kept) <= sum(t.nbytes for t in inputs) < 4 * batch * length * channels * states


@pytest.mark.parametrize(
    ("name", "low", "high", "error"),
    [
        ("exp2", -125, 60, 2.5e-7),
        ("softplus", -12, 40, 1e-6),
        ("softplus", -80, 80, 5e-6),
        ("sigmoid", -12, 40, 1e-6),
        ("sigmoid", -80, 80, 5e-6),
    ],
)
def test_vector_functions_are_as_exact_as_float32(name, low, high, error):
    function, right = VECTOR_FUNCTIONS[name]

    @njit
    def apply(x, out):
        for i in range(0, len(x), LANES):
            store(out, i, function(load(x, i)))

    x = np.linspace(low, high, 1 << 16, dtype=np.float32)
    found = np.empty_like(x)
    apply(x, found)
    expected = right(torch.from_numpy(x).double()).numpy()
    assert np.abs(found / expected - 1).max() < error


@pytest.mark.parametrize("which", range(7))
def test_nan_in_any_input_reaches_the_output(which):
    inputs = scan_inputs(1, 3, 16, 4)
    inputs[which].view(-1)[0] = torch.nan
    assert selective_scan(*inputs).isnan().any()


def test_plain_scan_serves_where_the_kernel_cannot():
    inputs = scan_inputs(1, 3, 16, 4)
    assert not fused_scan_serves(*(t.double() for t in inputs))
    assert not fused_scan_serves(*(t.to("meta") for t in inputs))
    growing = [*inputs[:2], -inputs[2], *inputs[3:]]
    assert not fused_scan_serves(*growing)
    assert torch.equal(selective_scan(*growing), selective_scan_reference(*growing))


def test_models_run_without_numba():
    """The plain forms take over when numba can't be imported, and give the same within rounding."""
    script = """
import sys
sys.modules["numba"] = None
import torch
from layerstate.adapters.reference import kernels
from layerstate.adapters.reference.mamba import Mamba
from layerstate.adapters.reference.mamba2 import Mamba2
assert not kernels.AVAILABLE
tokens = torch.arange(80).remainder(3)[None]
for model in (Mamba, Mamba2):
    torch.manual_seed(0)
    print(model(3, 2, blocks=1, width=16)(tokens).double().sum().item())
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    from layerstate.adapters.reference.mamba import Mamba
    from layerstate.adapters.reference.mamba2 import Mamba2

    for model, line in zip((Mamba, Mamba2), run.stdout.split(), strict=True):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            expected = model(3, 2, blocks=1, width=16)(torch.arange(80).remainder(3)[None]).double().sum().item()
        assert float(line) == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_new_process_reads_the_compiled_kernel_and_never_holds_all_states():
    """Peak memory grows by a few activations, (B, L, D), and stays far below the states, (B, L, D, N): 256 MiB."""
    script = """
import resource
import torch
from layerstate.adapters.reference import kernels
from layerstate.adapters.reference.selective_scan import selective_scan
torch.set_num_threads(1)
B, L, D, N = 16, 1024, 256, 16
def inputs(B, L):
    shapes = ((B, L, D), (B, L, D), (D, N), (B, L, N), (B, L, N), (D,), (B, L, D))
    return [(-torch.rand(s) if s == (D, N) else torch.randn(s)).requires_grad_() for s in shapes]
small, large = inputs(1, 2), inputs(B, L)
selective_scan(*small).sum().backward()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
selective_scan(*large).sum().backward()
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
hits = [sum(k.stats.cache_hits.values()) for k in (kernels.scan.scan_forward, kernels.scan.scan_backward)]
print(*hits, (after - before) // 1024)
"""
    # Compile here first, so that the new process finds the kernels whatever the order of the tests.
    inputs = [t.requires_grad_() for t in scan_inputs(1, 2, 16, 4)]
    selective_scan(*inputs).sum().backward()
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    forward_hits, backward_hits, grown = map(int, run.stdout.split())
    assert (forward_hits, backward_hits) == (1, 1)
    assert grown < 160


@pytest.fixture
def cached_kernel(tmp_path, monkeypatch):
    """A function that compiles one small kernel anew, with a cache of its own."""
    source = tmp_path / "doubling.py"
    source.write_text("def double(x):\n    for i in range(len(x)):\n        x[i] = x[i] + x[i]\n")
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "cache"))

    def compile_anew():
        namespace = {"__name__": "doubling"}
        exec(compile(source.read_text(), str(source), "exec"), namespace)
        kernel = compilation.compiled(namespace["double"])
        x = np.ones(3, np.float32)
        kernel(x)
        assert x.tolist() == [2, 2, 2]
        return sum(kernel.stats.cache_hits.values())

    return compile_anew


def test_kernel_is_compiled_anew_when_the_shared_arithmetic_changed(cached_kernel, monkeypatch):
    assert cached_kernel() == 0
    assert cached_kernel() == 1
    monkeypatch.setattr(compilation, "shared_source", lambda: "other")
    assert cached_kernel() == 0


def test_kernel_runs_where_no_folder_for_the_cache_can_be_written(cached_kernel, monkeypatch):
    def refuse(_self, _function):
        raise RuntimeError("cannot cache function 'double': no locator available")

    monkeypatch.setattr(compilation.KernelCache, "__init__", refuse)
    assert cached_kernel() == 0


def test_kernel_runs_where_the_disk_is_full_or_the_cache_is_broken(cached_kernel, monkeypatch, tmp_path):
    def refuse(*_):
        raise OSError("No space left on device")

    with monkeypatch.context() as full:
        full.setattr("numba.core.caching.IndexDataCacheFile.save", refuse)
        assert cached_kernel() == 0
    assert cached_kernel() == 0
    for file in (tmp_path / "cache").rglob("*.nb?"):
        file.write_bytes(file.read_bytes()[:20])
    assert cached_kernel() == 0


def test_kernels_are_in_use_here():
    """numba is a dependency: without this, every test above could pass on the plain forms alone."""
    assert kernels.AVAILABLE
