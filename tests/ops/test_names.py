"""What a call is called: the name that torch has for a function, and that of the vocabulary."""

from __future__ import annotations

import pytest

from screen.ops import ALIASES, CLASSES, _rows, canonical

NAMES = {
    "__add__": ("add", False), "__radd__": ("add", True), "__iadd__": ("add", False), "__rsub__": ("sub", True), "rsub": ("sub", True),
    "__rdiv__": ("div", True), "__rtruediv__": ("div", True), "__ior__": ("bitwise_or", False), "__rand__": ("bitwise_and", True),
    "rand": ("rand", False), "ror": ("ror", False), "__itruediv__": ("div", False), "__invert__": ("bitwise_not", False),
    "add_": ("add", False), "masked_fill_": ("masked_fill", False), "mul_": ("mul", False), "_softmax": ("softmax", False),
    "native_layer_norm": ("layer_norm", False), "swish": ("silu", False), "swish_": ("silu", False), "_made_up_": ("_made_up_", False),
    "made_up_": ("made_up", False), "fmax": ("maximum", False), "special_sinc": ("sinc", False), "is_nonzero": ("is_nonzero", False),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_a_name_and_whether_its_operands_stand_in_reverse(name: str) -> None:
    assert canonical(name) == NAMES[name]


@pytest.mark.parametrize("name", ALIASES)
def test_another_name_is_taken_as_it_stands(name: str) -> None:
    assert canonical(name) == (ALIASES[name], False)


def test_an_op_has_one_row() -> None:
    with pytest.raises(ValueError, match="`gelu` has two rows: activation and view"):
        _rows("view", "gelu")
    assert CLASSES["gelu"] == "activation"
