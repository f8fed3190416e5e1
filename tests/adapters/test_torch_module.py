import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from layerstate.adapters import AdapterError, EditNeverFired, FieldError, build_adapter, check, source_digest
from layerstate.adapters.torch_module import find_submodules
from torch import nn

MODEL = """
    from __future__ import annotations

    from dataclasses import dataclass

    import torch
    from torch import nn


    @dataclass
    class Sizes:
        width: int = 8
        layers: int = 12


    class Layer(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.mixer = nn.LSTM(width, width, batch_first=True)

        def forward(self, h):
            mixed, state = self.mixer(h)
            return h + mixed, state


    class Model(nn.Module):
        def __init__(self, vocab_size, classes):
            super().__init__()
            sizes = Sizes()
            self.embed = nn.Embedding(vocab_size, sizes.width)
            self.layers = nn.ModuleList([Layer(sizes.width) for _ in range(sizes.layers)])
            self.readout = nn.Linear(sizes.width, classes)

        def forward(self, tokens):
            h = self.embed(tokens)
            for layer in self.layers:
                h, _ = layer(h)
            return self.readout(h)


    def build(vocab_size, classes):
        return Model(vocab_size, classes)


    not_a_function = 3
    """
SITES = {"embed": "embed", "blocks": "layers.*", "output": 0}


@pytest.fixture
def folder(tmp_path):
    return tmp_path


@pytest.fixture
def model_file(folder):
    file = folder / "my_model.py"
    file.write_text(textwrap.dedent(MODEL))
    return file


@pytest.fixture
def wrap(folder):
    """Wrap the model that `module` names, by default ``my_model.py:build``; `text` replaces the file first."""

    def wrap(module="my_model.py:build", text=None, sites=None, components=None, classes=3):
        if text is not None:
            (folder / "my_model.py").write_text(textwrap.dedent(text))
        options = {"module": module, "sites": sites or SITES, "components": components or {}}
        return build_adapter("torch_module", options, vocab_size=4, classes=classes, seed=0, base=folder)

    return wrap


def test_a_users_module_passes_the_conformance_check(model_file, wrap):
    adapter = wrap(components={"mixer": "layers.*.mixer"})
    assert adapter.sites == ("embed", *(f"block.{i}" for i in range(12)))
    assert adapter.components == {"mixer": ("zero",)}
    results = check(adapter, 4, length=8, rng=np.random.default_rng(0))
    assert all(result.passed for result in results), [result.message for result in results]


def test_blocks_come_in_the_order_of_their_indices_ten_after_nine(model_file, wrap):
    adapter = wrap()
    captured = adapter.capture(np.zeros((1, 3), int))
    with torch.no_grad():
        h_BLD = torch.as_tensor(captured["embed"])
        for index, layer in enumerate(adapter.module.layers):
            h_BLD, _ = layer(h_BLD)
            np.testing.assert_allclose(captured[f"block.{index}"], h_BLD.numpy(), atol=1e-6)


def test_blocks_can_be_a_list_that_leaves_some_out(model_file, wrap):
    adapter = wrap(sites=SITES | {"blocks": ["layers.0", "layers.5", "layers.11"]})
    assert adapter.sites == ("embed", "block.0", "block.1", "block.2")
    assert adapter._modules["block.1"] is adapter.module.layers[5]


def test_blocks_stand_in_the_order_in_which_the_model_calls_them(model_file, wrap):
    with pytest.raises(AdapterError, match=r"order embed, block\.1, block\.0, not embed, block\.0, block\.1"):
        wrap(sites=SITES | {"blocks": ["layers.5", "layers.0"]})


@pytest.mark.parametrize("place", ["import", "build", "forward"])
def test_what_a_users_code_sets_for_the_whole_process_is_put_back(wrap, tmp_path, place):
    before = (os.getcwd(), torch.get_default_dtype(), torch.is_grad_enabled())
    lines = {
        "import": "    from torch import nn\n",
        "build": "    def build(vocab_size, classes):\n",
        "forward": "            h = self.embed(tokens)\n",
    }
    line = lines[place]
    indent = " " * {"import": 4, "build": 8, "forward": 12}[place]
    sets = f"import os; os.chdir({str(tmp_path)!r}); torch.set_default_dtype(torch.float64)"
    sets += "; torch.set_grad_enabled(False)\n"
    wrap(text=MODEL.replace(line, line + indent + sets, 1))
    assert (os.getcwd(), torch.get_default_dtype(), torch.is_grad_enabled()) == before


