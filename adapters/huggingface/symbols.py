"""Which of a pretrained model's tokens stand for a task's symbols: each symbol is one token of its vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..base import AdapterError
from .checkpoint import TOKENIZER, Checkpoint
from .quiet import quiet

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["token_ids"]


def token_ids(checkpoint: Checkpoint, symbols: Sequence[str | int], rows: int, *, trust_remote_code: bool) -> Tensor:
    """The vocabulary's numbers of a task's symbols, int64 (vocabulary of the task,).

    Parameters
    ----------
    checkpoint : Checkpoint
        With its tokenizer, if a symbol is a text.
    symbols : sequence of str or int
        In the order of the task's vocabulary: an entry of the model's vocabulary, a text that is one token, or the
        number of a token.
    rows : int
        Rows of the model's embedding.
    trust_remote_code : bool
        Whether the repository's own tokenizer may be run.

    Raises
    ------
    AdapterError
        If a symbol is not one token, two are the same, or the vocabulary is too small.
    """
    import torch

    texts = any(isinstance(symbol, str) for symbol in symbols)
    tokenizer = _tokenizer(checkpoint, trust_remote_code) if texts else None
    found: dict[int, str | int] = {}
    for symbol in symbols:
        number = symbol if isinstance(symbol, int) else _number(tokenizer, symbol, checkpoint)
        if not 0 <= number < rows:
            raise AdapterError(
                f"{checkpoint.said}: the symbol {symbol!r} is token {number}, and the model's embedding has the tokens "
                f"0 to {rows - 1}. Choose symbols that it has."
            )
        if number in found:
            raise AdapterError(
                f"{checkpoint.said}: the symbols {found[number]!r} and {symbol!r} are the same token ({number}). Each "
                "symbol of a task needs its own."
            )
        found[number] = symbol
    return torch.tensor(list(found), dtype=torch.int64)


def _tokenizer(checkpoint: Checkpoint, trust_remote_code: bool) -> Any:
    from transformers import AutoTokenizer

    advice = "Write token numbers in place of texts, or add the tokenizer's files."
    if not any(file for pattern in TOKENIZER for file in checkpoint.folder.glob(pattern)):
        raise AdapterError(f"{checkpoint.said} has no tokenizer, so that symbols can't be texts. {advice}")
    try:
        with quiet():
            return AutoTokenizer.from_pretrained(
                str(checkpoint.folder), local_files_only=True, trust_remote_code=trust_remote_code
            )
    except Exception as error:
        last = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise AdapterError(f"{checkpoint.said}: its tokenizer can't be loaded: {last}. {advice}") from error


def _number(tokenizer: Any, symbol: str, checkpoint: Checkpoint) -> int:
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    if symbol in vocabulary:
        return vocabulary[symbol]
    numbers: list[int] = tokenizer.encode(symbol, add_special_tokens=False)
    if len(numbers) == 1 and numbers[0] != tokenizer.unk_token_id:
        return numbers[0]
    pieces: list[str] = tokenizer.convert_ids_to_tokens(numbers)
    what = f"{len(numbers)} tokens ({' '.join(map(repr, pieces))})" if len(numbers) > 1 else "no token"
    raise AdapterError(
        f"{checkpoint.said}: the symbol {symbol!r} is {what} of its tokenizer; a symbol has to be one token, such as "
        f"{' or '.join(repr(entry) for entry in sorted(vocabulary, key=lambda entry: (len(entry), entry))[:3])}."
    )
