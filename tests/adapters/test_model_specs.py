"""The built-in models as their YAML declares them: complete, of one size, and built by the adapter they name."""

import inspect

import pytest
from layerstate.adapters.reference import ARCHITECTURES, build
from layerstate.suite.spec.load import find_spec, list_specs
from layerstate.suite.spec.schema import ReferenceModel

ZOO = ["transformer", "mamba", "mamba2", "lstm", "gru"]
VARIANTS = ["transformer_rope", "transformer_nope", "mamba_no_conv1d", "mamba2_no_conv1d", "mamba2_signed"]
TASKS = [(2, 2), (6, 6), (4, 11)]
SIZE = 827_000


def spec_of(name):
    spec = find_spec("model", name).spec
    assert isinstance(spec, ReferenceModel)
    return spec


def module_of(name, vocab_size=2, classes=2):
    options = spec_of(name).architecture.model_dump()
    return build(options.pop("type"), options, vocab_size, classes)


def parameters(module):
    return sum(value.numel() for value in module.parameters())


def test_the_zoo_is_declared():
    declared = {located.spec.name for located in list_specs("model")}
    assert declared >= {*ZOO, *VARIANTS}


@pytest.mark.parametrize(("vocab_size", "classes"), TASKS, ids=["parity", "s3", "dyck"])
@pytest.mark.parametrize("name", ZOO)
def test_all_architectures_have_about_the_same_number_of_parameters(name, vocab_size, classes):
    assert parameters(module_of(name, vocab_size, classes)) == pytest.approx(SIZE, rel=0.03)


@pytest.mark.parametrize("name", [*ZOO, *VARIANTS])
def test_a_model_has_four_blocks_of_width_128(name):
    module = module_of(name)
    assert len(module.blocks) == 4
    assert module.head[0].normalized_shape == (128,)


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_differs_in_one_option(name):
    mine, whole = (spec_of(each).architecture.model_dump() for each in (name, name.partition("_")[0]))
    assert len([key for key, value in mine.items() if whole[key] != value]) == 1
    assert spec_of(name).training == spec_of(name.partition("_")[0]).training


@pytest.mark.parametrize("name", [*ZOO, *VARIANTS])
def test_every_option_of_the_schema_reaches_the_architecture(name):
    """A field that the schema accepts and the class ignores would be a setting without effect."""
    architecture = spec_of(name).architecture
    module, class_name = ARCHITECTURES[architecture.type]
    built = getattr(__import__(f"layerstate.adapters.reference{module}", fromlist=[class_name]), class_name)
    assert set(type(architecture).model_fields) - {"type"} <= set(inspect.signature(built).parameters)


def test_a_variant_without_its_convolution_has_no_such_component():
    for name in ("mamba", "mamba2"):
        assert "conv1d" in module_of(name).components
        assert "conv1d" not in module_of(f"{name}_no_conv1d").components
