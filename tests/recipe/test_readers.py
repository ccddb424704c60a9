"""Every format of recipes on files as their programs write them, and on files that mean harm or are wrong."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from screen.errors import UsageError
from screen.recipe.aliases import ALIASES, INSIDE, PARTS, SECTIONS
from screen.recipe.formats.python import BITS
from screen.recipe.gather import meaning
from screen.recipe.read import recipe_of
from screen.recipe.recipe import CELLS, Recipe
from screen.recipe.stated import Stated
from screen.recipe.write import toml
from tests.recipe.test_recipe import STATED


def read(folder: Path, name: str, text: str) -> Stated:
    (folder / name).write_text(text, encoding="utf-8")
    return recipe_of(str(folder / name), "`--recipe`")


def refusal(folder: Path, name: str, text: str) -> UsageError:
    with pytest.raises(UsageError) as caught:
        read(folder, name, text)
    return caught.value


@pytest.fixture(scope="module")
def arguments() -> Any:
    """What makes the text of `TrainingArguments`: its device is not asked for, which would need `accelerate`."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transformers.TrainingArguments, "device", property(lambda self: torch.device("cpu")))
        patch.setattr(transformers.TrainingArguments, "n_gpu", property(lambda self: 0))
        yield lambda **given: transformers.TrainingArguments(output_dir="out", use_cpu=True, **given).to_json_string()


def test_training_arguments_with_their_defaults(arguments: Any, tmp_path: Path) -> None:
    stated = read(tmp_path, "training_args.json", arguments(bf16=False))
    assert stated.recipe.stated == {
        "optimizer": "adamw", "lr": 5e-5, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.0, "grad_clip": 1.0, "schedule": "linear",
        "warmup_steps": 0, "autocast": False,
    }  # fmt: skip
    why = {entry.partition("`")[2].partition("`")[0]: entry for entry in stated.unused}
    assert "how many steps" in why["num_train_epochs"] and "not set" in why["max_steps"]
    assert "length of a sequence" in why["gradient_accumulation_steps"]
    assert "(" not in why["eval_strategy"] and "learning_rate" not in why


def test_training_arguments_that_were_changed(arguments: Any, tmp_path: Path) -> None:
    text = arguments(learning_rate=3e-4, bf16=True, max_steps=9000, warmup_steps=0.1, lr_scheduler_type="warmup_stable_decay", adam_beta2=0.95,
                     lr_scheduler_kwargs={"num_decay_steps": 1000}, optim="lion_8bit", max_grad_norm=0)  # fmt: skip
    recipe = read(tmp_path, "args.json", text).recipe
    assert (recipe.lr, recipe.warmup_fraction, recipe.warmup, recipe.schedule) == (3e-4, 0.1, 900, "wsd")
    assert (recipe.precision, recipe.autocast, recipe.betas, recipe.optimizer) == ("bfloat16", True, (0.9, 0.95), "lion")
    assert recipe.grad_clip is None


def test_adafactor_of_the_trainer_moves_by_the_rate_itself(arguments: Any, tmp_path: Path) -> None:
    recipe = read(tmp_path, "args.json", arguments(learning_rate=1e-3, optim="adafactor")).recipe
    assert (recipe.optimizer, recipe.lr, recipe.lr_times_rms) == ("adafactor", 1e-3, False)
    assert read(tmp_path, "other.json", arguments()).recipe.lr_times_rms is None


@pytest.mark.parametrize(("steps", "ratio", "warmup"), [(0, 0.1, 1000), (500, 0.1, 500), (0, 0.0, 0), (500, 0.0, 500)])
def test_version_4_had_steps_and_a_ratio_and_steps_won(arguments: Any, tmp_path: Path, steps: int, ratio: float, warmup: int) -> None:
    table = {**json.loads(arguments(max_steps=10_000)), "warmup_steps": steps, "warmup_ratio": ratio}
    assert read(tmp_path, "args.json", json.dumps(table, indent=2)).recipe.warmup == warmup


def test_the_pickle_and_the_record_of_a_run_are_refused(tmp_path: Path) -> None:
    error = refusal(tmp_path, "training_args.bin", "PK")
    assert "is a pickle" in str(error) and "to_json_string()" in str(error) and error.file == os.path.relpath(tmp_path / "training_args.bin")
    state = {"best_metric": None, "epoch": 1.0, "global_step": 500, "log_history": [{"learning_rate": 1e-5, "step": 10}], "max_steps": 500}
    assert "the record of a run" in str(refusal(tmp_path, "trainer_state.json", json.dumps(state)))


