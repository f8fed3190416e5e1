"""Networks built by hand, with exact weights, whose answer is known.

Every residual stream starts as nuisance: bounded, of the same variance in every direction unless a network says
otherwise, and a deterministic function of the noise symbols so far, so independent of the state. Blocks then write the
state along fixed directions, and the head reads some of them. Without the nuisance, whatever sliver of state an
ablation leaves would still be perfectly decodable, and no method would look right.

Shape suffixes: B batch, L length, D width, C classes, K rank of the code.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from .task import NOISE_SYMBOLS

WIDTH = 16
BLOCKS = 4
MODULUS = 8191
NOISE = 0.6
"""Largest nuisance in a direction; a state of ±1 there can be read without error, and not without care."""


def directions(count: int, seed: int = 0) -> Tensor:
    """Orthonormal directions (count, D), none along an axis."""
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=generator))[0][:count]


def simplex(classes: int) -> Tensor:
    """Unit vectors (C, C-1), one a class, as far apart as can be; ±1 for two classes."""
    centred = torch.eye(classes, dtype=torch.float64) - 1.0 / classes
    code = torch.linalg.svd(centred)[0][:, : classes - 1]
    return (code / code.norm(dim=1, keepdim=True)).float()


def circle(classes: int) -> Tensor:
    """Unit vectors (C, 2) around a circle."""
    angle = torch.arange(classes) * (2 * math.pi / classes)
    return torch.stack([angle.cos(), angle.sin()], dim=1)


class Memory:
    """The tokens of the forward pass: how a block can know the state without reading it from the residual stream."""

    def __init__(self, classes: int) -> None:
        self.classes = classes
        self.tokens_BL = torch.zeros(0, 0, dtype=torch.int64)

    @property
    def state_BL(self) -> Tensor:
        return (self.tokens_BL % self.classes).cumsum(1) % self.classes

    def hash_BLD(self, seed: int, width: int) -> Tensor:
        """Numbers in [−1, 1) that are a function of the noise symbols so far, different in every feature."""
        generator = torch.Generator().manual_seed(seed)
        factor_D, addend_D = torch.randint(1, MODULUS, (2, width), generator=generator)
        noise_BL = self.tokens_BL // self.classes
        value_BD = torch.zeros(len(noise_BL), width, dtype=torch.int64)
        values: list[Tensor] = []
        for noise_B in noise_BL.T:
            value_BD = (
                factor_D * (value_BD + noise_B[:, None] + 1) + addend_D * (noise_B[:, None] + NOISE_SYMBOLS)
            ) % MODULUS
            values.append(value_BD)
        return torch.stack(values, dim=1) * (2.0 / MODULUS) - 1.0


class Stem(nn.Module):
    """Nuisance along every direction, of a size a direction; and the token itself, where a network passes it on."""

    def __init__(self, memory: Memory, basis_DD: Tensor, size_D: Tensor, token_D: Tensor | None = None) -> None:
        super().__init__()
        self.memory, self.basis_DD, self.size_D, self.token_D = memory, basis_DD, size_D, token_D

    def forward(self, tokens_BL: Tensor) -> Tensor:
        self.memory.tokens_BL = tokens_BL
        h_BLD = (self.memory.hash_BLD(1, WIDTH) * self.size_D) @ self.basis_DD
        if self.token_D is not None:
            sign_BL = 1.0 - 2.0 * (tokens_BL % self.memory.classes)
            h_BLD = h_BLD + sign_BL[..., None] * self.token_D
        return h_BLD


class Block(nn.Module):
    """h + write(h): the state along a direction, or nothing."""

    def __init__(self, write: Callable[[Tensor], Tensor] | None = None) -> None:
        super().__init__()
        self.write = write

    def forward(self, h_BLD: Tensor) -> Tensor:
        return h_BLD if self.write is None else h_BLD + self.write(h_BLD)


class Head(nn.Module):
    """Logits from whatever the network reads."""

    def __init__(self, read: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.read = read

    def forward(self, h_BLD: Tensor) -> Tensor:
        return self.read(h_BLD)


class Network(nn.Module):
    """The common convention: embed, blocks, head."""

    def __init__(
        self, stem: Stem, writes: dict[int, Callable[[Tensor], Tensor]], read: Callable[[Tensor], Tensor]
    ) -> None:
        super().__init__()
        self.embed = stem
        self.blocks = nn.ModuleList(Block(writes.get(index)) for index in range(BLOCKS))
        self.head = Head(read)

    def forward(self, tokens_BL: Tensor) -> Tensor:
        h_BLD = self.embed(tokens_BL)
        for block in self.blocks:
            h_BLD = block(h_BLD)
        return self.head(h_BLD)


def plain_stem(memory: Memory) -> Stem:
    """Nuisance of the same size in every direction."""
    return Stem(memory, directions(WIDTH), torch.full((WIDTH,), NOISE))


def writes_code(memory: Memory, code_CK: Tensor, along_KD: Tensor) -> Callable[[Tensor], Tensor]:
    return lambda _: code_CK[memory.state_BL] @ along_KD


def reads_code(code_CK: Tensor, along_KD: Tensor) -> Callable[[Tensor], Tensor]:
    """The codeword with the largest inner product."""
    return lambda h_BLD: 8.0 * (h_BLD @ along_KD.T) @ code_CK.T


def without_state(classes: int = 2) -> Network:
    """No state at all: the head reads nuisance. It is also what every other network is before any training."""
    memory, code_CK = Memory(classes), simplex(classes)
    return Network(plain_stem(memory), {}, reads_code(code_CK, directions(code_CK.shape[1])))


def written_at(block: int) -> Network:
    """The state on one direction from a block on, and the head reads it there."""
    memory, code_CK, along_KD = Memory(2), simplex(2), directions(1)
    return Network(plain_stem(memory), {block: writes_code(memory, code_CK, along_KD)}, reads_code(code_CK, along_KD))


def spread(classes: int, code_CK: Tensor, beside: float = 0.15) -> Network:
    """Several classes on as many directions as the code has, from block 1 on; nuisance of size `beside` elsewhere."""
    memory, basis_DD = Memory(classes), directions(WIDTH)
    along_KD, nuisance_D = basis_DD[: code_CK.shape[1]], torch.full((WIDTH,), beside)
    nuisance_D[: code_CK.shape[1]] = 0.15
    stem = Stem(memory, basis_DD, nuisance_D)
    return Network(stem, {1: writes_code(memory, code_CK, along_KD)}, reads_code(code_CK, along_KD))


def unused_copy() -> Network:
    """A readable copy from block 1 on, and a head that reads nuisance along another direction, so it is at chance."""
    memory, code_CK, (copy_D, other_D) = Memory(2), simplex(2), directions(2)
    return Network(
        plain_stem(memory), {1: writes_code(memory, code_CK, copy_D[None])}, reads_code(code_CK, other_D[None])
    )


def hidden_sign(memory: Memory, scale: float = 2.0) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """A code that no linear probe reads: a random sign r along one direction and r·state along another.

    Returns what writes it and what reads it, the logits of the product of the two.
    """
    code_C, (p_D, q_D) = simplex(2)[:, 0], directions(3)[1:]

    def write(_: Tensor) -> Tensor:
        sign_BL = memory.hash_BLD(7, 1)[..., 0].sign() * scale
        return sign_BL[..., None] * (p_D + code_C[memory.state_BL][..., None] * q_D)

    def read(h_BLD: Tensor) -> Tensor:
        return ((h_BLD @ p_D) * (h_BLD @ q_D))[..., None] * code_C

    return write, read


def ignored_copy() -> Network:
    """A copy anyone can read from block 1 on, which the head ignores: it uses one that no linear probe reads."""
    memory, code_CK, along_KD = Memory(2), simplex(2), directions(1)
    write_hidden, read_hidden = hidden_sign(memory)
    write_plain = writes_code(memory, code_CK, along_KD)
    return Network(plain_stem(memory), {1: lambda h: write_plain(h) + write_hidden(h)}, read_hidden)


def nonlinear_code() -> Network:
    """The state held and used from block 1 on, in a form that no linear probe reads."""
    memory = Memory(2)
    write, read = hidden_sign(memory)
    return Network(plain_stem(memory), {1: write}, read)


def redundant() -> Network:
    """Two copies from block 1 on, either enough: without the first the head takes the second.

    The second has the wrong sign, and is six times as large, in one position of 200; the head knows. That keeps the
    probe off it, so that its weights point along the first copy alone, while the class means point along both.
    """
    memory, code_C, (first_D, second_D) = Memory(2), simplex(2)[:, 0], directions(2)

    def write(_: Tensor) -> Tensor:
        state_BL = 6.0 * code_C[memory.state_BL]
        slip_BL = memory.hash_BLD(9, 1)[..., 0] < -0.99
        return state_BL[..., None] * first_D + (state_BL * torch.where(slip_BL, -6.0, 1.0))[..., None] * second_D

    def read(h_BLD: Tensor) -> Tensor:
        first_BL, second_BL = h_BLD @ first_D, h_BLD @ second_D
        second_BL = torch.where(second_BL.abs() > 15.0, -second_BL, second_BL)
        return torch.where(first_BL.abs() > 3.0, first_BL, second_BL)[..., None] * code_C

    return Network(plain_stem(memory), {1: write}, read)


def early_copy_used_late() -> Network:
    """A copy at block 0 that nothing uses; the one that the head reads comes at block 2, along another direction."""
    memory, code_CK, (early_D, late_D) = Memory(2), simplex(2), directions(2)
    writes = {0: writes_code(memory, code_CK, early_D[None]), 2: writes_code(memory, code_CK, late_D[None])}
    return Network(plain_stem(memory), writes, reads_code(code_CK, late_D[None]))


def token_in_stream(size: float = 5.0) -> Network:
    """The token lies along one direction from the embedding on; block 2 writes its running parity in its place.

    The token is far larger than the nuisance, so that the class means differ along it by chance alone. Taking it out
    breaks the computation, and yet the state is nowhere before block 2.
    """
    memory, code_CK, (state_D, token_D) = Memory(2), simplex(2), directions(2)
    stem = Stem(memory, directions(WIDTH), torch.full((WIDTH,), NOISE), size * token_D)

    def write(h_BLD: Tensor) -> Tensor:
        sign_BL = (h_BLD @ token_D).sign()
        parity_BL = code_CK[0, 0] * sign_BL.cumprod(dim=1)
        return parity_BL[..., None] * state_D - size * sign_BL[..., None] * token_D

    return Network(stem, {2: write}, reads_code(code_CK, state_D[None]))


def correlated_nuisance() -> Network:
    """The state on one direction from block 1 on, amid nuisance that is correlated with the coordinate along it."""
    memory, code_CK, along_KD = Memory(2), simplex(2), directions(1)
    basis_DD = directions(WIDTH)
    generator = torch.Generator().manual_seed(3)
    mixing_DD = torch.eye(WIDTH) + 0.5 * torch.randn(WIDTH, WIDTH, generator=generator)
    stem = Stem(memory, mixing_DD @ basis_DD, torch.full((WIDTH,), NOISE))
    return Network(stem, {1: writes_code(memory, code_CK, 2 * along_KD)}, reads_code(code_CK, along_KD))
