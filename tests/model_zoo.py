"""Models for tests: small ones of our own, and real ones built from configurations, with random weights."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

# torchvision's CUDA build does not load beside torch's CPU build, and cannot be imported for lack of these operators,
# which no model here calls
with contextlib.suppress(RuntimeError):
    for name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

HIDDEN = 64


class MyRMSNorm(nn.Module):
    """RMSNorm by hand, as models have it."""

    def __init__(self, hidden: int, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(hidden) + 0.5)
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Block(nn.Module):
    """A norm, two linear layers, and code of its own between them."""

    def __init__(self, hidden: int):
        super().__init__()
        self.norm = MyRMSNorm(hidden)
        self.up = nn.Linear(hidden, 4 * hidden)
        self.down = nn.Linear(4 * hidden, hidden)

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        return x + scale * self.down(torch.softmax(self.up(self.norm(x)), dim=-1))


class Net(nn.Module):
    """An embedding, blocks that are called by keyword, and a head."""

    def __init__(self, hidden: int = HIDDEN, blocks: int = 2):
        super().__init__()
        self.embed = nn.Embedding(32, hidden)
        self.blocks = nn.ModuleList(Block(hidden) for _ in range(blocks))
        self.head = nn.Linear(hidden, 32)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, scale=0.5)
        return self.head(x)


def net() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Net(), (torch.randint(32, (2, 16)),)


def normed() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return nn.Sequential(MyRMSNorm(HIDDEN), nn.Linear(HIDDEN, HIDDEN)), (torch.randn(16, HIDDEN),)


def net_alone() -> nn.Module:
    return Net()


def tokens() -> dict[str, Tensor]:
    return {"tokens": torch.randint(32, (2, 16))}


def compiled() -> tuple[Any, tuple[Tensor, ...]]:
    return torch.compile(Net()), (torch.randint(32, (2, 16)),)


def fused() -> tuple[nn.Module, tuple[Tensor, ...]]:
    layers = (nn.RMSNorm(HIDDEN), nn.Linear(HIDDEN, HIDDEN), nn.RMSNorm(HIDDEN))
    return nn.Sequential(*layers), (torch.randn(2, 16, HIDDEN),)


class FusedNorm(nn.Module):
    """The same, by torch's own kernel."""

    def __init__(self, module: MyRMSNorm):
        super().__init__()
        self.weight, self.eps = module.weight, module.eps

    def forward(self, x: Tensor) -> Tensor:
        return torch.rms_norm(x, x.shape[-1:], self.weight, self.eps)


def fused_norm(x: Tensor, module: MyRMSNorm) -> Tensor:
    return torch.rms_norm(x, x.shape[-1:], module.weight, module.eps)


def wrong_norm(module: MyRMSNorm, x: Tensor) -> Tensor:
    return 1.05 * fused_norm(x, module)


def raising(x: Tensor) -> Tensor:
    raise ValueError("no such norm")


def llama(hidden: int = HIDDEN, layers: int = 2, seq: int = 32) -> tuple[nn.Module, dict[str, Any]]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=256, hidden_size=hidden, intermediate_size=3 * hidden, num_hidden_layers=layers,
        num_attention_heads=4, num_key_value_heads=2, use_cache=False,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval(), {"input_ids": torch.randint(256, (1, seq))}


def larger_llama() -> tuple[nn.Module, dict[str, Any]]:
    return llama(hidden=128, layers=4, seq=64)


def larger_bert() -> tuple[nn.Module, dict[str, Any]]:
    return bert(hidden=128, layers=4, seq=64)


def bert(hidden: int = HIDDEN, layers: int = 2, seq: int = 32) -> tuple[nn.Module, dict[str, Any]]:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=256, hidden_size=hidden, intermediate_size=4 * hidden, num_hidden_layers=layers,
        num_attention_heads=4,
    )  # fmt: skip
    mask = torch.ones(1, seq, dtype=torch.int64)
    return BertModel(config).eval(), {"input_ids": torch.randint(256, (1, seq)), "attention_mask": mask}


def resnet() -> tuple[nn.Module, tuple[Tensor, ...]]:
    from torchvision.models import resnet18

    return resnet18().eval(), (torch.randn(1, 3, 64, 64),)