NANO = """# a run of a small model, for eight devices
import time

wandb_run_name = "run-" + str(time.time())
batch_size = 12
block_size = 1024
gradient_accumulation_steps = 5 * 8  # of all devices

learning_rate = 6e-4
min_lr = learning_rate / 10
max_iters = 600_000
lr_decay_iters = max_iters
warmup_iters = 2 * 10**3
weight_decay: float = 1e-1
beta1, beta2 = 0.9, 0.95
beta1 = 0.9
beta2 = 1 - 0.05
grad_clip = +1.0
decay_lr = True
dtype = "bfloat16"
dropout = 0.0
"""


def test_a_file_like_nanogpts_is_read(tmp_path: Path) -> None:
    stated = read(tmp_path, "train_gpt2.py", NANO)
    assert stated.recipe.stated == {
        "lr": 6e-4, "betas": (0.9, 0.95), "weight_decay": 0.1, "grad_clip": 1.0, "warmup_steps": 2000, "total_steps": 600_000,
        "min_lr": pytest.approx(6e-5), "batch_size": 491_520, "precision": "bfloat16",
    }  # fmt: skip
    assert [entry.partition("`")[2].partition("`")[0] for entry in stated.unused] == ["decay_lr", "lr_decay_iters", "dropout"]


@pytest.mark.parametrize("line", ["if ddp:\n    gradient_accumulation_steps //= 8", "gradient_accumulation_steps = world()", "batch_size = auto"])
def test_a_batch_of_parts_that_are_not_all_known_is_not_stated(tmp_path: Path, line: str) -> None:
    stated = read(tmp_path, "c.py", f"batch_size = 12\nblock_size = 1024\ngradient_accumulation_steps = 40\n{line}\nbeta1 = 0.9\nbeta2 = beta()")
    assert stated.recipe.stated == {}


def test_a_name_that_a_loop_binds_takes_no_other_name_back(tmp_path: Path) -> None:
    text = "learning_rate = 6e-4\nif lr_known:\n    max_iters = 3\nwhile True:\n    lr = get_lr(learning_rate)\n    break"
    stated = read(tmp_path, "train.py", text)
    assert stated.recipe.stated == {"lr": 6e-4} and len(stated.unused) == 2


def test_without_decay_the_rate_is_constant(tmp_path: Path) -> None:
    assert read(tmp_path, "c.py", "decay_lr = False").recipe.schedule == "constant"


