"""Other programs' words for the fields of a recipe, in one table.

A field's name on the right: the word means the same in the same unit. A name with `@`: a part, of which `screen.recipe.gather` makes a field.
Words stand as they are compared: small letters, `_` for `-`, without the sections around them.
"""

from __future__ import annotations

PARTS = {
    "@beta1": "decay rate of Adam's first average",
    "@beta2": "decay rate of Adam's second average",
    "@min_lr_ratio": "last learning rate over the peak",
    "@warmup": "warm-up, in steps from 1 on and as a share of all steps below",
    "@clip_by": "how gradients are clipped: by norm or by value",
    "@dtype": "word for a type and for how it is mixed: bf16-mixed, 16-true, amp_bf16",
    "@bfloat16": "true: bfloat16, by autocast or the whole model",
    "@float16": "true: float16, likewise",
    "@tf32": "true: float32 kept, matrix products in TF32",
    "@decay_lr": "false: the learning rate stays what it is",
    "@sequences": "sequences per step, of all devices",
    "@micro": "sequences per device and pass",
    "@passes": "passes whose gradients are added up",
    "@length": "tokens per sequence",
    "@epochs": "warm-up or training in something else than steps",
}
"""Part -> what it is."""

ALIASES = {
    "learning_rate": "lr", "learningrate": "lr", "max_lr": "lr", "peak_lr": "lr", "base_lr": "lr", "max_learning_rate": "lr",
    "peak_learning_rate": "lr", "warmup_max_lr": "lr",
    "optim": "optimizer", "opt": "optimizer", "optimizer_name": "optimizer", "optimizer_type": "optimizer", "optimizer_class": "optimizer",
    "wd": "weight_decay", "weight_decay_rate": "weight_decay", "adam_weight_decay": "weight_decay",
    "adam_betas": "betas", "opt_betas": "betas", "optimizer_betas": "betas",
    "beta1": "@beta1", "beta_1": "@beta1", "adam_beta1": "@beta1", "adam_b1": "@beta1",
    "beta2": "@beta2", "beta_2": "@beta2", "adam_beta2": "@beta2", "adam_b2": "@beta2",
    "scale_parameter": "lr_times_rms", "multiply_by_parameter_scale": "lr_times_rms",
    "adam_epsilon": "eps", "adam_eps": "eps", "opt_eps": "eps", "optimizer_eps": "eps",
    "max_grad_norm": "grad_clip", "clip_grad": "grad_clip", "clip_grad_norm": "grad_clip", "grad_clip_norm": "grad_clip", "clip_norm": "grad_clip",
    "gradient_clip_val": "grad_clip", "gradient_clipping": "grad_clip", "gradient_clip": "grad_clip", "grad_norm_clip": "grad_clip",
    "gradient_clip_algorithm": "@clip_by", "clip_mode": "@clip_by",
    "lr_scheduler_type": "schedule", "lr_scheduler": "schedule", "scheduler": "schedule", "sched": "schedule", "lr_schedule": "schedule",
    "lr_decay_style": "schedule", "lr_policy": "schedule", "scheduler_type": "schedule",
    "decay_lr": "@decay_lr",
    "warmup_iters": "warmup_steps", "num_warmup_steps": "warmup_steps", "warmup_updates": "warmup_steps", "warmup_iterations": "warmup_steps",
    "warmup_num_steps": "warmup_steps", "n_warmup_steps": "warmup_steps", "lr_warmup_steps": "warmup_steps", "lr_warmup_iters": "warmup_steps",
    "warmup_ratio": "warmup_fraction", "warmup_frac": "warmup_fraction", "warmup_proportion": "warmup_fraction",
    "lr_warmup_fraction": "warmup_fraction", "pct_start": "warmup_fraction",
    "warmup": "@warmup",
    "warmup_epochs": "@epochs", "num_train_epochs": "@epochs", "max_epochs": "@epochs", "epochs": "@epochs",
    "max_steps": "total_steps", "max_iters": "total_steps", "num_steps": "total_steps", "train_steps": "total_steps", "train_iters": "total_steps",
    "num_train_steps": "total_steps", "max_train_steps": "total_steps", "num_training_steps": "total_steps", "total_num_steps": "total_steps",
    "training_steps": "total_steps", "total_iters": "total_steps", "total_iterations": "total_steps", "max_update": "total_steps",
    "max_updates": "total_steps", "num_iterations": "total_steps",
    "min_learning_rate": "min_lr", "lr_min": "min_lr", "eta_min": "min_lr", "lr_end": "min_lr", "end_lr": "min_lr", "final_lr": "min_lr",
    "min_lr_ratio": "@min_lr_ratio", "lr_min_ratio": "@min_lr_ratio", "min_lr_rate": "@min_lr_ratio",
    "tokens_per_batch": "batch_size", "tokens_per_step": "batch_size", "global_batch_tokens": "batch_size",
    "global_batch_size": "@sequences", "train_batch_size": "@sequences", "effective_batch_size": "@sequences",
    "micro_batch_size": "@micro", "per_device_train_batch_size": "@micro", "device_batch_size": "@micro", "train_micro_batch_size_per_gpu": "@micro",
    "gradient_accumulation_steps": "@passes", "accumulate_grad_batches": "@passes", "grad_accum_steps": "@passes", "grad_accum": "@passes",
    "block_size": "@length", "seq_len": "@length", "seq_length": "@length", "sequence_length": "@length", "max_seq_len": "@length",
    "max_seq_length": "@length", "context_length": "@length",
    "dtype": "@dtype", "mixed_precision": "@dtype", "train_dtype": "@dtype", "compute_dtype": "@dtype",
    "bf16": "@bfloat16", "bfloat16": "@bfloat16", "fp16": "@float16", "tf32": "@tf32",
    "param_dtype": "params_precision", "params_dtype": "params_precision",
    "z_loss_weight": "z_loss", "z_loss_coef": "z_loss", "z_loss_coeff": "z_loss", "z_loss_multiplier": "z_loss",
}  # fmt: skip
"""Word -> field or part. No word here is a field's own name: a table that holds one is another program's."""

