"""The adapter around any PyTorch module: sites are submodules, and one mechanism makes every edit.

Shape suffixes: B batch, L length, D width, C classes, K chosen positions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from .base import AdapterError, Edit, EditNeverFired, Fired, FloatArray, IntArray
from .naming import instead_of
from .output import Part, pick, replace
from .running import ForwardFailed, ModelRuns

__all__ = ["Component", "ModuleAdapter"]

Rewrite = Callable[[tuple[Any, ...], dict[str, Any], Any], Any]
"""(positional arguments, keyword arguments, output) of one call of a submodule to its new output; None leaves it."""


@dataclass(frozen=True)
class Component:
    """A part that can be ablated.

    Attributes
    ----------
    modes : tuple of str
        The ways it can be ablated.
    modules : tuple of nn.Module
        Where it is, one or more submodules, each called in every forward pass.
    switched : bool
        True where the submodules do it themselves when their ``ablation`` attribute holds a mode. False where their
        output is replaced from outside: ``zero`` by zeros, ``bypass`` by their first input.
    output : int or str, optional
        Where a submodule returns several things: the index, key or attribute of the one that is replaced. By default
        the place of the residual stream, and the first of several if that has none.
    """

    modes: tuple[str, ...]
    modules: tuple[nn.Module, ...]
    switched: bool = False
    output: Part | None = None


class ModuleAdapter:
    """Reads and edits the residual stream of `module` at the outputs of its submodules (see `base.Adapter`).

    Edits come in the order in which their contexts were opened, each on what the one before it left. A capture comes
    last, so that it reads the edited activations. An edit sees one batch of sequences at a time, in order; one that
    depends on the sequence is used with at most `batch_size` sequences a call.

    Parameters
    ----------
    module : nn.Module
        Called with int64 tokens (B, L) it returns logits (B, L, C).
    classes : int
        C.
    sites : mapping of str to nn.Module
        ``embed``, ``block.0`` … in order, each with the submodule that outputs it.
    components : mapping of str to Component
        What can be ablated.
    head : callable, optional
        h_BLD of the last site to logits. By default the forward pass is resumed: run on arbitrary tokens with the last
        site's output replaced.
    output : int or str, optional
        Where a submodule returns several things: the index, key or attribute of the residual stream among them.
    batch_size : int
        Most sequences in one forward pass.
    device : str or torch.device
        Where the module is moved to.
    version : int
        The adapter's version, part of the identity.

    Raises
    ------
    AdapterError
        If the sites are not ``embed`` and at least one block, numbered in order, each its own submodule.
    """

    def __init__(
        self,
        module: nn.Module,
        *,
        classes: int,
        sites: Mapping[str, nn.Module],
        components: Mapping[str, Component] | None = None,
        head: Callable[[Tensor], Tensor] | None = None,
        output: Part | None = None,
        batch_size: int = 128,
        device: str | torch.device = "cpu",
        version: int = 1,
    ) -> None:
        _check_sites(sites)
        self.version = version
        self.device = torch.device(device)
        self.module = module.to(self.device)
        self.classes = classes
        self.sites = tuple(sites)
        self.batch_size = batch_size
        self._modules = dict(sites)
        self._components = dict(components or {})
        self.components: Mapping[str, tuple[str, ...]] = {name: part.modes for name, part in self._components.items()}
        self._head = head
        self._output = output
        self._level = 0
        self._stages: tuple[nn.Module, ...] | None = None

    @classmethod
    def from_blocks(cls, module: nn.Module, *, classes: int, resumable: bool = True, **options: Any) -> ModuleAdapter:
        """The adapter of a module that keeps the convention of the reference zoo (see `adapters.reference`).

        It has ``embed``, ``blocks`` and ``head``; ``components`` and ``ablatable`` where parts can be ablated.
        `resumable`: whether blocks and head read nothing but the residual stream, so that the pass can go on from it.
        """
        parts = cast(Any, module)
        blocks = cast("list[nn.Module]", list(parts.blocks))
        components = {
            name: Component(modes, tuple(parts.ablatable(name)), switched=True)
            for name, modes in cast("dict[str, tuple[str, ...]]", getattr(module, "components", {})).items()
        }
        sites = {"embed": parts.embed} | {f"block.{i}": block for i, block in enumerate(blocks)}
        adapter = cls(module, classes=classes, sites=sites, components=components, head=parts.head, **options)
        adapter._stages = (*blocks, parts.head) if resumable else None
        return adapter

    def logits(self, tokens: IntArray) -> FloatArray:
        """Logits (n, length, classes) for tokens (n, length), in evaluation mode, under the edits in force."""
        with self._evaluating():
            return np.concatenate([_to_numpy(self._forward(batch_BL)) for batch_BL in self._batches(tokens)])

    def capture(
        self, tokens: IntArray, sites: Sequence[str] | None = None, positions: IntArray | None = None
    ) -> dict[str, FloatArray]:
        """Activations (n, length, width) at `sites` (all by default), as the edits in force leave them.

        With `positions` (n, k), the activations at those positions only: (n, k, width).
        """
        wanted = self.sites if sites is None else tuple(sites)
        for site in wanted:
            self._check_site(site)
        if positions is not None:
            _check_positions(positions, tokens)
        pieces: dict[str, list[FloatArray]] = {site: [] for site in wanted}
        with self._evaluating():
            for start, batch_BL in zip(range(0, len(tokens), self.batch_size), self._batches(tokens), strict=True):
                for site, h_BLD in self._capture_batch(batch_BL, wanted).items():
                    if positions is not None:
                        h_BLD = _at_positions(h_BLD, positions[start : start + len(batch_BL)])
                    pieces[site].append(_to_numpy(h_BLD))
        return {site: np.concatenate(parts) for site, parts in pieces.items()}

    def head(self, activations: FloatArray) -> FloatArray:
        """The model's own readout: activations (n, length, width) of the last site to logits.

        Edits and ablations in force don't touch it.
        """
        if activations.ndim != 3 or not len(activations):
            raise AdapterError(f"The head reads activations (n, length, width), not an array {activations.shape}.")
        pieces: list[FloatArray] = []
        with self._evaluating(), self._without_edits():
            for start in range(0, len(activations), self.batch_size):
                h_BLD = torch.tensor(activations[start : start + self.batch_size], device=self.device)
                with ModelRuns(tuple(h_BLD.shape)):
                    logits_BLC = self._head(h_BLD) if self._head else self._resume(h_BLD)
                pieces.append(_to_numpy(logits_BLC))
        return np.concatenate(pieces)

    def resume(self, tokens: IntArray, site: str, activations: FloatArray) -> FloatArray:
        """Logits of the forward pass on `tokens` with `activations` at `site` (see `base.Adapter`).

        A module with the convention of the reference zoo runs what comes after the site alone; any other one runs as a
        whole with the site's output replaced.
        """
        self._check_site(site)
        if activations.ndim != 3 or activations.shape[:2] != tokens.shape:
            raise AdapterError(
                f"The forward pass goes on from activations ({tokens.shape[0]}, {tokens.shape[1]}, width) at {site}, "
                f"not {activations.shape}."
            )
        after = self.sites.index(site)
        pieces: list[FloatArray] = []
        with self._evaluating():
            for start, tokens_BL in zip(range(0, len(tokens), self.batch_size), self._batches(tokens), strict=True):
                h_BLD = torch.tensor(activations[start : start + self.batch_size], device=self.device)
                if self._stages is None:
                    pieces.append(_to_numpy(self._substituted(tokens_BL, site, h_BLD)))
                    continue
                with ModelRuns(tuple(tokens_BL.shape)):
                    for stage in self._stages[after:]:
                        h_BLD = stage(h_BLD)
                pieces.append(_to_numpy(h_BLD))
        return np.concatenate(pieces)

    def edit(self, edits: Mapping[str, Edit]) -> AbstractContextManager[Fired]:
        """While open, replace the activations at each site by what its edit returns (see `base.Adapter`)."""
        for site in edits:
            self._check_site(site)
        return self._rewriting(
            {site: ((self._modules[site],), self._edit_rewrite(site, edits[site])) for site in edits}
        )

    def ablate(self, component: str, mode: str) -> AbstractContextManager[Fired]:
        """While open, run with `component` ablated in `mode` in every block that has it (see `base.Adapter`)."""
        if component not in self._components:
            raise AdapterError(f"There is no component {component!r}{instead_of(component, self._components)}")
        part = self._components[component]
        if mode not in part.modes:
            raise AdapterError(f"The component {component} has no ablation {mode!r}{instead_of(mode, part.modes)}")
        if part.switched:
            return self._switching(component, mode, part)
        return self._rewriting({component: (part.modules, self._ablation_rewrite(component, mode, part.output))})

    @contextmanager
    def _rewriting(self, rewrites: Mapping[str, tuple[Sequence[nn.Module], Rewrite]]) -> Iterator[Fired]:
        """The one mechanism of edits: rewrite outputs of submodules, count every firing, remove whatever happens."""
        level = self._level
        fired = Fired(dict.fromkeys(rewrites, 0))
        silent = {name: list(range(len(modules))) for name, (modules, _) in rewrites.items()}

        def hook_for(name: str, index: int, rewrite: Rewrite) -> Callable[..., Any]:
            def hook(_: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Any], output: Any) -> Any:
                if self._level != level:
                    return None
                fired.counts[name] += 1
                if index in silent[name]:
                    silent[name].remove(index)
                return rewrite(arguments, keywords, output)

            return hook

        with ExitStack() as hooks:
            for name, (modules, rewrite) in rewrites.items():
                for index, module in enumerate(modules):
                    handle = module.register_forward_hook(hook_for(name, index, rewrite), with_kwargs=True)
                    hooks.callback(handle.remove)
            yield fired
        for name, (modules, _) in rewrites.items():
            if silent[name]:
                raise EditNeverFired(self._never_fired(name, [modules[index] for index in silent[name]], len(modules)))

    @contextmanager
    def _switching(self, component: str, mode: str, part: Component) -> Iterator[Fired]:
        """Select `mode` in submodules that ablate themselves; the same mechanism, rewriting nothing, counts them."""
        before = [getattr(module, "ablation", None) for module in part.modules]
        with self._rewriting({component: (part.modules, lambda *_: None)}) as fired:
            try:
                for module in part.modules:
                    cast(Any, module).ablation = mode
                yield fired
            finally:
                for module, value in zip(part.modules, before, strict=True):
                    cast(Any, module).ablation = value

    def _edit_rewrite(self, site: str, edit: Edit) -> Rewrite:
        def rewrite(_: tuple[Any, ...], __: dict[str, Any], output: Any) -> Any:
            h_BLD = pick(output, self._output, f"the site {site}")
            edited_BLD = edit(h_BLD)
            if not isinstance(edited_BLD, Tensor) or edited_BLD.shape != h_BLD.shape:
                found = tuple(edited_BLD.shape) if isinstance(edited_BLD, Tensor) else type(edited_BLD).__name__
                raise AdapterError(f"The edit at {site} returned {found}, not activations {tuple(h_BLD.shape)}.")
            return replace(output, self._output, edited_BLD)

        return rewrite

    def _ablation_rewrite(self, component: str, mode: str, place: Part | None) -> Rewrite:
        place = self._output if place is None else place

        def rewrite(arguments: tuple[Any, ...], keywords: dict[str, Any], output: Any) -> Any:
            part = 0 if place is None and isinstance(output, tuple | list) else place
            h_BLD = pick(output, part, f"the component {component}", ("components", component, "output"))
            if mode == "zero":
                return replace(output, part, torch.zeros_like(h_BLD))
            source = next((value for value in (*arguments, *keywords.values()) if isinstance(value, Tensor)), None)
            if source is None or source.shape != h_BLD.shape:
                found = "no tensor" if source is None else f"a tensor {tuple(source.shape)}"
                raise AdapterError(
                    f"The component {component} can't be bypassed: its input is {found} and its output "
                    f"{tuple(h_BLD.shape)}. Declare the mode zero alone for it."
                )
            return replace(output, part, source)

        return rewrite

    def _capture_batch(self, tokens_BL: Tensor, sites: Sequence[str]) -> dict[str, Tensor]:
        """h_BLD at `sites`, read after all edits in force."""
        seen: dict[str, list[Tensor]] = {site: [] for site in sites}
        order: list[str] = []

        def hook_for(site: str) -> Callable[..., None]:
            def hook(_: nn.Module, __: Any, output: Any) -> None:
                h_BLD = pick(output, self._output, f"the site {site}")
                seen[site].append(h_BLD.detach().clone())  # the next block may add to it in place
                order.append(site)

            return hook

        with ExitStack() as hooks:
            for site in sites:
                hooks.callback(self._modules[site].register_forward_hook(hook_for(site)).remove)
            self._forward(tokens_BL)
        for site, found in seen.items():
            self._check_captured(site, found, tuple(tokens_BL.shape))
        _check_order(order, self.sites)
        return {site: found[0] for site, found in seen.items()}

    def _resume(self, h_BLD: Tensor) -> Tensor:
        """Logits of the forward pass that goes on from h_BLD at the last site, whatever the tokens were."""
        tokens_BL = torch.zeros(h_BLD.shape[:2], dtype=torch.int64, device=self.device)
        return self._substituted(tokens_BL, self.sites[-1], h_BLD)

    def _substituted(self, tokens_BL: Tensor, site: str, h_BLD: Tensor) -> Tensor:
        """Logits of the whole forward pass with h_BLD in the place of what the site gives."""

        def substitute(_: tuple[Any, ...], __: dict[str, Any], output: Any) -> Any:
            return replace(output, self._output, h_BLD.to(pick(output, self._output, f"the site {site}").dtype))

        with self._rewriting({site: ((self._modules[site],), substitute)}):
            return self._forward(tokens_BL)

    def _forward(self, tokens_BL: Tensor) -> Tensor:
        with ModelRuns(tuple(tokens_BL.shape)):
            logits_BLC = self.module(tokens_BL)
        expected = (*tokens_BL.shape, self.classes)
        if not isinstance(logits_BLC, Tensor) or tuple(logits_BLC.shape) != expected:
            found = tuple(logits_BLC.shape) if isinstance(logits_BLC, Tensor) else type(logits_BLC).__name__
            raise ForwardFailed(
                f"For tokens {tuple(tokens_BL.shape)} the model returned {found}; it must return one tensor of logits "
                f"{expected}: (batch, length, classes)."
            )
        return logits_BLC

    def _batches(self, tokens: IntArray) -> Iterator[Tensor]:
        if tokens.ndim != 2 or not tokens.size or not np.issubdtype(tokens.dtype, np.integer):
            raise AdapterError(f"Tokens are whole numbers (n, length), not {tokens.dtype} {tokens.shape}.")
        for start in range(0, len(tokens), self.batch_size):
            yield torch.as_tensor(tokens[start : start + self.batch_size].astype(np.int64), device=self.device)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Evaluation mode without gradients; afterwards every submodule is back in the mode it was in."""
        training = [part for part in self.module.modules() if part.training]
        self.module.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            for part in training:
                part.training = True

    @contextmanager
    def _without_edits(self) -> Iterator[None]:
        """Edits opened outside rest, uncounted; those opened inside work."""
        self._level += 1
        try:
            yield
        finally:
            self._level -= 1

    def _check_site(self, site: str) -> None:
        if site not in self._modules:
            raise AdapterError(f"There is no site {site!r}{instead_of(site, self.sites)}")

    def _check_captured(self, site: str, found: list[Tensor], tokens_shape: tuple[int, ...]) -> None:
        if len(found) != 1:
            times = "never called" if not found else f"called {len(found)} times"
            raise AdapterError(
                f"The submodule {self._name_of(self._modules[site])} of the site {site} was {times} in one forward "
                "pass; a site is a submodule that is called once."
            )
        shape = tuple(found[0].shape)
        if len(shape) != 3 or shape[:2] != tokens_shape:
            raise AdapterError(
                f"The site {site} gives activations {shape} for tokens {tokens_shape}; it must give (batch, length, "
                "width), batch first."
            )

    def _never_fired(self, name: str, silent: Sequence[nn.Module], total: int) -> str:
        names = ", ".join(self._name_of(module) for module in silent)
        return (
            f"The edit of {name} never fired in {len(silent)} of {total} places: no forward pass called {names}. "
            "Run the model inside the context, and name submodules that the model calls as modules."
        )

    def _name_of(self, module: nn.Module) -> str:
        return next((name for name, part in self.module.named_modules() if part is module), type(module).__name__)