@pytest.mark.parametrize(
    "line",
    [
        "learning_rate = __import__('os').system('touch OWNED') or 1",
        "learning_rate = eval('1e-3')",
        "learning_rate = open('OWNED', 'w').write('x')",
        "learning_rate = [1e-3][0]",
        "learning_rate = (lambda: 1e-3)()",
        "learning_rate = f'{1e-3}'",
        "learning_rate = 1e-3 if x else 1e-4",
        "learning_rate = unknown",
        "learning_rate = 1e-3\nif cheap:\n    learning_rate = 1e-4",
        "learning_rate = 1e-3\nfor learning_rate in (1, 2): pass",
        "learning_rate = 1e-3\nlearning_rate *= 2",
        "learning_rate = 1e-3\ndel learning_rate",
        "learning_rate = 1e-3\nfrom base import learning_rate",
        "learning_rate = 1e-3\nfrom base import *",
        "learning_rate = 1e-3\ndef f():\n    global learning_rate\n    learning_rate = 2\nf()",
        "learning_rate = 1e-3\nprint(learning_rate := 2)",
        f"learning_rate = 2 ** {BITS + 1}",
        "learning_rate = 9 ** 9 ** 9",
        "learning_rate = 1 / 0",
        "learning_rate = 'x' * 10**9",
        "learning_rate = True + 1",
        "learning_rate = 1e300 * 1e300 - 1e300 * 1e300\nlearning_rate = max(1, 2)",
    ],
)
def test_what_is_no_literal_is_named_and_nothing_runs(tmp_path: Path, line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    stated = read(tmp_path, "c.py", f"{line}\nweight_decay = 0.1\n")
    assert stated.recipe.stated == {"weight_decay": 0.1} and any("`learning_rate` of" in entry and "(line " in entry for entry in stated.unused)
    assert not (tmp_path / "OWNED").exists()


@pytest.mark.parametrize("text", ["learning_rate = (", "a = '\\ud800'\nx = \0", "x = " + "(" * 300 + ")" * 300, "x = " + "-" * 100_000 + "1"])
def test_a_python_file_that_does_not_parse_is_refused_or_says_nothing(tmp_path: Path, text: str) -> None:
    try:
        assert read(tmp_path, "c.py", text).recipe.stated == {}
    except UsageError as error:
        assert "must parse" in str(error)


OTHERS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("hydra.yaml", """
optimizer: {_target_: torch.optim.AdamW, lr: 3e-4, betas: [0.9, 0.95], eps: 1e-8, weight_decay: 0.1}
scheduler: {name: cosine, warmup: 0.02, max_steps: 20000, min_lr_ratio: 0.1}
trainer: {precision: bf16-mixed, gradient_clip_val: 1.0}
model: {lr: 5, eps: 1e-5, depth: 12, dropout: 0.3}
interpolated: {learning_rate: "${optimizer.lr}"}
""", {"optimizer": "adamw", "lr": 3e-4, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1, "grad_clip": 1.0, "schedule": "cosine",
      "warmup_fraction": 0.02, "total_steps": 20_000, "min_lr": 3e-5, "precision": "bfloat16", "params_precision": "float32", "autocast": True}),
    ("deepspeed.json", """{
  "train_batch_size": 256, "gradient_clipping": 1.0, "bf16": {"enabled": true}, "fp16": {"enabled": false}, "zero_optimization": {"stage": 1},
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": "auto"}},
  "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_min_lr": 0, "warmup_max_lr": 1e-4, "warmup_num_steps": 500, "total_num_steps": 9000}}
}""", {"optimizer": "adamw", "lr": 1e-4, "betas": (0.9, 0.95), "eps": 1e-8, "grad_clip": 1.0, "schedule": "linear", "warmup_steps": 500,
       "total_steps": 9000, "precision": "bfloat16"}),
    ("argparse.yml", "max-lr: 0.001\nadam-betas: (0.9, 0.98)\nclip-norm: 0.0\nlr-scheduler: inverse_sqrt\nwarmup-updates: 4000\nmax-update: 100000\n"
     "adam_eps: 1e-6\nglobal_batch_size: 64\nseq_length: 2048\nfp16: true\n",
     {"lr": 1e-3, "betas": (0.9, 0.98), "eps": 1e-6, "schedule": "inverse_sqrt", "warmup_steps": 4000, "total_steps": 100_000,
      "batch_size": 131_072, "precision": "float16"}),
    ("fast.toml", "opt = 'sgd'\nlr = 0.1\nepochs = 90\nsched = 'step'\nclip_grad = 1.0\nclip_mode = 'value'\nbatch_size = 256\n",
     {"optimizer": "sgd", "lr": 0.1}),
    ("neox.yml", "{\n 'seq-length': 2048, 'train_micro_batch_size_per_gpu': 8, 'weight-decay': 0.1, 'warmup': 0.01,\n 'lr-decay-style': 'cosine',"
     "'optimizer': {'type': 'Adam', 'params': {'lr': 0.00012, 'eps': 1.0e-8,}},\n 'fp16': {'fp16': true, 'enabled': true}, 'train-iters': 1000,\n}",
     {"optimizer": "adam", "lr": 1.2e-4, "eps": 1e-8, "weight_decay": 0.1, "schedule": "cosine", "warmup_fraction": 0.01, "total_steps": 1000,
      "precision": "float16"}),
    ("composer.yaml", "precision: amp_bf16\nfsdp: {precision: mixed}\nmax_grad_norm: 1.0\nscheduler: {name: cosine_with_warmup, alpha_f: 0.1}",
     {"grad_clip": 1.0, "schedule": "cosine", "precision": "bfloat16", "params_precision": "float32", "autocast": True}),
    ("two.yaml", "gan: {learning_rate: 1e-4}\ncritic: {learning_rate: 4e-4}\nlr: 1e-4\nmax_iters: -1\nbeta1: 0.5", {}),
    ("amp.json", '{"learning_rate": 0.001, "mixed_precision": "amp_bf16", "warmup": 100, "param_dtype": "bfloat16"}',
     {"lr": 1e-3, "warmup_steps": 100, "precision": "bfloat16", "params_precision": "bfloat16", "autocast": True}),
    ("true.json", '{"learning_rate": 0.001, "precision": "bf16-true"}',
     {"lr": 1e-3, "precision": "bfloat16", "params_precision": "bfloat16", "autocast": False}),
)  # fmt: skip


@pytest.mark.parametrize(("name", "text", "stated"), OTHERS, ids=[name for name, _, _ in OTHERS])
def test_files_of_other_programs(tmp_path: Path, name: str, text: str, stated: dict[str, Any]) -> None:
    found = read(tmp_path, name, text)
    assert found.recipe.stated == stated
    suffix = Path(name).suffix
    table = tomllib.loads(text) if suffix == ".toml" else yaml.safe_load(text.replace("\t", " "))
    words = [w for w in ("model", "zero_optimization", "epochs", "gan", "critic") if w in table]
    assert all(any(f"`{word}" in entry for entry in found.unused) for word in words)


