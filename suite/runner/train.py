"""Training a cell: the same recipe, task and seed give the same weights, however often it was interrupted on the way.

Every step draws its own data from (seed, step), so that going on from a saved state needs no state of any generator.
Shape suffixes: B batch, L length, C classes.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from ...adapters import ModelRuns
from ...adapters.base import Adapter
from ...tasks import draw
from ..spec.results import Curve
from ..spec.schema import FineTuning, Training
from .checkpoint import Position, load_state, save_state
from .curriculum import Stage
from .errors import CellFailed
from .versions import VALIDATION_SEQUENCES

__all__ = ["Trained", "learning_rate", "train"]

OnStep = Callable[[int, int, float, float | None], None]
"""Called after each step with (step, steps, loss, last validation accuracy)."""


@dataclass(frozen=True)
class Trained:
    """What a training did."""

    steps: int
    stopped_early: bool
    curve: Curve
    seconds: float


def train(
    adapter: Adapter,
    stages: list[Stage],
    training: Training,
    seed: int,
    *,
    state: Path,
    on_step: OnStep,
    should_stop: Callable[[], bool],
    tell: Callable[[str], None],
    save_every: float = 60.0,
) -> Trained:
    """Train the adapter's module in place, going on from `state` if it is there.

    Parameters
    ----------
    adapter : Adapter
        A freshly built model; its initial weights belong to `seed`.
    stages : list of Stage
        The curriculum; the last one is the task itself, at the training length, up to the last step.
    training : Training
        The recipe.
    seed : int
        The cell's seed.
    state : Path
        Where the state is saved every `save_every` seconds, and when `should_stop` says so.
    on_step : callable
        Gets (step, steps, loss, last accuracy) after every step.
    should_stop : callable
        Asked after every step; if true, the state is saved and KeyboardInterrupt raised.
    tell : callable
        Gets a sentence if a damaged state was set aside.
    save_every : float
        Seconds between two saves; it changes no number.

    Raises
    ------
    CellFailed
        If the device can't compute in the recipe's precision; or if the loss is not finite: the message says at which
        step and learning rate.
    """
    module: nn.Module = adapter.module
    _expect_precision(training, adapter.device)
    optimizer = make_optimizer(module, training)
    position = load_state(state, module, optimizer, tell) or Position()
    learner = _Learner(adapter, optimizer, stages, training, seed, position)
    started = saved = time.monotonic()
    before = position.seconds

    def save_now() -> None:
        position.seconds = before + time.monotonic() - started
        save_state(state, module, optimizer, position)

    with _deterministic(adapter.device):
        while not learner.done:
            loss = learner.step()
            on_step(position.step, training.steps, loss, position.accuracies[-1] if position.accuracies else None)
            if should_stop():
                save_now()
                raise KeyboardInterrupt
            if time.monotonic() - saved >= save_every:
                save_now()
                saved = time.monotonic()
    return Trained(
        steps=position.step,
        stopped_early=position.step < training.steps,
        curve=Curve(step=position.steps, loss=position.losses, accuracy=position.accuracies),
        seconds=before + time.monotonic() - started,
    )


def learning_rate(training: Training, step: int) -> float:
    """The learning rate of step `step` (from 0): linear warm-up to the peak, then constant or a half cosine down."""
    peak = training.learning_rate
    if step < training.warmup:
        return peak * (step + 1) / training.warmup
    if training.schedule == "constant":
        return peak
    share = min(1.0, (step - training.warmup) / max(1, training.steps - training.warmup))
    return peak * (training.final_share + (1.0 - training.final_share) * 0.5 * (1.0 + math.cos(math.pi * share)))


def make_optimizer(module: nn.Module, training: Training) -> torch.optim.AdamW:
    """AdamW whose decay acts on matrices only, without those marked ``_no_weight_decay`` (as mamba_ssm marks them)."""
    trainable = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if not trainable:
        raise CellFailed("The model has no trainable parameters. Build it with requires_grad, or name another module.")
    decayed = [p for p in trainable if p.ndim >= 2 and not getattr(p, "_no_weight_decay", False)]
    chosen = {id(parameter) for parameter in decayed}
    groups = [
        {"params": decayed, "weight_decay": training.weight_decay},
        {"params": [p for p in trainable if id(p) not in chosen], "weight_decay": 0.0},
    ]
    fused = all(parameter.is_floating_point() for parameter in trainable)
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=training.learning_rate,
        betas=(0.9, training.beta2),
        fused=fused,
    )


@dataclass
class _Learner:
    """A model in training: one method a step."""

    adapter: Adapter
    optimizer: torch.optim.Optimizer
    stages: list[Stage]
    training: Training
    seed: int
    position: Position
    _parameters: list[nn.Parameter] = field(init=False)

    def __post_init__(self) -> None:
        last = self.stages[-1]
        self._validation = draw(last.task, "validation", VALIDATION_SEQUENCES, last.length, seed=0)
        self._parameters = list(self.adapter.module.parameters())

    @property
    def done(self) -> bool:
        """Whether the budget is used up, or the accuracy was good enough often enough running."""
        enough = self.training.stop_at_accuracy is not None and self.position.streak >= self.training.stop_after
        return enough or self.position.step >= self.training.steps

    def step(self) -> float:
        """One update, and an evaluation where one is due; the loss in nats."""
        loss = self._update(self.position.step)
        self.position.step += 1
        self.position.loss_sum += loss
        self.position.loss_count += 1
        if self.position.step % self.training.evaluate_every == 0 or self.position.step == self.training.steps:
            self._evaluate()
        return loss

    def _update(self, step: int) -> float:
        tokens_BL, states_BL = self._data(step)
        rate = learning_rate(self.training, step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.adapter.module.train()
        _seed_dropout(self.seed, step, self.adapter.device)
        self.optimizer.zero_grad(set_to_none=True)
        parts = self.training.accumulate if isinstance(self.training, FineTuning) else 1
        value = 0.0
        for part_BL, target_BL in zip(tokens_BL.chunk(parts), states_BL.chunk(parts), strict=True):
            value += self._add_gradients(part_BL, target_BL, 1.0 / parts)
            if not math.isfinite(value):
                raise CellFailed(f"The loss became {value} at step {step + 1}{self._advice(rate)}")
        if self.training.clip is not None:
            nn.utils.clip_grad_norm_(self._parameters, self.training.clip)
        self.optimizer.step()
        return value

    def _add_gradients(self, tokens_BL: torch.Tensor, states_BL: torch.Tensor, share: float) -> float:
        """Add what a part of the batch gives to the gradients; its share of the loss, which adds none if not finite."""
        half = _is_half(self.training)
        autocast = torch.autocast(self.adapter.device.type, torch.bfloat16) if half else nullcontext()
        with ModelRuns(tuple(tokens_BL.shape)), autocast:
            logits_BLC: torch.Tensor = self.adapter.module(tokens_BL)
        loss = share * functional.cross_entropy(logits_BLC.flatten(0, 1).float(), states_BL.flatten())
        value = loss.item()
        if math.isfinite(value):
            loss.backward()  # pyright: ignore[reportUnknownMemberType]
        return value

    def _data(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        stage = next(stage for stage in self.stages if step < stage.until)
        batch = draw(stage.task, "train", self.training.batch_size, stage.length, seed=(self.seed, step))
        device = self.adapter.device
        return (
            torch.as_tensor(batch.tokens, device=device),
            torch.as_tensor(batch.states[stage.task.target], device=device),
        )

    def _evaluate(self) -> None:
        position = self.position
        logits_BLC = self.adapter.logits(self._validation.tokens)
        if not np.isfinite(logits_BLC).all():
            rate = learning_rate(self.training, position.step - 1)
            raise CellFailed(f"The model's outputs are not finite after step {position.step}{self._advice(rate)}")
        target = self._validation.states[self.stages[-1].task.target]
        accuracy = float((logits_BLC.argmax(-1) == target).mean())
        position.steps.append(position.step)
        position.losses.append(position.loss_sum / position.loss_count)
        position.accuracies.append(accuracy)
        position.loss_sum, position.loss_count = 0.0, 0
        wanted = self.training.stop_at_accuracy
        position.streak = position.streak + 1 if wanted is not None and accuracy >= wanted else 0

    def _advice(self, rate: float) -> str:
        return (
            f" of {self.training.steps} (learning rate {rate:.2g}). A smaller learning_rate, a longer warmup or a "
            "smaller clip in the model's training may help; if it happens at once, look into the model itself."
        )


def _is_half(training: Training) -> bool:
    return isinstance(training, FineTuning) and training.precision == "bfloat16"


def _expect_precision(training: Training, device: torch.device) -> None:
    if not _is_half(training):
        return
    able = torch.cuda.is_bf16_supported() if device.type == "cuda" else _cpu_has_bfloat16()
    if not able:
        raise CellFailed(
            f"`precision: bfloat16` needs hardware that computes in it, and this {device.type} does not. Use float32, "
            "or a CUDA device that does."
        )


def _cpu_has_bfloat16() -> bool:
    return torch.backends.mkldnn.is_available() and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())  # pyright: ignore


def _seed_dropout(seed: int, step: int, device: torch.device) -> None:
    """Start torch's global generator anew at each step, so that dropout needs no saved state when training goes on."""
    number = int.from_bytes(hashlib.sha256(f"{seed} {step}".encode()).digest()[:8]) >> 1
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.manual_seed(number)


@contextmanager
def _deterministic(device: torch.device) -> Generator[None]:
    """Deterministic kernels on CUDA; torch's generators go on afterwards as if nothing had been drawn."""
    cuda = device.type == "cuda"
    before = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    with torch.random.fork_rng(devices=[device] if cuda else []):  # pyright: ignore[reportUnknownMemberType]
        if cuda:
            torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before, warn_only=warned)