def test_a_component_rule_names_its_modes(model_file, wrap):
    rule = {"pattern": "layers.*.mixer", "modes": ["zero", "bypass"]}
    adapter = wrap(components={"mixer": rule})
    tokens = np.array([[0, 1, 2], [3, 2, 1]])
    embedded = adapter.capture(tokens)["embed"]
    with adapter.ablate("mixer", "bypass"):
        np.testing.assert_allclose(adapter.capture(tokens)["block.11"], 2.0**12 * embedded, rtol=1e-6)
    with adapter.ablate("mixer", "zero"):
        np.testing.assert_array_equal(adapter.capture(tokens)["block.11"], embedded)


def test_a_component_that_is_not_called_is_an_error(model_file, wrap):
    text = MODEL.replace("self.readout =", "self.unused = nn.Linear(1, 1)\n            self.readout =")
    adapter = wrap(text=text, components={"unused": "unused"})
    with pytest.raises(EditNeverFired, match="called unused"), adapter.ablate("unused", "zero"):
        adapter.logits(np.zeros((1, 3), int))


@pytest.mark.parametrize("index", range(1, 12))
def test_a_star_stands_for_one_index(index):
    module = nn.Module()
    module.layers = nn.ModuleList([nn.Sequential(nn.Linear(1, 1)) for _ in range(index)])
    found = find_submodules(module, "layers.*", ("sites", "blocks"))
    assert len(found) == index
    assert all(part is layer for part, layer in zip(found.values(), module.layers, strict=True))


@pytest.mark.parametrize(
    ("sites", "field", "said"),
    [
        ({"blocks": "layer.*"}, "sites.blocks", r"layers\.\d+"),
        ({"embed": "embedding"}, "sites.embed", "embed"),
        ({"blocks": ["layers.0", "layers.12"]}, "sites.blocks", r"layers\.1"),
        ({"embed": "layers.*"}, "sites.embed", "12 submodules"),
    ],
)
def test_a_pattern_that_matches_nothing_lists_the_nearest_names(model_file, wrap, sites, field, said):
    with pytest.raises(AdapterError, match=rf"{field}: .*{said}"):
        wrap(sites=SITES | sites)


@pytest.mark.parametrize(
    ("sites", "field", "said"),
    [
        (
            {"blocks": ["layers.*", "layers.3"]},
            ("sites", "blocks"),
            r"the submodule layers\.3 is matched by 'layers\.\*' and by 'layers\.3'; once",
        ),
        ({"blocks": ["embed", "layers.*"]}, ("sites", "blocks"), r"embed, the site embed, and embed are one submodule"),
        (
            {"embed": "embed.weight"},
            ("sites", "embed"),
            r"weight' is a Parameter and no submodule\. Did you mean embed\?",
        ),
        (
            {"blocks": "embed.num_embeddings"},
            ("sites", "blocks"),
            r"num_embeddings' is a int and no submodule\.",
        ),
        ({"blocks": "layer.*"}, ("sites", "blocks"), r"Did you mean layers\.\*"),
        ({"output": 2}, ("sites", "output"), r"returned a tuple \(Tensor, tuple\), with no tensor at 2.*\(0\)"),
        ({"output": 1}, ("sites", "output"), r"with no tensor at 1\. Set sites\.output .*width\) \(0\)"),
        ({"output": "hidden"}, ("sites", "output"), r"with no tensor at 'hidden'"),
        ({"blocks": "layers.*.mixer", "embed": "layers.0"}, ("sites",), r"order block\.0, embed"),
    ],
)
def test_a_site_that_does_not_fit_names_its_field(model_file, wrap, sites, field, said):
    with pytest.raises(FieldError, match=said) as caught:
        wrap(sites=SITES | sites)
    assert caught.value.field == field
    assert str(caught.value) == f"{'.'.join(field)}: {caught.value.message}"


@pytest.mark.parametrize(
    ("returned", "output"),
    [
        ("h + mixed, state", 0),
        ("state, h + mixed", -1),
        ("Found(h + mixed, state)", "hidden"),
        ("{'h': h + mixed}", "h"),
    ],
)
def test_the_residual_stream_is_read_and_edited_in_its_place_among_what_a_block_returns(wrap, returned, output):
    text = MODEL.replace("return h + mixed, state", f"return {returned}")
    text = text.replace("h, _ = layer(h)", f"h = take(layer(h), {output!r})").replace(
        "    @dataclass\n    class Sizes",
        "    @dataclass\n    class Found:\n        hidden: object\n        state: object\n\n\n"
        "    def take(found, part):\n"
        "        return getattr(found, part) if isinstance(found, Found) else found[part]\n\n\n"
        "    @dataclass\n    class Sizes",
    )
    adapter = wrap(text=text, sites=SITES | {"output": output})
    results = check(adapter, 4, length=8, rng=np.random.default_rng(0))
    assert all(result.passed for result in results), [result.message for result in results]