def test_values_of_other_programs_are_checked_too(tmp_path: Path) -> None:
    error = refusal(tmp_path, "x.yaml", "seed: 1\nlearning_rate: -0.1\n")
    assert "`learning_rate` in" in str(error) and "line 2" in str(error) and "greater than 0" in str(error) and error.line == 2


def test_every_word_means_a_field_or_a_part_and_none_is_a_field_itself() -> None:
    meanings = {*ALIASES.values(), *(name for words in INSIDE.values() for name in words.values())}
    assert meanings <= {*Recipe.model_fields, *PARTS} and set(PARTS) <= meanings
    assert not set(ALIASES) & set(Recipe.model_fields) and set(SECTIONS.values()) | {""} == set(INSIDE)


def test_words_mean_nothing_in_sections_of_the_model() -> None:
    assert meaning("optimizer.eps") == "eps" and meaning("eps") is None and meaning("model.optimizer.eps") is None
    assert meaning("train.learning-rate") == "lr" and meaning("bf16.enabled") == "@bfloat16" and meaning("depth") is None


NESTED = {"optimizer": {"name": "adamw", "lr": 1e-3, "clip": None}, "schedule": {"warmup_fraction": 0.1, "kind": "cosine"}, "batch_tokens": 2e6,
          "precision": {"params": "fp32", "compute": "bf16"}, "z_loss": 1e-4, "tricks": {"qk_clip": 100}}  # fmt: skip
FLAT = {"optimizer": "adamw", "lr": 1e-3, "warmup_fraction": 0.1, "schedule": "cosine", "batch_size": 2_000_000, "params_precision": "float32",
        "precision": "bfloat16", "z_loss": 1e-4, "qk_clip": 100}  # fmt: skip


@pytest.mark.parametrize("name", ["r.json", "r.yaml", "r.yml"])
def test_our_fields_and_the_cells_of_published_outcomes(tmp_path: Path, name: str) -> None:
    write = json.dumps if name.endswith("json") else yaml.safe_dump
    assert read(tmp_path, name, write(NESTED)).recipe.stated == FLAT
    assert read(tmp_path, name, write({"recipe": FLAT, "title": "x", "sources": {"lr": "page 3"}})).sources == {"lr": "page 3"}


def test_every_cell_is_read(tmp_path: Path) -> None:
    for cell, name in CELLS.items():
        words = {"betas": [0.9, 0.95], "schedule": "wsd", "optimizer": "adam", "lr_per_layer": "by depth"}
        value = words.get(name, "bf16" if "precision" in name else 1)
        table: Any = value
        for key in reversed(cell.split(".")):
            table = {key: table}
        assert list(read(tmp_path, "cell.json", json.dumps(table)).recipe.stated) == [name]


@pytest.mark.parametrize(
    ("name", "text", "said", "line"),
    [
        ("r.toml", "lr = 1e-3\nweight_decai = 0.1\n", "Did you mean `weight_decay`", 2),
        ("r.toml", "[optimizer]\nlr = 1e-3\nclipp = 1\n", "`optimizer.clipp`", 3),
        ("r.yaml", "lr: 1e-3\nbetas: [0.9, 1.0]\n", "`betas` in", 2),
        ("r.json", '{\n  "lr": NaN\n}', "must be greater than 0", 2),
        ("r.json", '{"lr": Infinity}', "must be less than", 1),
        ("r.toml", "lr = inf", "must be less than", 1),
        ("r.toml", "total_steps = " + "9" * 400, "must be less than", 1),
        ("r.toml", "lr = 1e-3\nlr = 1e-4", "Cannot overwrite a value", None),
        ("r.toml", "lr = 1e-3\n[optimizer]\nlr = 1e-4", "must state `lr` once", None),
        ("r.toml", "[sources]\nlr = 'page 3'\n[optimizer]\nlr = -1\n", "must be greater than 0", None),
        ("r.toml", "lr = ", "must be readable TOML", None),
        ("r.json", "[1]", "not a table", None),
        ("r.json", "{" * 10, "must be readable JSON", None),
        ("r.json", '{"a":' * 100_000, "must be readable JSON", None),
        ("r.yaml", "a: &a {x: *a}", "finite depth", None),
        ("r.yaml", "a: [", "must be readable YAML", None),
        ("r.yaml", "!!python/object/apply:os.system ['true']", "must be readable YAML", None),
        ("r.yaml", "a0: &a0 [1]\n" + "".join(f"a{i}: &a{i} [*a{i-1}, *a{i-1}, *a{i-1}]\n" for i in range(1, 30)), "few keys", None),
        ("r.yaml", "a0: &a0 {x: 1}\n" + "".join(f"a{i}: &a{i} {{x: *a{i-1}, y: *a{i-1}, z: *a{i-1}}}\n" for i in range(1, 30)), "few keys", None),
        ("r.txt", "lr = 1", "known format", None),
        ("r.toml", "base = 'nanogpt-gpt3'", "Did you mean `nanogpt-gpt2`", None),
        ("r.toml", "base = 3", "must be the name of a recipe", None),
        ("r.toml", "recipe = 3", "`recipe` (line 1) is none", 1),
    ],
)  # fmt: skip
def test_what_is_wrong_names_file_key_and_line(tmp_path: Path, name: str, text: str, said: str, line: int | None) -> None:
    error = refusal(tmp_path, name, text)
    assert said in str(error), str(error)
    assert error.line == line and (line is None or error.file == os.path.relpath(tmp_path / name))