SAME = (
    "lr", "optimizer", "betas", "weight_decay", "grad_clip", "schedule", "warmup_steps", "warmup_fraction", "warmup_tokens",
    "total_steps", "min_lr", "z_loss", "fp8",
)  # fmt: skip
"""Fields whose own names mean the same in other programs. Not `depth`, `init`, `dropout` (the model's), `batch_size` (sequences, with them),
`precision` (with mixtures), `eps` (a norm's)."""
INSIDE = {
    "optimizer": {"eps": "eps", "epsilon": "eps", "name": "optimizer", "type": "optimizer", "_target_": "optimizer", "class_path": "optimizer",
                  "max_norm": "grad_clip"},
    "schedule": {"name": "schedule", "type": "schedule", "kind": "schedule", "_target_": "schedule", "class_path": "schedule"},
    "": {"batch_size": "@micro", "batch_tokens": "batch_size", "precision": "@dtype"},
}  # fmt: skip
"""Section -> words that mean something there alone; of the section `` everywhere."""
SECTIONS = {
    "optimizer": "optimizer", "optim": "optimizer", "opt": "optimizer", "adam": "optimizer", "adamw": "optimizer", "optimizer_config": "optimizer",
    "scheduler": "schedule", "lr_scheduler": "schedule", "schedule": "schedule", "lr_schedule": "schedule", "sched": "schedule",
}  # fmt: skip
"""Name of a section -> its entry of `INSIDE`."""
FOREIGN_SECTIONS = frozenset({
    "model", "network", "net", "arch", "architecture", "backbone", "encoder", "decoder", "head", "data", "dataset", "datasets", "dataloader",
    "tokenizer", "eval", "evaluation", "validation", "test", "generation", "logger", "logging", "wandb", "ema", "lora", "vae", "discriminator",
    "teacher",
})  # fmt: skip
"""Sections that are not about the training of this model: `model.dropout`, `data.warmup`."""

OPTIMIZERS = ("adamw", "adafactor", "ademamix", "radam", "nadam", "adamax", "adam", "lion", "muon", "lamb", "lars", "sgd", "soap", "sophia")
"""Names that stand in other programs' longer ones (`torch.optim.AdamW`, `adamw_torch_fused`), the longer before those they hold."""
SCHEDULES = {
    "cosine": "cosine", "cosineannealing": "cosine", "cosinewithminlr": "cosine", "cosinewarmupwithminlr": "cosine", "warmupcosine": "cosine",
    "cosinewithwarmup": "cosine", "cosineschedulewithwarmup": "cosine", "lineardecaywithwarmup": "linear", "linearwithwarmup": "linear",
    "linear": "linear", "warmupdecay": "linear",
    "constant": "constant", "constantwithwarmup": "constant", "warmup": "constant", "none": "constant",
    "inversesqrt": "inverse_sqrt", "inversesquareroot": "inverse_sqrt", "noam": "inverse_sqrt",
    "exponential": "exponential",
    "warmupstabledecay": "wsd", "wsd": "wsd", "trapezoidal": "wsd",
}  # fmt: skip
"""Other programs' words for schedules, without `_`, `-`, a module before them and `lr`, `scheduler` behind them."""
TYPES = {
    "float32": "float32", "fp32": "float32", "32": "float32", "bfloat16": "bfloat16", "bf16": "bfloat16", "float16": "float16", "fp16": "float16",
    "16": "float16", "half": "float16", "fp8": "fp8",
}  # fmt: skip
"""Other programs' words for types, without `torch.`, `amp_`, `-mixed`, `-true`."""

__all__ = ["ALIASES", "FOREIGN_SECTIONS", "INSIDE", "OPTIMIZERS", "PARTS", "SAME", "SCHEDULES", "SECTIONS", "TYPES"]
