"""Networks whose answer depends on how many directions are taken, or on how long the sequence is (see `networks`)."""

from __future__ import annotations

import torch
from layerstate.adapters.base import AdapterError
from torch import Tensor

from .networks import (
    NOISE,
    WIDTH,
    Memory,
    Network,
    Stem,
    directions,
    hidden_sign,
    plain_stem,
    reads_code,
    simplex,
    writes_code,
)
from .task import LENGTH

LOUD = 3
"""Directions along which the nuisance of `quiet_state` is larger than the state."""


def loud_state() -> Network:
    """From block 1 on the state varies more than anything else: three times the code, amid little nuisance."""
    memory, code_CK, along_KD = Memory(2), simplex(2), directions(1)
    stem = Stem(memory, directions(WIDTH), torch.full((WIDTH,), NOISE))
    return Network(stem, {1: writes_code(memory, code_CK, 3.0 * along_KD)}, reads_code(code_CK, along_KD))


def quiet_state() -> Network:
    """From block 1 on the state on one direction, amid nuisance that is far larger along three others."""
    memory, code_CK, basis_DD = Memory(2), simplex(2), directions(WIDTH)
    size_D = torch.full((WIDTH,), NOISE)
    size_D[1 : 1 + LOUD] = 10.0 * NOISE
    return Network(
        Stem(memory, basis_DD, size_D),
        {1: writes_code(memory, code_CK, basis_DD[:1])},
        reads_code(code_CK, basis_DD[:1]),
    )


def guesses_beside(share: float = 0.4) -> Network:
    """A readable copy from block 1 on, of no use: the head knows the state, but for a share of positions it guesses.

    It guesses the copy's sign or the opposite, by a coin that no activation holds. So ablations change many answers,
    and make the output neither better nor worse, whatever they leave of the copy.
    """
    memory, code_CK, copy_D = Memory(2), simplex(2), directions(1)[0]

    def read(h_BLD: Tensor) -> Tensor:
        coin_BL, guessing_BL = memory.hash_BLD(11, 2).unbind(-1)
        guess_BLC = ((h_BLD @ copy_D) * coin_BL).sign()[..., None] * code_CK[:, 0]
        known_BLC = code_CK[memory.state_BL] @ code_CK.T
        return torch.where((guessing_BL < 2 * share - 1)[..., None], guess_BLC, known_BLC)

    return Network(plain_stem(memory), {1: writes_code(memory, code_CK, copy_D[None])}, read)


def at_chance_beyond_training() -> Network:
    """The state on one direction from block 1 on; in a longer sequence the head reads nuisance instead."""
    memory, code_CK, (state_D, other_D) = Memory(2), simplex(2), directions(2)

    def read(h_BLD: Tensor) -> Tensor:
        along_D = state_D if h_BLD.shape[1] <= LENGTH else other_D
        return reads_code(code_CK, along_D[None])(h_BLD)

    return Network(plain_stem(memory), {1: writes_code(memory, code_CK, state_D[None])}, read)


def other_copy_beyond_training() -> Network:
    """Two copies from block 1 on: the head reads the plain one at positions seen in training, and a hidden one after.

    No linear ruler sees the hidden one, so that at twice the length half of the positions do without the plain one.
    """
    memory, code_CK, along_KD = Memory(2), simplex(2), directions(1)
    write_hidden, read_hidden = hidden_sign(memory)
    write_plain, read_plain = writes_code(memory, code_CK, along_KD), reads_code(code_CK, along_KD)

    def read(h_BLD: Tensor) -> Tensor:
        return torch.cat([read_plain(h_BLD[:, :LENGTH]), read_hidden(h_BLD[:, LENGTH:])], dim=1)

    return Network(plain_stem(memory), {1: lambda h_BLD: write_plain(h_BLD) + write_hidden(h_BLD)}, read)


class BoundedStem(Stem):
    """Nuisance along every direction, for sequences as long as those of training and no longer."""

    def forward(self, tokens_BL: Tensor) -> Tensor:
        if tokens_BL.shape[1] > LENGTH:
            raise AdapterError(f"A sequence of {tokens_BL.shape[1]} tokens is longer than the {LENGTH} positions.")
        return super().forward(tokens_BL)


def bounded() -> Network:
    """The state on one direction from block 1 on, in a network that refuses longer sequences."""
    memory, code_CK, along_KD = Memory(2), simplex(2), directions(1)
    stem = BoundedStem(memory, directions(WIDTH), torch.full((WIDTH,), NOISE))
    return Network(stem, {1: writes_code(memory, code_CK, along_KD)}, reads_code(code_CK, along_KD))