def test_a_file_that_is_no_text_or_too_long_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        recipe_of(str(tmp_path / "r.toml"), "x")
    (tmp_path / "r.toml").write_bytes(b"#" * 10_000_001)
    with pytest.raises(UsageError, match="short file"):
        recipe_of(str(tmp_path / "r.toml"), "x")


def test_a_base_holds_for_what_is_not_stated(tmp_path: Path) -> None:
    stated = read(tmp_path, "r.toml", 'base = "nanogpt-gpt2"\nlr = 1e-3\nwarmup_fraction = 0.1')
    assert stated.recipe.lr == 1e-3 and stated.recipe.betas == (0.9, 0.95) and stated.recipe.warmup == 60_000
    assert stated.origins["lr"] == f"`{os.path.relpath(tmp_path / 'r.toml')}`" and stated.origins["betas"] == "preset `nanogpt-gpt2`"
    assert "train.py" in stated.sources["betas"] and "lr" not in stated.sources
    for name in (f"{tmp_path / 'r.toml'}", f"own:{tmp_path / 'second.toml'}"):
        assert "without a `base`" in str(refusal(tmp_path, "second.toml", f'base = "{name}"'))
    assert read(tmp_path, "third.toml", 'base = "gpt2-small"').recipe.lr == 6e-4


@pytest.mark.parametrize("text", ["gpt2.tmol", "no/such.toml", "x.py"])
def test_a_file_that_is_not_there(text: str) -> None:
    with pytest.raises(UsageError, match=r"there is no (file|recipe called)"):
        recipe_of(text, "x")


def test_a_format_can_be_named(tmp_path: Path) -> None:
    (tmp_path / "r.yaml").write_text("lr: 1e-3\nseed: 1\n")
    with pytest.raises(UsageError, match="`seed`"):
        recipe_of(str(tmp_path / "r.yaml"), "x")
    stated = recipe_of(f"other:{tmp_path / 'r.yaml'}", "x")
    assert stated.recipe.stated == {"lr": 1e-3} and stated.words == (f"other:{os.path.relpath(tmp_path / 'r.yaml')}",)


def test_a_list_is_laid_over_each_other_and_words_are_kept() -> None:
    stated = recipe_of(["nanogpt-gpt2", "lr=3e-3", "betas=[0.8, 0.9]", "optimizer=sgd", {"dropout": 0.5}, Recipe(eps=1e-6)], "`--recipe`")
    recipe = stated.recipe
    assert (recipe.lr, recipe.betas, recipe.optimizer, recipe.dropout, recipe.eps) == (3e-3, (0.8, 0.9), "sgd", 0.5, 1e-6)
    assert stated.words == ("nanogpt-gpt2", "lr=3e-3", "betas=[0.8, 0.9]", "optimizer=sgd")


@pytest.mark.parametrize("value", [3, {"lrr": 1}, ["nosuch"], {"lr": {"value": 1}}, b"x"])
def test_what_is_no_recipe_is_refused(value: object) -> None:
    with pytest.raises(UsageError):
        recipe_of(value, "`recipe=`")


@given(STATED)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_recipe_survives_every_table(tmp_path: Path, values: dict[str, Any]) -> None:
    stated = recipe_of(values, "x")
    for name, text in (
        ("r.toml", toml(stated)), ("r.json", stated.recipe.model_dump_json()), ("r.yaml", yaml.safe_dump(stated.recipe.model_dump(mode="json"))),
    ):  # fmt: skip
        assert read(tmp_path, name, text).recipe == stated.recipe
