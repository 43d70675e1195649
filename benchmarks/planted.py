"""Models with planted replacements, whose effect is known: more or less work, an opaque operator, a wrong result."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

ROUNDS = 40  # of work in a module as it is
SIZE = 96
LAYERS = 4
WIDE = 1 << 20  # elements: far more than the caches hold


class Work(nn.Module):
    """A linear layer, and rounds of work whose result is thrown away."""

    rounds = ROUNDS

    def __init__(self, size: int = SIZE):
        super().__init__()
        self.size = size
        self.linear = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.rounds):
            x @ self.linear.weight
        return torch.tanh(self.linear(x))


def _working(rounds: int) -> type[Work]:
    return type(f"Work{rounds}", (Work,), {"rounds": rounds})


# Less and more work by known amounts, in a model in which it is about two thirds of a step
ROUNDS_OF = [0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 44, 48, 52, 56, 60, 64, 68, 72, 76, 80]
globals().update({f"Work{rounds}": _working(rounds) for rounds in ROUNDS_OF})


class Rest(nn.Module):
    """What is not replaced."""

    def __init__(self, size: int = SIZE):
        super().__init__()
        self.linear = nn.Linear(size, size)

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(ROUNDS // 2):
            x @ self.linear.weight
        return torch.tanh(self.linear(x))


def working() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Two layers that do work and two that are left as they are."""
    return nn.Sequential(Work(), Rest(), Work(), Rest()), (torch.randn(SIZE, SIZE),)


# An operator that the compiler cannot look into


class Activation(nn.Module):
    """A chain of operators, which a compiler makes one loop of, with those around it."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x, x * 0.5 * 0.5 * 0.5)


@torch.library.custom_op("planted::activation", mutates_args=())
def opaque(x: Tensor) -> Tensor:
    return torch.nn.functional.leaky_relu(x, 0.125)


@opaque.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


class OpaqueActivation(Activation):
    """The same in one kernel: faster alone, and in the way of the compiler."""

    def forward(self, x: Tensor) -> Tensor:
        return opaque(x)


class Elementwise(nn.Module):
    """Activations between other operators of the same kind: memory is all that they cost."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Activation() for _ in range(LAYERS))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x * 1.01 + 0.01) - x * 0.5
        return x


def elementwise() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Elementwise(), (torch.randn(WIDE, requires_grad=True),)


# Many calls


class Leaf(nn.Module):
    """Ten operators."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(64))

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(5):
            x = x * self.weight + 1
        return x


def many() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """1,000 module calls of 10 operators."""
    return nn.Sequential(*(Leaf() for _ in range(999))), (torch.randn(64, 64),)


# Steps of seconds


def heavy() -> tuple[nn.Module, tuple[Tensor, ...]]:
    """Matrix products of 2 GFLOP each."""
    layers = [nn.Sequential(nn.Linear(1024, 2048), nn.GELU(), nn.Linear(2048, 1024)) for _ in range(24)]
    return nn.Sequential(*layers), (torch.randn(512, 1024),)


# Wrong results, each in another way


class _Scaled(Activation):
    def forward(self, x: Tensor) -> Tensor:
        return 1.03 * super().forward(x)


class _Other(Activation):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x)


class _Nothing(Activation):
    def forward(self, x: Tensor) -> Tensor:
        return x


class _Nan(Activation):
    def forward(self, x: Tensor) -> Tensor:
        y = super().forward(x)
        y[0] = float("nan")
        return y


class _Remembering(Activation):
    seen = None

    def forward(self, x: Tensor) -> Tensor:
        if self.seen is None:
            self.seen = super().forward(x)
        return self.seen


class _Narrow(Activation):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.bfloat16()).to(x.dtype)


class _Half(Activation):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        half = x.shape[0] // 2
        y[:half] = super().forward(x[:half])
        return y


class _InPlace(Activation):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu_()


class _Random(Activation):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 0.01 * torch.rand_like(x)


class _Shape(Activation):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[None])


class _Late(Activation):
    """From its 30th call on."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x) * (1.0 if self.calls < 30 else 1.5)


class _Third(Activation):
    """In the third of the model's layers alone."""

    made = 0

    def __init__(self, module: nn.Module):
        super().__init__()
        self.wrong = _Third.made % LAYERS == 2
        _Third.made += 1

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1.1 if self.wrong else 1.0)


class _Wide(Activation):
    """In another dtype."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).double()


class _Training(Activation):
    """As long as it is trained."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1.05 if self.training else 1.0)


class _Detached(Activation):
    """Without a gradient."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).detach()


class _Gradient(Activation):
    """In its gradients alone."""

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = _Straight.apply(x)
        return y


class _Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.nn.functional.leaky_relu(x, 0.125)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return torch.where(ctx.saved_tensors[0] > 0, grad, grad * 0.25)


def _named(*kinds: type[Activation]) -> dict[str, type[Activation]]:
    return {kind.__name__.lstrip("_"): kind for kind in kinds}


WRONG = {  # by the mode in which they are
    "forward": _named(_Scaled, _Other, _Nothing, _Nan, _Remembering, _Narrow, _Half, _InPlace, _Random, _Shape, _Late,
                      _Third, _Wide, _Training),
    "forward_backward": _named(_Detached, _Gradient),
}  # fmt: skip
globals().update(WRONG["forward"] | WRONG["forward_backward"])
