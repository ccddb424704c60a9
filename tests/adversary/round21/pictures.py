"""Blocks of image models, channels first: ConvNeXt and its kin, normaliser-free and magnitude-preserving nets, diffusion, squeeze and excitation, pooling."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

C, S = 32, 8


def example_inputs():
    return (torch.randn(2, C, S, S),)


def conv(i, o, k=3, groups=1):
    w = nn.Conv2d(i, o, k, padding=k // 2, groups=groups)
    nn.init.normal_(w.weight, std=(i // groups * k * k) ** -0.5)
    nn.init.zeros_(w.bias)
    return w


def linear(i, o):
    w = nn.Linear(i, o)
    nn.init.normal_(w.weight, std=i ** -0.5)
    nn.init.zeros_(w.bias)
    return w


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return F.layer_norm(x.permute(0, 2, 3, 1), self.normalized_shape, self.weight, self.bias, self.eps).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    """A depthwise filter, a norm over channels, two maps, a scale for each channel."""

    back = (0, 3, 1, 2)

    def __init__(self, dim=C, ls_init_value=0.5):
        super().__init__()
        self.dwconv, self.norm, self.pwconv1, self.pwconv2 = conv(dim, dim, 7, dim), nn.LayerNorm(dim), linear(dim, 64), linear(64, dim)
        self.gamma = nn.Parameter(ls_init_value * torch.ones(dim))

    def forward(self, x):
        shortcut = x
        x = self.dwconv(x).permute(0, 2, 3, 1)
        x = self.pwconv2(F.gelu(self.pwconv1(self.norm(x))))
        x = (self.gamma * x).permute(*self.back)
        return shortcut + x


class ConvNextTurned(ConvNext):
    """Permuted back to (batch, channels, width, height): what is added is the transposed picture."""

    back = (0, 3, 2, 1)


class ConvNextNormLost(ConvNext):
    """The norm was replaced by nothing for speed."""

    def __init__(self):
        super().__init__()
        self.norm = nn.Identity()


class ConvNextShortcutBehind(ConvNext):
    """The shortcut is taken behind the filter: nothing goes around it."""

    def forward(self, x):
        x = self.dwconv(x)
        shortcut = x
        x = self.pwconv2(F.gelu(self.pwconv1(self.norm(x.permute(0, 2, 3, 1)))))
        return shortcut + (self.gamma * x).permute(0, 3, 1, 2)


class Grn(nn.Module):
    """Global response norm, channels last."""

    axis = -1

    def __init__(self, dim):
        super().__init__()
        self.gamma, self.beta = nn.Parameter(torch.ones(1, 1, 1, dim)), nn.Parameter(torch.zeros(1, 1, 1, dim))

    def forward(self, x):
        gx = torch.norm(x, p=2, dim=(1, 2), keepdim=True)
        nx = gx / (gx.mean(dim=self.axis, keepdim=True) + 1e-6)
        return self.gamma * (x * nx) + self.beta + x


class GrnAxis(Grn):
    """The mean over an axis of one entry: each channel is divided by itself."""

    axis = 1


class ConvNextV2(nn.Module):
    grn = Grn

    def __init__(self):
        super().__init__()
        self.dwconv, self.norm, self.pwconv1, self.grn1, self.pwconv2 = conv(C, C, 7, C), nn.LayerNorm(C), linear(C, 64), self.grn(64), linear(64, C)

    def forward(self, x):
        h = self.norm(self.dwconv(x).permute(0, 2, 3, 1))
        return x + self.pwconv2(self.grn1(F.gelu(self.pwconv1(h)))).permute(0, 3, 1, 2)


class ConvNextV2Axis(ConvNextV2):
    grn = GrnAxis


class PreActivation(nn.Module):
    """Group norm, ReLU and a filter, twice."""

    def __init__(self):
        super().__init__()
        self.norm1, self.conv1, self.norm2, self.conv2 = nn.GroupNorm(8, C), conv(C, C), nn.GroupNorm(8, C), conv(C, C)

    def residual(self, x):
        return self.conv2(F.relu(self.norm2(self.conv1(F.relu(self.norm1(x))))))

    def forward(self, x):
        return x + self.residual(x)


class PreActivationInPlace(PreActivation):
    """The shortcut is taken behind the first norm and ReLU, as full pre-activation with a projection has it in all blocks."""

    def forward(self, x):
        h = F.relu(self.norm1(x))
        return h + self.conv2(F.relu(self.norm2(self.conv1(h))))


class ReluBehindSum(PreActivation):
    """A ReLU behind the sum of an older code base stays."""

    def forward(self, x):
        return F.relu(x + self.residual(x))


class OneNormInside(PreActivation):
    """The first norm is gone, the one between the filters is not: the last filter gets normed values."""

    def residual(self, x):
        return self.conv2(F.relu(self.norm2(self.conv1(F.relu(x)))))


class OneNormInFront(PreActivation):
    """The norm between the filters is gone."""

    def residual(self, x):
        return self.conv2(F.relu(self.conv1(F.relu(self.norm1(x)))))


class Squeeze(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = conv(C, 8, 1), conv(8, C, 1)

    def forward(self, x):
        return x * torch.sigmoid(self.fc2(F.relu(self.fc1(x.mean((2, 3), keepdim=True)))))


class SqueezeInside(PreActivation):
    """Squeeze and excitation at the end of the residual branch."""

    def __init__(self):
        super().__init__()
        self.se = Squeeze()

    def forward(self, x):
        return x + self.se(self.residual(x))


class SqueezeBehindSum(SqueezeInside):
    """A bracket: the gate takes the sum."""

    def forward(self, x):
        return self.se(x + self.residual(x))


class SqueezeRaw(SqueezeInside):
    """The gate is computed from the stream and multiplies the branch: each of its numbers is below one."""

    def forward(self, x):
        gate = torch.sigmoid(self.se.fc2(F.relu(self.se.fc1(x.mean((2, 3), keepdim=True)))))
        return x + gate * self.residual(x)


class SqueezeNoSigmoid(SqueezeInside):
    """The gate of the raw stream without its sigmoid."""

    def forward(self, x):
        gate = self.se.fc2(F.relu(self.se.fc1(x.mean((2, 3), keepdim=True))))
        return x + gate * self.residual(x)


class UNetRes(nn.Module):
    """The residual block of a diffusion model: a scale and a shift from the time step, which is a buffer here."""

    def __init__(self):
        super().__init__()
        self.in_norm, self.in_conv, self.out_norm, self.out_conv, self.emb = nn.GroupNorm(8, C), conv(C, C), nn.GroupNorm(8, C), conv(C, C), linear(16, 2 * C)
        freq = torch.exp(-math.log(10000.0) * torch.arange(8) / 8)
        self.register_buffer("t", torch.cat((torch.cos(250 * freq), torch.sin(250 * freq))))

    def branch(self, x):
        scale, shift = self.emb(F.silu(self.t))[:, None, None].chunk(2, 0)
        h = self.in_conv(F.silu(self.in_norm(x)))
        h = self.out_norm(h) * (1 + scale) + shift
        return self.out_conv(F.silu(h))

    def forward(self, x):
        return x + self.branch(x)


class UNetResRoot(UNetRes):
    """Sum over the square root of two, as score models have it."""

    def forward(self, x):
        return (x + self.branch(x)) / math.sqrt(2.0)


class UNetResScaleOnSkip(UNetRes):
    """The scale and the shift meet the stream and not what was normed."""

    def forward(self, x):
        scale, shift = self.emb(F.silu(self.t))[:, None, None].chunk(2, 0)
        h = self.in_conv(F.silu(self.in_norm(x)))
        h = self.out_norm(h)
        x = x * (1 + scale) + shift
        return x + self.out_conv(F.silu(h))


class UNetResAddsTime(UNetRes):
    """The time step is added in front of the second norm; sound, of an older version."""

    def branch(self, x):
        h = self.in_conv(F.silu(self.in_norm(x))) + self.emb(F.silu(self.t))[:C, None, None]
        return self.out_conv(F.silu(self.out_norm(h)))


class KeepsMagnitude(nn.Module):
    """Magnitude-preserving sums, weights that are divided by their norms, values divided by theirs."""

    t = 0.3

    def __init__(self):
        super().__init__()
        self.w1, self.w2 = nn.Parameter(torch.randn(C, C, 3, 3)), nn.Parameter(torch.randn(C, C, 3, 3))

    @staticmethod
    def conv(x, w, eps=1e-4):
        n = torch.linalg.vector_norm(w, dim=(1, 2, 3), keepdim=True)
        w = w / (n * (1 / math.sqrt(w[0].numel())) + eps)
        return F.conv2d(x, w / math.sqrt(w[0].numel()), padding=1)

    @staticmethod
    def unit(x, eps=1e-4):
        return x / (torch.linalg.vector_norm(x, dim=1, keepdim=True) * C ** -0.5 + eps)

    def branch(self, x):
        y = self.conv(F.silu(self.unit(x)) / 0.596, self.w1)
        return self.conv(F.silu(y) / 0.596, self.w2)

    def sum(self, x, y):
        return x.lerp(y, self.t) / math.sqrt((1 - self.t) ** 2 + self.t ** 2)

    def forward(self, x):
        return self.sum(x, self.branch(x))


class KeepsSquare(KeepsMagnitude):
    """The root under the sum is forgotten."""

    def sum(self, x, y):
        return x.lerp(y, self.t) / ((1 - self.t) ** 2 + self.t ** 2)


class UnitOnStream(KeepsMagnitude):
    """The stream itself is divided by its magnitude first, as in the encoder."""

    def forward(self, x):
        x = self.unit(x)
        return self.sum(x, self.branch(x))


class Pooled(nn.Module):
    """PoolFormer: a pool minus its input, a norm of one group, scales for channels."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.pool = nn.GroupNorm(1, C), nn.GroupNorm(1, C), nn.AvgPool2d(3, 1, 1, count_include_pad=False)
        self.fc1, self.fc2 = conv(C, 64, 1), conv(64, C, 1)
        self.s1, self.s2 = nn.Parameter(0.5 * torch.ones(C)), nn.Parameter(0.5 * torch.ones(C))

    def mixer(self, x):
        h = self.norm1(x)
        return self.pool(h) - h

    def forward(self, x):
        x = x + self.s1[:, None, None] * self.mixer(x)
        return x + self.s2[:, None, None] * self.fc2(F.gelu(self.fc1(self.norm2(x))))


