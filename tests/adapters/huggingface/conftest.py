import pytest

from .families import VOCABULARY, make_model


def save(folder, family, *, tokenizer=True, **changes):
    """A whole small checkpoint of a family in `folder`, as `save_pretrained` writes it."""
    make_model(family, head=True, **changes).save_pretrained(folder)
    if tokenizer:
        save_tokenizer(folder)
    return folder


def save_tokenizer(folder):
    """A tokenizer of the model's vocabulary: a to h and brackets are one token each; unknown texts become [UNK]."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    entries = ["[UNK]", "0", "1", "(", ")", "[", "]", "a", "b", "c", "d", "e"][:VOCABULARY]
    inner = Tokenizer(models.WordLevel({entry: number for number, entry in enumerate(entries)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]").save_pretrained(folder)


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory):
    """Family to the folder of its checkpoint, saved when first asked for."""
    root, made = tmp_path_factory.mktemp("checkpoints"), {}

    def folder_of(family):
        if family not in made:
            made[family] = save(root / family, family)
        return made[family]

    return folder_of
