"""Sizes to propose, where a class needs a number and neither `--set` nor any call of the author's gives it: those of a published model.

They are the sizes of the base model of "Attention is all you need" (table 3: six layers, width 512, eight heads of 64, 2048 hidden units, dropout
0.1, 37,000 tokens), those of ViT-B/16 on ImageNet for images, and for observations those of DQN (four frames of 84 × 84, 18 actions; or one number
for an action), of its discount 0.99, of a graph 207 sensors (METR-LA, Li et al. 2018), of a cloud 1,024 points (PointNet), 17 joints (COCO), 100
numbers of noise (DCGAN), growth by 32 channels (DenseNet), 0.25 of a commitment loss (VQ-VAE), and speech at 16,000 Hz. Of a U-Net they are those of
DDPM (Ho et al. 2020, appendix B: two residual blocks for each resolution, attention at 16 × 16; 128 channels, multiplied by 1, 2, 2, 2, in its code)
and improved-diffusion, which has attention at 16 and 8; of adapters those of LoRA (Hu et al. 2021, appendix D: rank 4, α 32); rotary embeddings have
base 10,000 (Su et al. 2021), starts a deviation of 0.02 (GPT-2), texts of pictures 77 tokens (CLIP, Radford et al. 2021), group norms 32 groups
(Wu & He 2018), detectors 100 queries (DETR, Carion et al. 2020), codecs of sound eight codebooks
of 1,024 codes (EnCodec at 6 kbps, Défossez et al. 2022), windows of measured series 100 steps (Anomaly Transformer, Xu et al. 2022), and tables eight
columns of numbers, as California housing has. The words in the name of an argument say which of these it is, else what layers it goes into; one that
may be `None` by its annotation and has no such word is, and one that the code compares with words is the first of these. They stand in the message
that asks for the numbers, and nothing is judged with them before somebody says so: how many blocks there are decides a verdict.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import shlex
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch import nn

from screen.capture.build.configs import config_of, defaults_of
from screen.capture.build.python_file import drop_contained
from screen.capture.build.reads import compared, entries_told, is_iterated, only_tested, used_as
from screen.capture.inputs.missing import frames, statement
from screen.graph.target import TargetSpec

_DEVICE = r"^device$"
_INDEX = r"(pad(ding)?|sos|eos|bos|cls|mask)(_token)?_(idx|id|index)$"
_TOKENS = (
    r"vocab|n_?tokens?$|num_(items|words|embeddings|users)|n_(items|words)$|^item_?num$|^user_?num$|dict(ionary)?_size|identifiers$|(^|_)voc(_size)?$"
    r"|(n|num)_(symbols|chars|characters|phonemes)$|(item|user|attribute|category)_(size|count|num)$"
    r"|(n|num)_(users|entities|relations|codes|categories)$"
)
_CLASSES = r"(class(es)?|labels)($|_)|(num_cls|cls_num|n_cls)$"
_LENGTH = r"len(gth)?($|_)|ctx|context|block_?size|positions?($|_)|window|(^|_)(time)?steps?$|horizon|^n_data$"
LAYERS = 6
"""Layers of the base model: of each stage of a model that has a list of them there are fewer."""
_PARTS = "(model|base|block|inner|start|init)"
ROWS: tuple[tuple[str, int | float | str | list[int]], ...] = (
    (r"^(is|use|do|with|has|enable|tie|share)_", False),
    (r"^(ob|obs|observation|state)(ervations?)?_?(shape|space)$", [4, 84, 84]),
    (r"^act(ion)?s?_?space$|(n|num)_?actions?$", 18),
    (r"^max_action$|(^|_)alpha$", 1.0),
    (r"(^|_)(gamma|decay)$", 0.99),
    (r"(^|_)(beta|commitment(_cost)?)$", 0.25),
    (r"(n|num)_?(nodes|variables|vars|sensors)$", 207),
    (r"(n|num)_?(speakers?|spks?|styles|languages)$|^nz$", 100),
    (r"(n|num)_?points?$", 1024),
    (r"(n|num)_?(joints|keypoints)$", 17),
    (r"(n|num)_?stages?$", 4),
    (r"(n|num)_?frames?$", 8),
    (r"growth(_rate)?$", 32),
    (r"^reduction$", 16),
    (r"^(stride|padding|dilation|groups)$", 1),
    (r"^(sr|sample_?rate|sampling_rate)$", 16000),
    (r"bidirectional$", False),
    (r"^act(ion)?s?_?shape$", [1]),
    (r"^(img|image|in|input)_?shape$", [3, 224, 224]),
    (r"res(idual|net)?_?blocks?($|_)|blocks_per_", 2),
    (r"att(entio)?n?_?res(olution)?s?$", [16, 8]),
    (r"(^|_)(ch|channels?|dim)_?mult(s|ipliers?)?$", [1, 2, 2, 2]),
    (rf"^({_PARTS}_?)(channels?|chans?|filters|feat(ure)?s?|ch)$|^(nf|ngf|ndf|ch)$", 128),
    (r"lora.*alpha", 32),
    (r"^r$|lora.*(dim|rank|_r)$|(^|_)rank$", 4),
    (r"theta$|rope_base$", 10000.0),
    (r"temperature$", 1.0),
    (r"numerical|continuous", 8),
    (r"pre_?norm", True),
    (r"(n|num)_?groups$", 32),
    (r"(n|num)_?queries$", 100),
    (r"(n|num)_?(codebooks|quantizers)$", 8),
    (r"codebook_?size$", 1024),
    (r"^win_?size$", 100),
    (r"^act(ivation)?(_?(fn|func(tion)?|name|type|layer))?$", "gelu"),
    (r"(^|_)(dropout|drop|p|prob|droprate|dropping)($|_)|dropout|drop_?(rate|prob|path)|drop$", 0.1),
    (_DEVICE, "cpu"),
    (r"batch(_?size)?$", 2),
    (r"(?<!st)eps(ilon)?$", 1e-5),
    (r"(^|_)seed$", 0),
    (r"(^|_)std($|_(init|dev)$)|^init(ializer)?_(std|range)$", 0.02),
    (r"(n|num)_text_tokens$", 77),
    (_INDEX, 1),
    (_TOKENS, 37000),
    (_CLASSES, 1000),
    (r"head_?(dim|size|ch(an(nel)?s?)?$)|dim_?(per_)?head|^d_?(k|v|kv|q|head|qk)$|^(key|value)_?(dim|size)$", 64),
    (r"heads?($|_)|^h$", 8),
    (r"expert.*(per|active|used)|active_?expert|top_?k", 2),
    (r"expert", 8),
    (r"(?<!norm_)(?<!act_)layers?($|_\d)|(^|_)depths?$|num_(encoder|decoder)|n_?blocks?$|num_?blocks?$|^N$|^L$", 6),
    (r"expansion|ratio|mult($|iplier)|factor", 4),
    (r"d_?ff|ffn?(_|$)|feed_?forward|mlp|inner|intermediate|n_?hid$|hidden_?(dim|units|features)$|dim_?hidden|filter|middle", 2048),
    (r"(^|_)(im|img|image|input)_?(size|res)|resolution", 224),
    (r"patch(_?size)?$", 16),
    (r"(^|_)(in_)?(channels?|chans?)$|^(in|out)_c$", 3),
    (r"mels?($|_)", 80),
    (r"kernel", 3),
    (_LENGTH, 512),
    (r"dims?($|_)|_dim|width|model|emb(d|ed|edding)?|hidden|state|features|^d_[a-z]+$|[a-z]_size$|units|^(c|enc|dec)_(in|out)$", 512),
    (r"^[CD]$", 512),
    (r"stack(s|ed)?($|_)", 4),
    (r"_(size|dim)_[a-z]+$", 512),
    (r"(^|_)(n|num)_?(in|out)(puts?)?$|(^|_)n_?feats?$|^ninp$|channels", 512),
    (r"^(add|scale)_|_by_|bias$|causal|flash|checkpoint", False),
)
"""Words to sizes, the more special ones first."""
_WIDTHS = r"(^|_)(fc|mlp|dense|hidden|head)(_[a-z]+)*_?layers$|chan"
"""Of an argument that is a list: widths of the layers of a small network, not how many layers there are."""
_WORDS = re.compile(r"(^|_)(name|type|mode|kind|variant|method|arch)$")
"""Of an argument that is a word."""
_USED = {"width": 512, "rows": 37000, "rate": 0.1, "count": LAYERS, "kernel": 3, "heads": 8}
"""By what an argument is to the layers that are made with it, where its name says nothing."""
_OF_TWELVE = 768
"""A width that 12 heads divide, as 8 do."""
LIST = 2
"""Entries of an argument that is a list."""
TRIED = 4
"""Models whose forward is run for a proposal."""
_PICTURE, _MAP = 3, 128
"""Channels of a picture, and of a map that has groups: those of the first resolution of a U-Net."""
NUMBERS = (inspect.Parameter.empty, int, float, bool, "int", "float", "bool", Any)
"""Annotations of what may be a number."""


def of_rows(sizes: Mapping[str, Any]) -> dict[str, bool] | None:
    """Which of these sizes, by their dotted names, are places in a table, where all are said to be those, sizes of tables or of outputs, or devices:
    what `rows` then measures. None where one is another size."""
    found = {}
    for name in sizes:
        word = next((word for word, _ in ROWS if _fits(word, name)), "")
        if word not in (_INDEX, _TOKENS, _CLASSES, _LENGTH, _DEVICE):
            return None
        found[name] = word == _INDEX
    return found


def _fits(word: str, name: str) -> bool:
    last = name.rpartition(".")[2]
    return re.search(word, last if len(last) == 1 else last.casefold()) is not None


def _size(name: str) -> Any:
    """The size that the words of a dotted name say: of its last part, or of one that holds widths, `hidden_dims.X`; None for none."""
    holder = name.rpartition(".")[0]
    for part in (name, *([holder] if re.search(r"(^|_|\.)dims?$", holder) else [])):
        found = next((value for word, value in ROWS if _fits(word, part)), None)
        if found is not None:
            return found
    return None


def chosen(entry: Any, lacking: tuple[str, ...]) -> dict[str, Any]:
    """A size for each name that is lacking, by its dotted name as of `--set`; nothing where one of them is no size."""
    try:
        known = inspect.signature(entry).parameters
    except (TypeError, ValueError):
        known = {}  # type: ignore[assignment]
    found: dict[str, Any] = {}
    for name in lacking:
        if (size := _above(entry, name, known)) is not None:
            found[name] = size
            continue
        note = known[name].annotation if name in known else inspect.Parameter.empty
        kinds = (note, *typing.get_args(note), *_members(note))
        size, text = _size(name), bool({str, "str"} & {*kinds})
        size = next(compared(entry, name), None) if type(size) is int and _WORDS.search(name) else size
        if size is None and (type(None) in kinds or re.search(r"\bOptional\[|\|\s*None\b", note if isinstance(note, str) else "")):
            found[name] = None
            continue
        if size is None or (text and not isinstance(size, str)):
            size = next(compared(entry, name), size if not text else None)
            size = _USED.get(used_as(entry, name)) if size is None and not text else size
        size = False if size is None and (note in (bool, "bool") or only_tested(entry, name)) else size
        several = entries_told(entry, name) if type(size) in (int, type(None)) and not text else 0
        size = [1 if size is None else size] * several if several and (size is not None or _lists(note)) else size
        size = _listed(entry, name) if size is None and text and _lists(note) else size
        if type(size) is int and not {int, "int"} & {*_members(note)} and (_lists(note) or is_iterated(entry, name)):
            size = [64 if _fits(_WIDTHS, name) else LIST if size == LAYERS else size] * LIST
        if size is None or not (isinstance(size, str | list) or any(one in NUMBERS for one in kinds)):
            return {}
        found[name] = size
    return found


def wider(sizes: Mapping[str, Any]) -> dict[str, int]:
    """The channels of a map within a U-Net, where a size that was chosen is that of a picture."""
    return {name: _MAP for name, size in sizes.items() if size == _PICTURE and re.search(r"chan", name) is not None}


def in_heads(sizes: Mapping[str, Any], error: BaseException) -> dict[str, int]:
    """The width of 12 heads, which a library's configuration may have by default, where the author asserts that heads divide what was chosen."""
    frame, line = list(frames(error))[-1]
    said = statement(frame.f_code.co_filename, line)
    divides = isinstance(said, ast.Assert) and any(isinstance(n, ast.Mod) for n in ast.walk(said.test))
    return {name: _OF_TWELVE for name, size in sizes.items() if divides and size == _USED["width"] and not _fits(_LENGTH, name)}