class PooledLosesSkip(Pooled):
    """The pool minus the stream, without a scale: the skip cancels, and a pool of what is normed is left."""

    def forward(self, x):
        x = x + (self.pool(self.norm1(x)) - x)
        return x + self.s2[:, None, None] * self.fc2(F.gelu(self.fc1(self.norm2(x))))


class PooledScaleOutside(Pooled):
    """The scale stands in front of the bracket: half of the stream goes on."""

    def forward(self, x):
        x = self.s1[:, None, None] * (x + self.mixer(x))
        return x + self.s2[:, None, None] * self.fc2(F.gelu(self.fc1(self.norm2(x))))


class CosineWindow(nn.Module):
    """Swin 2: cosines by a clamped scale in windows of four by four, a norm behind each branch."""

    def __init__(self):
        super().__init__()
        self.qkv, self.proj, self.norm1, self.norm2 = linear(C, 3 * C), linear(C, C), nn.LayerNorm(C), nn.LayerNorm(C)
        self.logit_scale = nn.Parameter(torch.log(10 * torch.ones(4, 1, 1)))
        self.fc1, self.fc2 = linear(C, 64), linear(64, C)

    def scale(self):
        return torch.clamp(self.logit_scale, max=math.log(100.0)).exp()

    def attend(self, x):
        b, h, w, c = x.shape
        x = x.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        q, k, v = self.qkv(x).unflatten(-1, (3, 4, c // 4)).permute(2, 0, 3, 1, 4)
        a = (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)) * self.scale()
        y = self.proj((a.softmax(-1) @ v).transpose(1, 2).reshape(-1, 16, c))
        return y.view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)

    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x = x + self.norm1(self.attend(x))
        x = x + self.norm2(self.fc2(F.gelu(self.fc1(x))))
        return x.permute(0, 3, 1, 2)