def test_a_component_can_be_a_list_and_takes_its_own_place_in_a_tuple(wrap):
    text = MODEL.replace("mixed, state = self.mixer(h)", "state, mixed = self.swapped(*self.mixer(h))").replace(
        "self.mixer = ", "self.swapped = Swapped()\n            self.mixer = "
    )
    text = text.replace(
        "    class Layer(",
        "    class Swapped(nn.Module):\n        def forward(self, mixed, state):\n            return state, mixed\n\n\n"
        "    class Layer(",
    )
    parts = ["layers.0.swapped", "layers.11.swapped"]
    adapter = wrap(text=text, components={"swapped": {"pattern": parts, "output": 1, "modes": ["zero"]}})
    tokens = np.array([[0, 1, 2], [3, 2, 1]])
    with adapter.ablate("swapped", "zero") as fired:
        captured = adapter.capture(tokens)
    assert fired.counts == {"swapped": 2}
    np.testing.assert_array_equal(captured["block.0"], captured["embed"])
    np.testing.assert_array_equal(captured["block.11"], captured["block.10"])
    assert not np.array_equal(captured["block.1"], captured["block.0"])
    wrong = wrap(components={"swapped": {"pattern": parts, "output": 0}})
    with (
        pytest.raises(FieldError, match=r"components\.swapped\.output: .*with no tensor at 0.*\(1\)"),
        wrong.ablate("swapped", "zero"),
    ):
        wrong.logits(tokens)


def test_blocks_that_share_a_component_have_it_once(wrap):
    text = MODEL.replace("self.mixer = nn.LSTM(width, width, batch_first=True)", "self.mixer = shared").replace(
        "    class Layer(", "    shared = nn.LSTM(8, 8, batch_first=True)\n\n\n    class Layer("
    )
    adapter = wrap(text=text, components={"mixer": "layers.*.mixer"})
    with adapter.ablate("mixer", "zero") as fired:
        adapter.logits(np.zeros((1, 3), int))
    assert fired.counts == {"mixer": 12}


def test_a_component_pattern_that_matches_nothing(model_file, wrap):
    with pytest.raises(AdapterError, match=r"components\.mixer: .*Did you mean layers"):
        wrap(components={"mixer": "layers.*.mixxer"})


def test_a_block_that_is_shared_is_an_error(wrap):
    text = MODEL.replace("[Layer(sizes.width) for _ in range(sizes.layers)]", "[Layer(sizes.width)] * 3")
    with pytest.raises(AdapterError, match="one submodule"):
        wrap(text=text)


def test_sites_that_need_an_output(model_file, wrap):
    with pytest.raises(AdapterError, match=r"block\.0 returned a tuple \(Tensor, tuple\).*Set sites\.output"):
        wrap(sites={"embed": "embed", "blocks": "layers.*"})


def test_a_missing_file_names_the_nearest(model_file, folder, wrap):
    with pytest.raises(AdapterError, match=rf"no file {folder}/my_modle\.py\. Did you mean my_model\.py"):
        wrap("my_modle.py:build")
    with pytest.raises(AdapterError, match="no file"):
        wrap("nowhere/my_model.py:build")


@pytest.mark.parametrize("module", ["my_model.py", ":build", "my_model.py:", "my_model.py:build()"])
def test_a_reference_without_a_function(model_file, wrap, module):
    with pytest.raises(AdapterError, match=r"write my_model\.py:build or package\.module:build"):
        wrap(module)


def test_a_missing_function_names_the_nearest(model_file, wrap):
    with pytest.raises(AdapterError, match=r"no function 'biuld'\. Did you mean build"):
        wrap("my_model.py:biuld")


def test_a_name_that_is_no_function(model_file, wrap):
    with pytest.raises(AdapterError, match=r"not_a_function.*is a int; it must be a function"):
        wrap("my_model.py:not_a_function")


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("import torch\nimport numpyy\n", 2, "ModuleNotFoundError: No module named 'numpyy'"),
        ("def build(:\n", 1, "SyntaxError"),
        ("x = 1\n\nraise ValueError('first\\nsecond')\n", 3, "ValueError"),
        ("import sys\nsys.exit(2)\n", 2, "SystemExit: 2"),
    ],
    ids=["import", "syntax", "raise", "exit"],
)
def test_a_file_that_does_not_import_says_why_and_where(folder, wrap, text, line, said):
    with pytest.raises(AdapterError, match=rf"{folder}/my_model\.py:{line}: importing it failed: {said}") as caught:
        wrap(text=text)
    assert "Traceback" not in str(caught.value)
    assert not [
        name for name in sys.modules if name.startswith("layerstate_user_") and not hasattr(sys.modules[name], "build")
    ]