def _members(note: Any) -> tuple[Any, ...]:
    """What an argument of an annotation may be, `int | tuple[int, int]`; of an annotation as text the words."""
    if not isinstance(note, str):
        return typing.get_args(note) if typing.get_origin(note) in (typing.Union, types.UnionType) else (note,)
    try:
        tree = ast.parse(note, mode="eval").body
    except SyntaxError:
        return (note,)
    if isinstance(tree, ast.Subscript) and ast.unparse(tree.value).rpartition(".")[2] in ("Union", "Optional"):
        parts = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
    else:
        parts = [tree]
        while isinstance(parts[0], ast.BinOp):
            parts[:1] = [parts[0].left, parts[0].right]
    return tuple(map(ast.unparse, parts))


def _lists(note: Any) -> bool:
    """Does an annotation say that an argument is a list of numbers?"""
    text = note if isinstance(note, str) else str(typing.get_origin(note) or "") and str(note)
    return re.search(r"\b(list|tuple|sequence|iterable)\b", text, re.IGNORECASE) is not None


def _listed(entry: Any, name: str) -> list[str] | None:
    """The words that a docstring of the module lists for an argument that is a list of them: `sources (List[str]): some of "bass", "drums", …`."""
    said = re.compile(rf"^\s*{re.escape(name)}\s*\([^)\n]*\)\s*:(.*?)(?=^\s*\w+\s*\([^)\n]*\)\s*:|\Z)", re.MULTILINE | re.DOTALL)
    for holder in (entry, *vars(sys.modules.get(getattr(entry, "__module__", ""), None) or typing).values()):
        text = (holder.__doc__ or "") if isinstance(holder, type) or inspect.isfunction(holder) else ""
        if (found := said.search(text)) is not None and (words := re.findall(r"[\"'](\w+)[\"']", found[1])):
            return list(dict.fromkeys(words))
    return None


