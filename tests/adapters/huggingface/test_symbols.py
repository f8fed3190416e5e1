"""Each symbol of a task is one token of the model's vocabulary, or the model is refused before it is trained."""

import pytest
from layerstate.adapters import AdapterError

from .conftest import save
from .test_families import build


def test_texts_and_numbers(checkpoints):
    texts, numbers = (build(checkpoints("llama"), symbols) for symbols in (["(", ")", "a", "1"], [3, 4, 7, 2]))
    first, second = (adapter.module.backbone.get_input_embeddings().weight for adapter in (texts, numbers))
    assert first.equal(second)


@pytest.mark.parametrize(
    ("symbols", "message"),
    [
        (
            ["a", "b", "c", "01"],
            r"the symbol '01' is 2 tokens \('0' '1'\) of its tokenizer; a symbol has to be",
        ),
        (["a", "b", "c", "é"], "the symbol 'é' is no token of its tokenizer"),
        (["a", "b", "c", 7], "the symbols 'a' and 7 are the same token"),
        ([1, 2, 3, 12], "the symbol 12 is token 12, and the model's embedding has the tokens 0 to 11"),
        ([1, 2, 3], "The task has 4 symbols, and 3 tokens"),
    ],
)
@pytest.mark.parametrize("backend", ["transformers", "matched"])
def test_what_is_no_token(symbols, message, backend, checkpoints):
    from layerstate.adapters import build_adapter

    options = {"checkpoint": {"folder": str(checkpoints("mamba"))}, "symbols": symbols, "backend": backend}
    with pytest.raises(AdapterError, match=message):
        build_adapter("huggingface", options, vocab_size=4, classes=2, seed=0)


def test_texts_need_a_tokenizer(tmp_path):
    folder = save(tmp_path, "gpt2", tokenizer=False)
    with pytest.raises(AdapterError, match=r"has no tokenizer, so that symbols can't be texts. Write token numbers"):
        build(folder, ["a", "b"])
    assert build(folder, [1, 2]).sites[-1] == "block.2"
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(AdapterError, match="its tokenizer can't be loaded"):
        build(folder, ["a", "b"])
