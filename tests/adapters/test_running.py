"""What a model's own code raises in a forward pass is told as the model's, and nothing else is."""

import re

import numpy as np
import pytest
import torch
from layerstate.adapters import AdapterError, ModelRuns, check, is_device_failure, is_out_of_memory
from layerstate.adapters.module import ModuleAdapter
from layerstate.adapters.running import ForwardFailed

LONGEST = 7


class OutOfMemoryError(RuntimeError):
    """Named as torch names its own."""


@pytest.fixture
def limited(make_stack):
    """A model that raises such an error on sequences of more than seven tokens."""

    def limited(error):
        kind, arguments = type(error), error.args

        class Limited(make_stack.Stack):
            def forward(self, tokens_BL):
                if tokens_BL.shape[1] > LONGEST:
                    raise kind(*arguments)
                return super().forward(tokens_BL)

        return ModuleAdapter.from_blocks(make_stack(Limited), classes=4)

    return limited


def tokens(length):
    return np.zeros((2, length), int)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ValueError("at most\n7 tokens"), "ValueError: at most 7 tokens"),
        (IndexError(), "IndexError"),
        (SystemExit(3), "SystemExit: 3"),
    ],
)
@pytest.mark.parametrize("read", ["logits", "capture"])
def test_an_error_of_the_model_says_where_how_many_tokens_and_what(limited, error, said, read):
    adapter = limited(error)
    adapter.logits(tokens(LONGEST))
    message = rf"{re.escape(__file__)}:\d+: running the module on 2 sequences of 8 tokens failed: {said}$"
    with pytest.raises(ForwardFailed, match=message):
        getattr(adapter, read)(tokens(8))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OutOfMemoryError("CUDA out of memory"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("CUDA error: device-side assert triggered"),
        KeyboardInterrupt(),
        AdapterError("at most 7 tokens"),
    ],
)
def test_what_is_not_the_fault_of_the_models_code_passes_as_it_is(limited, error):
    with pytest.raises(type(error)) as caught:
        limited(error).logits(tokens(8))
    assert caught.value.args == error.args


def test_the_place_is_the_users_own_line_where_a_package_of_others_raises(make_stack, tmp_path):
    package = tmp_path / "site-packages" / "others.py"
    package.parent.mkdir()
    package.write_text("def refuse():\n    raise ValueError('no')\n")
    others = {}
    exec(compile(package.read_text(), str(package), "exec"), others)

    class Refuses(make_stack.Stack):
        def forward(self, tokens_BL):
            return others["refuse"]()

    with pytest.raises(ForwardFailed, match=rf"^{re.escape(__file__)}:\d+: .*ValueError: no$"):
        ModuleAdapter.from_blocks(make_stack(Refuses), classes=4).logits(tokens(3))


def test_an_error_in_an_edit_is_not_the_models(adapter, tokens):
    with pytest.raises(ZeroDivisionError), adapter.edit({"block.1": lambda h_BLD: h_BLD / (1 // 0)}):
        adapter.logits(tokens)
    with pytest.raises(ZeroDivisionError), adapter.edit({"block.1": lambda h_BLD: h_BLD / (1 // 0)}):
        adapter.resume(tokens, "embed", adapter.capture(tokens, ["embed"])["embed"])


def test_an_error_in_what_comes_after_a_site_or_in_the_head_is_the_models(make_stack):
    class Broken(torch.nn.Module):
        def forward(self, h_BLD):
            return h_BLD @ torch.zeros(3)

    stack = make_stack()
    stack.head = Broken()
    adapter = ModuleAdapter.from_blocks(stack, classes=4)
    h_BLD = np.zeros((2, 5, 8), np.float32)
    for run in (lambda: adapter.head(h_BLD), lambda: adapter.resume(tokens(5), "block.0", h_BLD)):
        with pytest.raises(
            ForwardFailed, match=r"test_running\.py:\d+: .* 2 sequences of 5 tokens failed: RuntimeError"
        ):
            run()


def test_a_model_that_takes_no_such_length_fails_its_check_in_words(limited):
    (sites,) = check(limited(ValueError("at most 7 tokens")), 3, length=8, rng=np.random.default_rng(0))
    assert not sites.passed
    assert "sequences of 8 tokens failed: ValueError: at most 7 tokens" in sites.message


def test_a_bare_module_that_fails_beside_an_adapter_that_does_not_fails_its_check(make_stack):
    class Adapted(ModuleAdapter):
        def _forward(self, tokens_BL):
            self.module.adapted = True
            try:
                return super()._forward(tokens_BL)
            finally:
                self.module.adapted = False

    class Bare(make_stack.Stack):
        adapted = False

        def forward(self, tokens_BL):
            return super().forward(tokens_BL) if self.adapted else [][0]

    found = check(Adapted.from_blocks(make_stack(Bare), classes=4), 3, length=8, rng=np.random.default_rng(0))
    (bare,) = [result for result in found if result.name == "bare_model"]
    assert not bare.passed
    assert re.search(r"test_running\.py:\d+: .* 32 sequences of 8 tokens failed: IndexError", bare.message)


def test_the_end_of_a_block_without_an_error_is_quiet():
    with ModelRuns((2, 3)):
        pass
    assert not is_out_of_memory(ValueError("memory"))
    assert not is_device_failure(ValueError("device"))