def _above(entry: Any, name: str, known: Mapping[str, inspect.Parameter]) -> Any:
    """The number that settings have by default under the name that a table in them lacks: `config.width` for `config.text.width`; None for none."""
    root, _, below = name.partition(".")
    cls = config_of(known[root], sys.modules.get(getattr(entry, "__module__", "")), entry) if "." in below and root in known else None
    value = defaults_of(cls).get(below.rpartition(".")[2]) if cls is not None else None
    return value if type(value) in (int, float) else None


def proposed(advice: str, spec: TargetSpec, name: str, sizes: Mapping[str, Any], ran: bool, stated: Iterable[str] = ()) -> str:
    """The advice of an error, with a command by which a model builds with sizes that were chosen for it, and whether its forward `ran` then;
    `stated`: words of the command line that there was."""
    target = spec.text if spec.name is not None else f"{spec.text}::{name}"
    words = [f"--set {shlex.quote(f'{key}={word(value)}')}" for key, value in sizes.items()]
    command = " ".join(["screen check", shlex.quote(target), *stated, *words])
    usual = "the sizes of a usual base model" if any(not isinstance(value, str) for value in sizes.values()) else "the first word that its code knows"
    told = "" if ran else " it builds, but its forward ran on none of the inputs that were tried: add `--input`"
    return f"{advice}{'. ' if advice else ''}With {usual}{told}: `{command}`"


