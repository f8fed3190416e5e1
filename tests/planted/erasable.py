"""Networks for erasure, and a task with a second state: how many directions hold the state, and which of them count.

An eraser takes what a probe fitted on a sample says, and that leans a little off the planted directions. What stays of
the state along the rest must drown in nuisance there, so the nuisance is as large as what is planted.
"""

from __future__ import annotations

import numpy as np
import torch
from layerstate.tasks import Batch
from torch import Tensor

from .networks import (
    NOISE,
    WIDTH,
    Memory,
    Network,
    Stem,
    directions,
    plain_stem,
    reads_code,
    simplex,
    writes_code,
)
from .task import RunningSum

GROWTH = 1.5
"""Each copy is this many times as large as the one before."""
OVERLAP = 1.2
"""Noise along a copy, as a share of the copy: above 1, so that no copy alone can be read without error."""


def copies(count: int) -> Network:
    """Copies of the state along orthogonal directions from block 1 on; the head adds them up.

    Each tells the state as well as any other, so a probe weighs them alike once each is divided by its size: its
    direction leans to the small ones, the difference of the class means to the large ones. So whatever INLP takes, the
    rest still has a mean difference, until as many directions are gone as there are copies. Were all of one size, the
    first direction would take them all.
    """
    memory, code_C, basis_DD = Memory(2), simplex(2)[:, 0], directions(WIDTH)
    size_K = GROWTH ** torch.arange(count)
    noise_K = size_K * (NOISE if count == 1 else OVERLAP)
    nuisance_D = torch.full((WIDTH,), float(noise_K[-1]))
    nuisance_D[:count] = noise_K
    written_D, read_D = size_K @ basis_DD[:count], basis_DD[:count].sum(dim=0)
    return Network(
        Stem(memory, basis_DD, nuisance_D),
        {1: lambda _: code_C[memory.state_BL][..., None] * written_D},
        lambda h_BLD: (h_BLD @ read_D)[..., None] * code_C,
    )


def two_copies(size: float = 6.0) -> Network:
    """Two copies from block 1 on, either enough: without the first the head takes the second.

    As `networks.redundant`, amid nuisance that leaves nothing to be read once both directions are gone.
    """
    memory, code_C, basis_DD = Memory(2), simplex(2)[:, 0], directions(WIDTH)
    first_D, second_D = basis_DD[:2]
    nuisance_D = torch.full((WIDTH,), 10.0)
    nuisance_D[:2] = 2.0

    def write(_: Tensor) -> Tensor:
        state_BL = size * code_C[memory.state_BL]
        slip_BL = memory.hash_BLD(9, 1)[..., 0] < -0.99
        return state_BL[..., None] * first_D + (state_BL * torch.where(slip_BL, -6.0, 1.0))[..., None] * second_D

    def read(h_BLD: Tensor) -> Tensor:
        first_BL, second_BL = h_BLD @ first_D, h_BLD @ second_D
        second_BL = torch.where(second_BL.abs() > 2.5 * size, -second_BL, second_BL)
        return torch.where(first_BL.abs() > size / 2, first_BL, second_BL)[..., None] * code_C

    return Network(Stem(memory, basis_DD, nuisance_D), {1: write}, read)


def solved_beside_the_stream(nuisance: float = 3.0) -> Network:
    """A copy from block 1 on that nothing uses: the head takes the state from the tokens, and nuisance in its way.

    So it is right in part only, and an ablation can change what it says, but never by taking the state.
    """
    memory, code_CK, (copy_D, other_D) = Memory(2), simplex(2), directions(2)

    def read(h_BLD: Tensor) -> Tensor:
        return (code_CK[memory.state_BL, 0] + nuisance * (h_BLD @ other_D))[..., None] * code_CK[:, 0]

    return Network(plain_stem(memory), {1: writes_code(memory, code_CK, copy_D[None])}, read)


class WithFurtherStates(RunningSum):
    """Beside the sum: the parity of the noise symbols so far, the sum's opposite, and a state that never changes."""

    def __init__(self) -> None:
        super().__init__(2)
        self.classes = {"sum": 2, "noise": 2, "opposite": 2, "constant": 2}

    def _labelled(self, tokens: np.ndarray) -> Batch:
        total, noise = (np.cumsum(part, axis=1) % 2 for part in (tokens % 2, tokens // 2))
        return Batch(tokens, {"sum": total, "noise": noise, "opposite": 1 - total, "constant": np.zeros_like(total)})


def two_states() -> Network:
    """The sum and the noise's parity from block 1 on, along directions of their own; the head reads the sum."""
    memory, code_CK, (sum_D, noise_D) = Memory(2), simplex(2), directions(2)
    write_sum = writes_code(memory, code_CK, sum_D[None])

    def write(h_BLD: Tensor) -> Tensor:
        parity_BL = (memory.tokens_BL // memory.classes).cumsum(dim=1) % 2
        return write_sum(h_BLD) + (1.0 - 2.0 * parity_BL)[..., None] * noise_D

    return Network(plain_stem(memory), {1: write}, reads_code(code_CK, sum_D[None]))
