"""Odd ways to own, share, wrap and call modules and weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from tests.awkward.parts import FFN, HEADS, Attention, D, Pre


class PlainList(nn.Module):
    """The blocks stand in a Python list: no `parameters()` of the model names them."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = [Pre() for _ in range(3)]
        self.final = nn.LayerNorm(D)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.final(x)


class Shared(nn.Module):
    """ALBERT: one post block, called four times."""

    def __init__(self) -> None:
        super().__init__()
        self.embed_norm = nn.LayerNorm(D)
        self.attn, self.ffn, self.n1, self.n2 = Attention(), FFN(), nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed_norm(x)
        for _ in range(4):
            x = self.n1(x + self.attn(x))
            x = self.n2(x + self.ffn(x))
        return x


class Universal(nn.Module):
    """Universal transformer: one block, and a learned step embedding added to the stream before every call."""

    def __init__(self, steps: int = 4) -> None:
        super().__init__()
        self.block, self.final = Pre(), nn.LayerNorm(D)
        self.step = nn.Parameter(torch.zeros(steps, D))

    def forward(self, x: Tensor) -> Tensor:
        for embedding in self.step:
            x = self.block(x + embedding)
        return self.final(x)


class BareWeights(nn.Module):
    """No submodule at all: parameters in lists, everything by `F`."""

    def __init__(self, depth: int = 3, hidden: int = 80) -> None:
        super().__init__()
        shapes = {"gain": (D,), "bias": (D,), "up": (hidden, D), "down": (D, hidden)}
        self.weights = nn.ModuleDict({k: nn.ParameterList(torch.empty(s) for _ in range(depth)) for k, s in shapes.items()})

    def forward(self, x: Tensor) -> Tensor:
        w = self.weights
        for gain, bias, up, down in zip(w["gain"], w["bias"], w["up"], w["down"], strict=True):
            x = x + F.linear(F.silu(F.linear(F.layer_norm(x, (D,), gain, bias), up)), down)
        return x


class StackedWeights(nn.Module):
    """All layers in one tensor with a leading depth axis, unbound in a loop (as converted from JAX)."""

    def __init__(self, depth: int = 3, hidden: int = 80) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(depth, D))
        self.up, self.down = nn.Parameter(torch.empty(depth, D, hidden)), nn.Parameter(torch.empty(depth, hidden, D))

    def forward(self, x: Tensor) -> Tensor:
        for layer in range(self.gain.shape[0]):
            h = F.rms_norm(x, (D,), self.gain[layer], 1e-6)
            x = x + torch.einsum("bth,hd->btd", torch.einsum("btd,dh->bth", h, self.up[layer]).relu(), self.down[layer])
        return x


class Hooked(Pre):
    """Forward hooks that replace the branches' outputs by normalised ones: peri, though no line of `forward` says so."""

    def __init__(self) -> None:
        super().__init__()
        for branch in (self.attn, self.ffn):
            branch.register_forward_hook(lambda module, args, output: F.layer_norm(output, (D,)))


class PreHooked(nn.Module):
    """The norm sits in a pre-hook of each branch."""

    def __init__(self) -> None:
        super().__init__()
        self.attn, self.ffn = Attention(), FFN()
        for branch in (self.attn, self.ffn):
            branch.register_forward_pre_hook(lambda module, args: (F.layer_norm(args[0], (D,)),))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attn(x)
        return x + self.ffn(x)


class _ScriptedFFN(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(D, 80), nn.Linear(80, D)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))


class Scripted(nn.Module):
    """The FFN is a TorchScript module: its calls do not come back to Python."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.ffn = nn.LayerNorm(D), torch.jit.script(_ScriptedFFN())

    def forward(self, x: Tensor) -> Tensor:
        return x + self.ffn(self.norm(x))


class Compiled(Pre):
    """The block's body is decorated with `torch.compile`."""

    @torch.compile(dynamic=False)
    def body(self, x: Tensor) -> Tensor:
        return super().forward(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class Checkpointed(nn.Module):
    """Blocks run under activation checkpointing, one of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Pre() for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        for index, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=index % 2 == 0)
        return x


class Functional(nn.Module):
    """`torch.func.functional_call` with weights averaged on the fly."""

    def __init__(self) -> None:
        super().__init__()
        self.block = Pre()

    def forward(self, x: Tensor) -> Tensor:
        weights = {name: 0.999 * weight for name, weight in self.block.named_parameters()}
        return torch.func.functional_call(self.block, weights, (x,))


class Vmapped(nn.Module):
    """The FFN is written for one token and mapped over batch and tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.ffn = nn.LayerNorm(D), FFN()

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.vmap(torch.vmap(lambda token: self.ffn(self.norm(token))))(x)


class WeightNormed(nn.Module):
    """Weight norm and spectral norm normalise weights: neither is a norm of the stream."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(D)
        self.up = nn.utils.parametrizations.weight_norm(nn.Linear(D, 80))
        self.down = nn.utils.parametrizations.spectral_norm(nn.Linear(80, D))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.relu(self.up(self.norm(x))))


class Builtin(nn.Module):
    """PyTorch's own encoder: its layers call a fused kernel in eval mode."""

    def __init__(self, norm_first: bool = True) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(D, HEADS, 80, norm_first=norm_first, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3, norm=nn.LayerNorm(D) if norm_first else None, enable_nested_tensor=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.encoder(x)


class BuiltinPost(Builtin):
    """The same with its default: post, no final norm."""

    def __init__(self) -> None:
        super().__init__(norm_first=False)


class BuiltinBoth(nn.Module):
    """`nn.Transformer`: two streams, post, each with a final norm behind the last block's own."""

    def __init__(self) -> None:
        super().__init__()
        self.both = nn.Transformer(D, HEADS, 3, 2, 80, batch_first=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        return self.both(source, target)