def test_a_build_that_raises_says_where(folder, wrap):
    text = "def build(vocab_size, classes):\n    return inner()\n\ndef inner():\n    return {}['width']\n"
    with pytest.raises(
        AdapterError, match=rf"{folder}/my_model\.py:5: calling it with vocab_size=4.*KeyError: 'width'"
    ):
        wrap(text=text)


def test_a_build_that_takes_other_arguments(folder, wrap):
    with pytest.raises(AdapterError, match=r"calling it with vocab_size=4, classes=3 failed: TypeError: build\(\)"):
        wrap(text="def build():\n    pass\n")


def test_a_build_that_returns_no_module(wrap):
    with pytest.raises(AdapterError, match=r"returned a dict; it must return a torch\.nn\.Module"):
        wrap(text="def build(vocab_size, classes):\n    return {}\n")


def test_a_forward_that_raises_says_where(wrap, folder):
    with pytest.raises(AdapterError, match=rf"{folder}/my_model\.py:\d+: running the module on .*RuntimeError"):
        wrap(text=MODEL.replace("h = self.embed(tokens)", "h = self.embed(tokens).transpose(1, 2)"))


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        ("self.readout(h)[:, -1]", r"\(2, 3\)"),
        ("self.readout(h), h", "tuple"),
        ("h", r"\(2, 3, 8\)"),
        ("None", "NoneType"),
    ],
)
def test_a_forward_that_returns_something_else(wrap, returned, found):
    with pytest.raises(
        AdapterError, match=rf"the model returned {found}; it must return one tensor of logits \(2, 3, 3\)"
    ):
        wrap(text=MODEL.replace("return self.readout(h)", f"return {returned}"))


def test_a_sibling_import_says_what_to_do(folder, wrap):
    (folder / "my_layers.py").write_text("")
    with pytest.raises(AdapterError, match=r"my_layers.*put my_layers into the same file"):
        wrap(text="import my_layers\n")


def test_importing_leaves_no_byte_code_and_no_common_name(model_file, folder, wrap):
    path = list(sys.path)
    wrap()
    assert [entry.name for entry in folder.iterdir()] == ["my_model.py"]
    assert "my_model" not in sys.modules
    assert sys.path == path


def test_two_files_of_one_name_stay_apart(model_file, folder, wrap):
    other = folder / "other"
    other.mkdir()
    (other / "my_model.py").write_text(textwrap.dedent(MODEL).replace("layers: int = 12", "layers: int = 2"))
    first, second = wrap(), wrap("other/my_model.py:build")
    assert (len(first.sites), len(second.sites)) == (13, 3)
    assert len(wrap(text=MODEL.replace("layers: int = 12", "layers: int = 5")).sites) == 6, "an edit is seen at once"


def test_an_installed_module(wrap, tmp_path, monkeypatch):
    package = tmp_path / "installed_here" / "zoo_of_a_user"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "model.py").write_text(textwrap.dedent(MODEL))
    monkeypatch.syspath_prepend(str(tmp_path / "installed_here"))
    assert len(wrap("zoo_of_a_user.model:build").sites) == 13
    with pytest.raises(AdapterError, match=r"importing zoo_of_a_user\.modle failed: ModuleNotFoundError"):
        wrap("zoo_of_a_user.modle:build")


def test_the_digest_of_a_file_is_that_of_its_bytes(model_file, folder):
    first = source_digest("my_model.py:build", folder)
    assert len(first) == 64
    assert source_digest("./my_model.py:other", folder) == first
    model_file.write_text(model_file.read_text() + "\n")
    assert source_digest("my_model.py:build", folder) != first
    with pytest.raises(AdapterError, match="no file"):
        source_digest("gone.py:build", folder)


def test_the_digest_of_a_package_covers_all_its_files(tmp_path, monkeypatch):
    package = tmp_path / "zoo_for_the_digest"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('never imported')")
    (package / "model.py").write_text("def build(vocab_size, classes): ...")
    monkeypatch.syspath_prepend(str(tmp_path))
    first = source_digest("zoo_for_the_digest.model:build")
    (package / "layers.py").write_text("")
    assert source_digest("zoo_for_the_digest.model:build") != first
    with pytest.raises(AdapterError, match="No package 'zoo_that_is_not_there' is installed"):
        source_digest("zoo_that_is_not_there.model:build")


def test_the_plan_needs_no_torch(model_file, folder):
    code = (
        "import sys; from pathlib import Path; import layerstate.adapters as adapters; "
        f"adapters.source_digest('my_model.py:build', Path({str(folder)!r}))\n"
        "adapters.adapter_version('torch_module')\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
