"""A causal convolution is ablated by its taps, in evaluation and in training, and is itself again afterwards."""

import pytest
import torch
from layerstate.adapters.huggingface.taps import watch_taps
from torch import nn
from torch.nn import functional


class Holder(nn.Module):
    """Reads the weights of its convolution, and never calls it."""

    def __init__(self, bias=True):
        super().__init__()
        self.conv = nn.Conv1d(3, 3, 4, groups=3, padding=3, bias=bias)
        self.ablation, self.fails = None, False
        watch_taps(self, self.conv)

    def forward(self, x_BLD):
        if self.fails:
            raise ValueError("no")
        x_BDL = functional.conv1d(x_BLD.transpose(1, 2), self.conv.weight, self.conv.bias, padding=3, groups=3)
        return x_BDL[..., : x_BLD.shape[1]].transpose(1, 2)


@pytest.fixture
def x_BLD():
    return torch.randn(2, 6, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("bias", [True, False])
def test_modes(bias, x_BLD):
    holder = Holder(bias)
    clean = holder(x_BLD)
    holder.ablation = "bypass"
    assert torch.equal(holder(x_BLD), x_BLD)
    holder.ablation = "current_tap"
    expected = x_BLD * holder.conv.weight[:, 0, -1] + (holder.conv.bias if bias else 0.0)
    assert torch.allclose(holder(x_BLD), expected, atol=1e-6)
    holder.ablation = None
    assert torch.equal(holder(x_BLD), clean)


def test_gradients_reach_the_taps_that_are_left_and_no_others(x_BLD):
    holder = Holder()
    parameters = dict(holder.named_parameters())
    holder.ablation = "current_tap"
    holder(x_BLD).square().sum().backward()
    gradient = holder.conv.weight.grad
    assert (gradient[..., -1] != 0).all()
    assert (gradient[..., :-1] == 0).all()
    assert all(dict(holder.named_parameters())[name] is parameter for name, parameter in parameters.items())


def test_the_weights_come_back_when_the_call_fails(x_BLD):
    holder = Holder()
    weight = holder.conv.weight
    holder.ablation, holder.fails = "bypass", True
    with pytest.raises(ValueError, match="no"):
        holder(x_BLD)
    assert holder.conv.weight is weight