def whole(
    models: Mapping[str, nn.Module],
    sizes: Mapping[str, Mapping[str, Any]],
    held: Mapping[str, int],
    left: Iterable[str],
    runs: Callable[[nn.Module], bool],
) -> tuple[str, bool]:
    """Which of the models of a file that build is the one that a reader would call so, and whether its forward runs: the largest of those that no
    other one contains, or one at least half as large that runs where it does not. Raises `LookupError` where one that does not build (`left`) holds
    more classes of the file than it (`held`)."""
    weights = {name: extent(model) for name, model in models.items()}
    kept = dict(drop_contained([*models.items()], lambda model: model))
    ranked = sorted(kept, key=lambda name: (weights[name], len(sizes[name])), reverse=True)
    near = [name for name in ranked if 2 * weights[name][0] >= weights[ranked[0]][0]][:TRIED]
    name = next((name for name in near if runs(kept[name])), None)
    first = ranked[0] if name is None else name
    own = max(held.get(first, 0), held.get(type(models[first]).__name__, 0))
    if any(held.get(other, 0) > own for other in left):
        raise LookupError(first)
    return first, name is not None


def word(size: Any) -> str:
    """A size as `--set` takes it."""
    return size if isinstance(size, str) else json.dumps(size)


def largest(sizes: Mapping[str, Mapping[str, Any]], weights: Mapping[str, tuple[int, int]]) -> str:
    """The model with the largest extent, of equals the one with most sizes."""
    return max(sizes, key=lambda name: (weights[name], len(sizes[name])))


def extent(model: nn.Module) -> tuple[int, int]:
    """How much a model is: how many tensors of weights it has, which no size that is guessed decides, and how many weights."""
    own = [*model.parameters()]
    return len(own), sum(p.numel() for p in own if not isinstance(p, nn.parameter.UninitializedParameter))


__all__ = ["ROWS", "chosen", "extent", "largest", "of_rows", "proposed", "whole", "wider", "word"]
