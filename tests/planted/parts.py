"""Networks for patching and attribution: what each site carries, and what each component does, is known exactly."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from layerstate.adapters import AdapterError
from torch import Tensor, nn

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
from .task import NOISE_SYMBOLS

Write = Callable[[Tensor], Tensor]


def in_two_parts(first: float) -> Network:
    """The state along one direction: this share of it from block 1 on, the rest from block 3 on."""
    memory, code_CK, along_KD = Memory(2), simplex(2), directions(1)
    whole = writes_code(memory, code_CK, along_KD)
    writes: dict[int, Write] = {1: lambda h: first * whole(h), 3: lambda h: (1 - first) * whole(h)}
    return Network(plain_stem(memory), writes, reads_code(code_CK, along_KD))


def handed_on() -> Network:
    """The token along one direction; block 1 hands a copy to the next position, and block 3 computes from copies.

    What position t ends with is its own token times all that were handed to positions up to it.
    """
    memory, code_CK, (state_D, token_D, copy_D) = Memory(2), simplex(2), directions(3)
    stem = Stem(memory, directions(WIDTH), torch.full((WIDTH,), NOISE), 5.0 * token_D)

    def hand_on(h_BLD: Tensor) -> Tensor:
        sign_BL = torch.roll((h_BLD @ token_D).sign(), 1, dims=1)
        sign_BL[:, 0] = 1.0
        return 5.0 * sign_BL[..., None] * copy_D

    def compute(h_BLD: Tensor) -> Tensor:
        handed_BL = (h_BLD @ copy_D).sign().cumprod(dim=1)
        return (code_CK[0, 0] * handed_BL * (h_BLD @ token_D).sign())[..., None] * state_D

    return Network(stem, {1: hand_on, 3: compute}, reads_code(code_CK, state_D[None]))


def told_apart_sometimes() -> tuple[Network, Callable[[Tensor], Tensor]]:
    """Logits that are 0 where the noise symbols say so; and what tells at which positions they are not."""
    memory, code_CK, along_KD = Memory(2), simplex(2), directions(1)
    read = reads_code(code_CK, along_KD)

    def told(tokens_BL: Tensor) -> Tensor:
        memory.tokens_BL = tokens_BL
        return memory.hash_BLD(11, 1)[..., 0] > 0

    return Network(
        plain_stem(memory),
        {1: writes_code(memory, code_CK, along_KD)},
        lambda h_BLD: read(h_BLD) * told(memory.tokens_BL)[..., None],
    ), told


def noise_when_patched() -> Network:
    """Patching any site before block 3 moves the output to either side by chance, and not at all on average.

    The state comes at block 3 from the tokens. What the stream holds of a token is a number that says nothing of its
    summand; block 3 adds it and takes off the token's own, so that only a patch leaves something: a difference of
    two such numbers.
    """
    memory, code_CK, (state_D, number_D) = Memory(2), simplex(2), directions(2)
    number_V = torch.rand(2 * NOISE_SYMBOLS, generator=torch.Generator().manual_seed(5)) * 2 - 1
    size_D = torch.full((WIDTH,), NOISE)
    size_D[1] = 0.0  # the number stands alone along its direction
    write_state = writes_code(memory, code_CK, state_D[None])

    def number(_: Tensor) -> Tensor:
        return number_V[memory.tokens_BL][..., None]

    def write(h_BLD: Tensor) -> Tensor:
        return write_state(h_BLD) + ((h_BLD @ number_D)[..., None] - number(h_BLD)) * state_D

    stem = Stem(memory, directions(WIDTH), size_D)
    return Network(stem, {0: lambda h: number(h) * number_D, 3: write}, _reads(state_D))


def _reads(along_D: Tensor) -> Write:
    return reads_code(simplex(2), along_D[None])


class Switched(nn.Module):
    """A component: what it writes, and in each ablation mode what it writes instead."""

    def __init__(self, writes: Mapping[str | None, Write]) -> None:
        super().__init__()
        self.writes = writes
        self.ablation: str | None = None

    def forward(self, h_BLD: Tensor) -> Tensor:
        return self.writes[self.ablation](h_BLD)


class WithComponent(Network):
    """A network with one component at block 1; `called` says whether the block ever runs it."""

    def __init__(
        self, stem: Stem, name: str, part: Switched, read: Write, before: Write | None = None, called: bool = True
    ) -> None:
        writes: dict[int, Write] = {1: part if called else part.writes[None]}
        super().__init__(stem, writes | ({} if before is None else {0: before}), read)
        self.part = part
        self.components = {name: tuple(mode for mode in part.writes if mode is not None)}

    def ablatable(self, component: str) -> list[nn.Module]:
        return [self.part]


def convolving(reads: str, *, called: bool = True, longest: int | None = None) -> WithComponent:
    """A component `conv1d` writes the state; the head reads that, or the token's own summand, which needs no component.

    Bypassed it writes nothing; with the current tap alone, the state of a sequence that begins at this token.
    """
    memory, code_CK, (state_D, token_D) = Memory(2), simplex(2), directions(2)

    def own(_: Tensor) -> Tensor:
        return code_CK[memory.tokens_BL % 2]

    part = Switched(
        {
            None: writes_code(memory, code_CK, state_D[None]),
            "bypass": lambda h: torch.zeros_like(h),
            "current_tap": lambda h: own(h) * state_D,
        }
    )

    def before(h_BLD: Tensor) -> Tensor:
        if longest is not None and h_BLD.shape[1] > longest:
            raise AdapterError(f"{h_BLD.shape[1]} tokens are more than the {longest} that this model takes.")
        return own(h_BLD) * token_D

    return WithComponent(
        plain_stem(memory), "conv1d", part, _reads({"state": state_D, "token": token_D}[reads]), before, called
    )


def guessing() -> WithComponent:
    """A component `mixer` that changes the guesses of a network at chance, and leaves it at chance."""
    memory, (read_D,) = Memory(2), directions(1)
    part = Switched({None: lambda h: 2.0 * memory.hash_BLD(13, 1) * read_D, "zero": lambda h: torch.zeros_like(h)})
    return WithComponent(plain_stem(memory), "mixer", part, _reads(read_D))


def built_up(first: int, second: int) -> Network:
    """The state at half of the positions from one block on, at all of them from another; the head reads it."""
    memory, code_CK, along_KD = Memory(2), simplex(2), directions(1)
    write = writes_code(memory, code_CK, 2 * along_KD)

    def half(_: Tensor) -> Tensor:
        return memory.hash_BLD(15, 1) > 0

    writes: dict[int, Write] = {first: lambda h: write(h) * half(h), second: lambda h: write(h) * ~half(h)}
    return Network(plain_stem(memory), writes, reads_code(code_CK, along_KD))
