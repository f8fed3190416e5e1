"""From a spec's adapter fields to a wrapped, freshly initialised model. Imports torch only when it builds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .base import Adapter, AdapterError
from .naming import instead_of

if TYPE_CHECKING:
    import torch

__all__ = ["VERSIONS", "adapter_version", "build_adapter"]

VERSIONS: Mapping[str, int] = {"reference": 1, "torch_module": 1, "huggingface": 1, "mamba_ssm": 1}
"""Each adapter's version: raised whenever the same spec, seed and weights could give other numbers."""


def adapter_version(adapter: str) -> int:
    """The version of the adapter called `adapter`, for the identity; `AdapterError` if there is none."""
    if adapter not in VERSIONS:
        raise AdapterError(f"There is no adapter {adapter!r}{instead_of(adapter, VERSIONS)}")
    return VERSIONS[adapter]


def build_adapter(
    adapter: str,
    options: Mapping[str, Any],
    *,
    vocab_size: int,
    classes: int,
    seed: int,
    device: str = "cpu",
    base: Path | None = None,
    trust_remote_code: bool = False,
    length: int = 3,
) -> Adapter:
    """A model wrapped for measuring, its initial weights a function of the spec and `seed` alone.

    Torch's global generator is left as it was found, and the weights are drawn on the CPU whatever the device.

    Parameters
    ----------
    adapter : {"reference", "torch_module", "huggingface", "mamba_ssm"}
        Which wrapper.
    options : mapping
        The spec's fields for it: ``architecture`` (its ``type`` and options); or ``module``, ``sites``, ``components``;
        or ``checkpoint``, ``symbols`` (of the task) and what `huggingface.build_huggingface` reads besides.
    vocab_size, classes : int
        Number of tokens and of values of the target state.
    seed : int
        Seed of the initial weights.
    device : str
        Where the model is moved to.
    base : Path, optional
        The folder that files are relative to: that of the YAML. The working directory by default.
    trust_remote_code : bool
        Whether a checkpoint's own Python code may be run.
    length : int
        Tokens of the sequences that a module of the user's own is tried on: a length that it must take.

    Raises
    ------
    AdapterError
        If the model can't be built or wrapped as the options say.
    """
    version = adapter_version(adapter)
    place = _device(device)
    with _seeded(seed):
        if adapter == "reference":
            return _build_reference(options, vocab_size, classes, place, version)
        common: dict[str, Any] = {"vocab_size": vocab_size, "classes": classes, "device": place, "version": version}
        common["base"] = base or Path.cwd()
        if adapter == "huggingface":
            from .huggingface import build_huggingface

            return build_huggingface(options, **common, trust_remote_code=trust_remote_code)
        if adapter == "mamba_ssm":
            from .mamba_ssm import build_mamba_ssm

            return build_mamba_ssm(options, **common)
        from .torch_module import build_torch_module

        return build_torch_module(options, **common, length=length)


def _build_reference(
    options: Mapping[str, Any], vocab_size: int, classes: int, device: torch.device, version: int
) -> Adapter:
    from .module import ModuleAdapter
    from .reference import build

    architecture = dict(options["architecture"])
    module = build(architecture.pop("type"), architecture, vocab_size, classes)
    return ModuleAdapter.from_blocks(module, classes=classes, device=device, version=version)


def _device(device: str) -> torch.device:
    import torch

    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise AdapterError(f"There is no device {device!r}: use cpu or cuda.") from error
    if place.type == "cuda" and not torch.cuda.is_available():
        raise AdapterError("The device cuda was asked for, and torch finds no CUDA device here. Use cpu.")
    return place


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Torch's CPU generator starts from `seed` inside, and goes on outside as if nothing had been drawn."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