class CosineNoExp(CosineWindow):
    """exp comes in front of the clamp: the bound is log 100 and not 100."""

    def scale(self):
        return torch.clamp(self.logit_scale.exp(), max=math.log(100.0))


class CosineClampMin(CosineWindow):
    """min for max: the clamp holds the scale above 100, and nothing from above."""

    def scale(self):
        return torch.clamp(self.logit_scale, min=math.log(100.0)).exp()


class Alpha(nn.Module):
    """A normaliser-free stage: each block divides by the size that is expected there, and adds a fifth."""

    divide = True

    def __init__(self, n=None, alpha=0.2):
        super().__init__()
        self.blocks, expected = nn.ModuleList(), 1.0
        for _ in range(n or 12):
            self.blocks.append(AlphaBlock(alpha, expected ** -0.5 if self.divide else expected ** 0.5))
            expected += alpha ** 2

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class RaisedByBeta(Alpha):
    """Multiplied by it."""

    divide = False


class AlphaBlock(nn.Module):
    def __init__(self, alpha, beta):
        super().__init__()
        self.alpha, self.beta, self.conv1, self.conv2, self.gain = alpha, beta, StandardConv(C, C), StandardConv(C, C), nn.Parameter(torch.ones(()))

    def forward(self, x):
        out = F.relu(x) * 1.7139 * self.beta
        out = self.conv2(F.relu(self.conv1(out)) * 1.7139)
        return x + out * self.gain * self.alpha