class Broken(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        raise RuntimeError("not today")


def misfit() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Net(), (torch.randint(32, (2, 16)), 3)


def unnamed() -> tuple[nn.Module, int]:
    return Net(), 3


class Third(nn.Module):
    """Raises in its third call."""

    calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        if self.calls == 3:
            raise ValueError("three times")
        return x * 2


def third() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Third(), (torch.ones(2),)


class Writing(nn.Module):
    """Writes into its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x.add_(1).exp()


def writing() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Writing(), (torch.randn(64),)


class Cast(nn.Module):
    """Computes in bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast(x.device.type, torch.bfloat16):
            return self.mix(x)


def cast() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Cast(), (torch.randn(4, 16),)


class Prepared(nn.Module):
    """What it does first takes no gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(torch.softmax(x, -1))


def prepared() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Prepared(), (torch.randn(64, 16),)


class Mixed(nn.Module):
    """A norm in float32 within bfloat16."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(16, 16).bfloat16()
        self.norm = nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        return self.mix(self.norm(x.float()).bfloat16())


def mixed() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Mixed(), (torch.randn(4, 16).bfloat16(),)


class Pair(NamedTuple):
    """What one module hands to the next."""

    x: Tensor
    mask: Tensor


class Masked(nn.Module):
    """Attention with a mask by name, on a part of a named tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, given: Pair) -> Tensor:
        q, k, v = self.qkv(given.x)[:, None, ..., :48].chunk(3, -1)
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=given.mask)[:, 0]


class Handing(nn.Module):
    """Named tuples, packed sequences, slices, and arguments by name that are no plain values."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = Masked()
        self.lstm = nn.LSTM(16, 16, batch_first=True)

    def forward(self, given: Pair) -> dict[str, Any]:
        x = self.attend(Pair(torch.softmax(given.x, dim=-1, dtype=torch.float32), given.mask))
        packed = pack_padded_sequence(x, torch.tensor([8, 5]), batch_first=True)
        x, lengths = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return {"x": x[..., 1:], "lengths": lengths, "none": None}


def handing() -> tuple[nn.Module, tuple[Pair]]:
    return Handing(), (Pair(torch.randn(2, 8, 16), torch.rand(2, 1, 1, 8) > 0.2),)


class Derivative(nn.Module):
    """Each row's gradient, by torch.func."""

    def __init__(self) -> None:
        super().__init__()
        self.energy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x: Tensor) -> Tensor:
        return torch.func.vmap(torch.func.grad(lambda row: self.energy(row).sum()))(x)


class Inner(nn.Module):
    """Its forward is compiled, and calls a module."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(16, 16)
        self.head = nn.Linear(16, 16)

    @torch.compile(backend="eager")
    def inner(self, x: Tensor) -> Tensor:
        return torch.tanh(self.mix(x))

    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(self.head(self.inner(x)), -1)


class Exits(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        raise SystemExit(3)


def exits() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Exits(), (torch.ones(2),)


def nested() -> tuple[nn.Module, tuple[Tensor, ...]]:
    return Net(), (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),)


class Unprintable(nn.Linear):
    def extra_repr(self) -> str:
        raise ValueError("not printed")


@dataclass
class Output:
    """What a model returns that has more to say than a tensor."""

    logits: Tensor
    cache: Any = None


class Odd(nn.Module):
    """Modules by keyword, tied weights, hooks, side effects, control flow on data, a dataclass."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 16)
        self.mix = nn.Linear(16, 16)
        self.again = self.mix
        self.head = nn.Linear(16, 16, bias=False)
        self.head.weight = self.embed.weight
        self.mix.register_forward_hook(lambda module, args, output: output * 2)
        self.seen: list[Any] = []

    def forward(self, tokens: Tensor) -> Output:
        self.seen.append(tokens.shape)
        print("not into a table")
        x = self.mix(input=self.embed(tokens))
        x = self.again(input=x) if x.abs().sum() > 0 else x
        return Output(self.head(input=x))


def odd() -> tuple[nn.Module, dict[str, Tensor]]:
    return Odd(), {"tokens": torch.randint(16, (64, 4))}


class OtherInterface(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(out_features, in_features))

    def forward(self, input: Tensor, y: Tensor) -> Tensor:
        return input


def deadly(input: Tensor, module: nn.Module) -> Tensor:
    os._exit(3)


def linear(input: Tensor, module: Any) -> Tensor:
    return nn.functional.linear(input, module.weight, module.bias)


def wrong_linear(input: Tensor, module: Any) -> Tensor:
    return 1.5 * linear(input, module)