def _check_sites(sites: Mapping[str, nn.Module]) -> None:
    expected = ("embed", *(f"block.{index}" for index in range(len(sites) - 1)))
    if len(sites) < 2 or tuple(sites) != expected:
        raise AdapterError(f"The sites are embed, block.0, block.1 … in order, not {', '.join(sites) or 'none'}.")
    owners: dict[int, str] = {}
    for site, module in sites.items():
        if id(module) in owners:
            raise AdapterError(f"The sites {owners[id(module)]} and {site} are one submodule; each needs its own.")
        owners[id(module)] = site


def _check_order(called: Sequence[str], sites: Sequence[str]) -> None:
    """The forward pass must come to the sites in their order, or their numbers would not be depths."""
    right = [site for site in sites if site in called]
    if list(called) != right:
        raise AdapterError(
            f"The forward pass comes to the sites in the order {', '.join(called)}, not {', '.join(right)}. "
            "Name the submodules in the order in which the model calls them."
        )


def _check_positions(positions: IntArray, tokens: IntArray) -> None:
    if positions.ndim != 2 or len(positions) != len(tokens):
        raise AdapterError(f"Positions are an array ({len(tokens)}, k), one row a sequence, not {positions.shape}.")
    if positions.size and not 0 <= positions.min() <= positions.max() < tokens.shape[1]:
        raise AdapterError(f"Positions go from 0 to {tokens.shape[1] - 1}; found {positions.min()}…{positions.max()}.")


def _at_positions(h_BLD: Tensor, positions: IntArray) -> Tensor:
    index_BK = torch.as_tensor(positions.astype(np.int64), device=h_BLD.device)
    return h_BLD.gather(1, index_BK[..., None].expand(-1, -1, h_BLD.shape[-1]))


def _to_numpy(tensor: Tensor) -> FloatArray:
    """A float32 copy that no later pass can change in place."""
    return np.array(tensor.detach().to("cpu", torch.float32).numpy(), dtype=np.float32)