class StandardConv(nn.Conv2d):
    def __init__(self, i, o):
        super().__init__(i, o, 3, padding=1)
        self.g = nn.Parameter(torch.ones(o))

    def forward(self, x):
        w = F.batch_norm(self.weight.reshape(1, self.out_channels, -1), None, None, weight=self.g * self.weight[0].numel() ** -0.5, training=True, momentum=0.0, eps=1e-6)
        return F.conv2d(x, w.reshape_as(self.weight), self.bias, padding=1)


class PictureTransformer(nn.Module):
    """Patches of two by two, a class token, positions, twelve blocks with qk norms, a norm over the mean of the patches."""

    every = False

    def __init__(self, n=None):
        super().__init__()
        self.patch, self.cls_token, self.pos_embed = nn.Conv2d(C, C, 2, 2), nn.Parameter(torch.zeros(1, 1, C)), nn.Parameter(torch.randn(1, 17, C) * 0.02)
        self.blocks, self.fc_norm, self.head = nn.Sequential(*(PictureBlock() for _ in range(n or 12))), nn.LayerNorm(C), nn.Linear(C, 10)

    def trunk(self, x):
        if not self.every:
            return self.blocks(x)
        for block in self.blocks:
            x = block(x + self.pos_embed)
        return x

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), 1) + self.pos_embed
        return self.head(self.fc_norm(self.trunk(x)[:, 1:].mean(1)))


class PositionsEveryBlock(PictureTransformer):
    """Positions are added in front of each block, as DETR does it to queries, here to the stream."""

    every = True


class PictureBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.q_norm, self.k_norm = nn.LayerNorm(C), nn.LayerNorm(C), nn.LayerNorm(8), nn.LayerNorm(8)
        self.qkv, self.proj, self.fc1, self.fc2 = linear(C, 3 * C), linear(C, C), linear(C, 64), linear(64, C)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, 4, 8)).permute(2, 0, 3, 1, 4)
        q, k = self.q_norm(q), self.k_norm(k)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class SmallUNet(nn.Module):
    """Two levels, states of the way down put beside the channels of the way up."""

    def __init__(self, n=None):
        super().__init__()
        self.down = nn.ModuleList(UNetRes() for _ in range(2))
        self.pool, self.mid = conv(C, C), nn.ModuleList(UNetRes() for _ in range(n or 4))
        self.merge, self.up, self.out = nn.ModuleList(conv(2 * C, C, 1) for _ in range(2)), nn.ModuleList(UNetRes() for _ in range(2)), conv(C, 3)

    def forward(self, x):
        states = []
        for block in self.down:
            x = block(x)
            states.append(x)
        x = F.avg_pool2d(self.pool(x), 2)
        for block in self.mid:
            x = block(x)
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        for merge, block in zip(self.merge, self.up):
            x = block(merge(torch.cat((x, states.pop()), 1)))
        return self.out(F.silu(x))


