"""The model itself, with weights that its own code made, on batches of a task: its loss, its last normed state, and their derivatives in the weights.

Not the replayed graph: the user's module runs, with its hooks. It runs as in evaluation (no dropout), but batch norms take the statistics of the
batch, as in training. Weights are float32.

The last normed state is found in the run by what the trace says of its node: which function made it, of how many axes and features, and how many such
calls come behind it. Where the run makes another number of such calls than the trace, nothing is taken for it. Of a norm that is no function of its
own (the parts of a fused kernel) the value that it reads is found in that way and normed here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.autograd.forward_ad as forward
from torch import Tensor, nn
from torch.func import functional_call
from torch.overrides import TorchFunctionMode

from screen import ops
from screen.probe.measure.leaves import Missing
from screen.probe.measure.session import Session
from screen.probe.plan.types import UpdatePlan
from screen.probe.stress.tasks import Batch, Task, noise_of, task_of

Weights = dict[str, Tensor]
"""By name, each shared one once."""


class _Answers(nn.Module):
    """A model as a function of a batch alone."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, x: Tensor) -> Tensor:
        return self.task.answer(self.model, x)


@dataclass(frozen=True)
class Mark:
    """How one value is known again in another run of the same program: calls of one name with results of so many axes and features are alike."""

    op: str
    rank: int
    axis: int
    features: int
    calls: int = 0
    """Calls that are alike, in the trace."""
    behind: int = 0
    """Those of them that come later."""
    whole: bool = True
    """Whether every layer ran in the trace."""
    normed: bool = False
    """Whether it is the norm's own value."""

    def fits(self, name: str, shape: Sequence[int]) -> bool:
        """Whether a call of this name with a result of this shape is one of them."""
        return ops.canonical(name)[0] == self.op and len(shape) == self.rank and shape[self.axis] == self.features


def mark_of(plan: UpdatePlan, session: Session) -> Mark | None:
    """The mark of the last normed state; None where the output stands for it. Raises `Missing`."""
    if plan.state is None:
        return None
    recorded, graph = list(session.trace.recorder.graph.nodes), session.trace.graph
    written = [i for i, n in enumerate(recorded) if n.op == "call_function" and not isinstance(n.target, torch._ops.OpOverload)]
    node = next((i for i in (plan.state, plan.before) if i in written), None)
    shape = graph.nodes[plan.state].shape
    if node is None or not shape:
        raise Missing("its last state is made inside of a call of torch's")
    mark = Mark(graph.nodes[node].op, len(shape), plan.axis, shape[plan.axis], whole=not graph.repeats)
    alike = [i for i in written if mark.fits(_name(recorded[i].target), graph.nodes[i].shape or ())]
    return replace(mark, calls=len(alike), behind=sum(i > node for i in alike), normed=plan.before is not None and node == plan.state)


def _name(func: Any) -> str:
    name = str(getattr(func, "__name__", ""))
    return str(func.__self__.__name__) if name == "__get__" else name


def _writes(name: str) -> bool:
    """Whether a call of this name gives back a tensor that it has written to: `add_`, `__iadd__`."""
    return name.startswith("__i") or (name.endswith("_") and not name.endswith("__"))


class _Watch(TorchFunctionMode):
    """Keeps the last results that fit a mark."""

    def __init__(self, mark: Mark) -> None:
        super().__init__()
        self.mark, self.count = mark, 0
        self.kept = deque[Tensor](maxlen=mark.behind + 1)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result, name = func(*args, **(kwargs or {})), _name(func)
        is_new = _writes(name) or not any(result is a for a in args)
        if isinstance(result, Tensor) and is_new and self.mark.fits(name, result.shape):
            self.count += 1
            self.kept.append(result.clone())  # a later call may write to it
        return result

    @property
    def state(self) -> Tensor:
        """What was marked. Raises `Missing`."""
        if self.count < self.mark.behind + 1 or (self.mark.whole and self.count != self.mark.calls):
            raise Missing(f"its last state was not found again: {self.count} calls are like the one that makes it, {self.mark.calls} in the trace")
        return self.kept[0]


class Whole:
    """One model on its task."""

    def __init__(self, model: nn.Module, session: Session, plan: UpdatePlan) -> None:
        """`model`: with weights on the CPU; it is changed to evaluation and moved to the device. Raises `Missing`."""
        self.device, self.plan = session.budget.device, plan
        for part in model.eval().modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.running_mean = part.running_var = None
        try:
            self.task = task_of(session.built, model, session.options.seed)
        except Missing:
            self.task = noise_of(session.built, model, session.options.seed)
        self.mark = None if isinstance(model, nn.ModuleList) else mark_of(plan, session)
        self.module = _Answers(model.to(self.device), self.task)
        asking = [p.requires_grad for p in model.parameters()]
        self.names = [n for n, p in self.module.named_parameters() if p.is_floating_point() and (p.requires_grad or not any(asking))]
        self.generator = torch.Generator().manual_seed(session.options.seed * 1009 + 3)

    @property
    def weights(self) -> Weights:
        """All that is trained, as it is; each asks for a gradient."""
        found = dict(self.module.named_parameters())
        return {n: found[n].requires_grad_(True) for n in self.names}

    def batch(self) -> Batch:
        """The next one."""
        x, y = self.task.batch(self.generator)
        return x.to(self.device), y.to(self.device)

    def loss(self, batch: Batch) -> Tensor:
        """Mean over the batch."""
        return self.task.loss(self.module(batch[0]), batch[1])

    def gradients(self, batch: Batch, create_graph: bool = False) -> Weights:
        """Of the loss; of a weight that does not reach it there is none."""
        weights = self.weights
        with torch.enable_grad():
            loss = self.loss(batch)
            if not loss.requires_grad:
                return {}
            found = torch.autograd.grad(loss, list(weights.values()), create_graph=create_graph, allow_unused=True)
        return {n: g for n, g in zip(weights, found, strict=True) if g is not None}

    def state(self, x: Tensor, weights: Mapping[str, Tensor]) -> Tensor:
        """The last normed state with some weights in place of the model's; where there is no norm the last state divided by its rms, token by token.
        Raises `Missing`."""
        if self.mark is None:
            found: Tensor = functional_call(self.module, dict(weights), (x,))
        else:
            with _Watch(self.mark) as watch:
                functional_call(self.module, dict(weights), (x,))
            found = watch.state
        if self.mark is not None and self.mark.normed:
            return found
        found = found - found.mean(self.plan.axis, keepdim=True) if self.plan.centred else found
        return found / (found.square().mean(self.plan.axis, keepdim=True) + self.plan.added).sqrt()

    def move(self, x: Tensor, direction: Mapping[str, Tensor], step: float) -> Tensor:
        """The state after one step along a direction."""
        weights = self.weights
        with torch.no_grad():
            return self.state(x, {n: weights[n].detach() + step * d for n, d in direction.items()})

    def derivative(self, x: Tensor, direction: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """(state, its derivative along a direction of the weights), in one pass forward. An op without such a derivative raises `RuntimeError`."""
        weights = self.weights
        with torch.no_grad(), forward.dual_level():
            duals = {n: forward.make_dual(weights[n].detach(), d) for n, d in direction.items()}
            value, tangent = forward.unpack_dual(self.state(x, duals))
        return value, torch.zeros_like(value) if tangent is None else tangent


__all__ = ["Mark", "Weights", "Whole", "mark_of"]