_NET = dict(kind="block", identity_gain=1.0, growth_fixed="linear", softmax=False)
_ONE, _TWO = dict(output_bounded={0: False}), dict(output_bounded={0: False, 1: False})
TRUTH = {
    "ConvNext": dict(_NET, **_ONE, sound=True, why="normed inside the branch, a map behind."),
    "ConvNextTurned": dict(_NET, **_ONE, sound=False, why="the same sizes, another place."),
    "ConvNextNormLost": dict(kind="block", growth_fixed="exponential", softmax=False, **_ONE, sound=False, why="nothing is normed."),
    "ConvNextShortcutBehind": dict(kind="block", softmax=False, sound=False, why="24 filters in a row are the only way without a norm."),
    "ConvNextV2": dict(_NET, **_ONE, sound=True, why="normed inside; a product of channels with shares of their sizes."),
    "ConvNextV2Axis": dict(_NET, **_ONE, sound=False, why="each channel by its size over itself: twice the values."),
    "PreActivation": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "PreActivationInPlace": dict(kind="block", growth_fixed="bounded", softmax=False, sound=False, why="a normed stream."),
    "ReluBehindSum": dict(kind="block", growth_fixed="linear", softmax=False, **_ONE, sound=False, why="max(x + f, 0): no larger than |x + f|."),
    "OneNormInside": dict(_NET, **_ONE, sound=True, why="a filter of what was normed."),
    "OneNormInFront": dict(_NET, **_ONE, sound=True, why="two filters of what was normed."),
    "SqueezeInside": dict(_NET, **_ONE, sound=True, why="a gate below one on the branch."),
    "SqueezeBehindSum": dict(kind="block", gated=True, growth_fixed="linear", softmax=False, sound=False, why="gates below one, that go to one in channels that grow."),
    "SqueezeRaw": dict(_NET, **_ONE, sound=True, why="gates below one."),
    "SqueezeNoSigmoid": dict(kind="block", growth_fixed="exponential", softmax=False, **_ONE, sound=False, why="of degree one in the stream."),
    "UNetRes": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "UNetResRoot": dict(kind="block", identity_gain=2.0 ** -12, growth_fixed="bounded", softmax=False, **_ONE, sound=True, why="1/√2 a block."),
    "UNetResScaleOnSkip": dict(kind="block", growth_fixed="exponential", softmax=False, sound=False, why="some channels are multiplied by more than one in each block."),
    "UNetResAddsTime": dict(_NET, **_ONE, sound=True, why="pre-norm."),
    "KeepsMagnitude": dict(kind="block", identity_gain=(0.7 / math.sqrt(0.58)) ** 24, growth_fixed="bounded", softmax=False, sound=True, why="0.919 a block, of a bounded branch."),
    "KeepsSquare": dict(kind="block", identity_gain=(0.7 / 0.58) ** 24, growth_fixed="exponential", softmax=False, sound=False, why="1.207 a block."),
    "UnitOnStream": dict(kind="block", growth_fixed="bounded", softmax=False, sound=True, why="each block starts at size one."),
    "Pooled": dict(_NET, output_bounded={0: True, 1: False}, sound=True, why="a mean of normed values less these, and a scale; then a net."),
    "PooledLosesSkip": dict(kind="block", growth_fixed="bounded", softmax=False, sound=False, why="what goes on is a mean of normed values."),
    "PooledScaleOutside": dict(kind="block", identity_gain=0.5 ** 24, growth_fixed="bounded", softmax=False, sound=False, why="half a block."),
    "CosineWindow": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all="linear", softmax=True, output_bounded={0: True, 1: True}, logits_bounded={0: True}, sound=True, why="cosines by at most 100; normed behind."),
    "CosineNoExp": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all="linear", softmax=True, output_bounded={0: True, 1: True}, logits_bounded={0: True}, sound=False, why="cosines by at most 4.6."),
    "CosineClampMin": dict(kind="block", identity_gain=1.0, growth_fixed="linear", growth_all="linear", softmax=True, output_bounded={0: True, 1: True}, sound=False, why="cosines by at least 100; a temperature is held in all rounds, so that no claim on logits."),
    "Alpha": dict(kind="model", depth=12, identity_gain=None, softmax=False, sound=True, why="raw branches over what is expected."),
    "RaisedByBeta": dict(kind="model", depth=12, growth_fixed="exponential", softmax=False, sound=False, why="raw branches by what is expected."),
    "PictureTransformer": dict(kind="model", depth=12, identity_gain=1.0, growth_fixed="linear", softmax=True, sound=True, why="pre-norm."),
    "PositionsEveryBlock": dict(kind="model", depth=12, identity_gain=1.0, growth_fixed="linear", softmax=True, sound=True, why="pre-norm, and a vector of a token in each layer."),
    "SmallUNet": dict(kind="model", softmax=False, sound=True, why="pre-norm blocks between maps."),
}
