"""Adversarial calibration training with the calibration error, ACCE-ACT (Emde et al. 2025, appendix F)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import nn

from rscert.train.ball import Ball, Range, climb
from rscert.train.binning import Assignment, Penalties, blocked_bins, error, standard_bounds
from rscert.train.noise import Noise
from rscert.train.smooth import Batch, Objective, copies, cross_entropy, frozen, mean_probabilities
from rscert.train.warmup import warm


@dataclass(frozen=True)
class ACCEACT:
    """The cross-entropy on inputs that an attack on the calibration error of the batch has perturbed.

    The attack (Algorithm 2) maximises the approximate certified calibration error over the assignment of examples to
    bins and over ‖γ‖₂ ≤ epsilon. Each of its steps moves γ by projected gradient ascent, in steps of length
    2·rate_factor·epsilon/steps, and then takes one step of ADMM for the assignment. The bins that an example can reach,
    and whether its prediction is correct, come from the first forward pass.

    The paper uses SGD with weight decay 1e-4, batches of 2,048 examples, 10 epochs with ``warmup=3``, and divides the
    learning rate by 10 every 4 epochs. It tries rate_factor .01, .1, 1 and 2; 1, 4, 10 and 20 steps; learning rates .01
    and .05; and growth factors .01, .05, .1 and .5 of the penalties.

    ``mix`` below 1 gives the variant ACCE-ACT*: the loss mix·CE + (1 − mix)·ACCE, where ACCE is the calibration error
    of the perturbed batch in the attack's bins. The paper takes a mix of .8 to .99.

    The paper leaves these points open:

    - ``alpha``: the level of Hoeffding's bounds in the Standard certificate that decides which bins are in reach. With
      the few samples of training, these bounds exclude no bin, so with the default None, the attack treats the
      estimated mean as the true mean.
    - ``objective`` and ``fixed_noise``: see BrierACT.
    - The factor 1 + growth per step for the penalties ρ, and one ρ for all constraints.
    """

    noise: Noise
    epsilon: float
    samples: int = 2
    steps: int = 4
    rate_factor: float = 1.0
    warmup: int = 3
    bins: int = 15
    penalties: Penalties = field(default_factory=Penalties)
    alpha: float | None = None
    mix: float = 1.0
    objective: Objective = "ce-of-mean"
    fixed_noise: bool = True
    clip: Range = (0.0, 1.0)

    def __post_init__(self) -> None:
        if self.noise.law != "gaussian":
            raise ValueError(f"law {self.noise.law}: the certificate of ACCE-ACT is for Gaussian noise")

    def at(self, epoch: int) -> ACCEACT:
        """Returns the loss of an epoch, whose epsilon may still be growing."""
        return replace(self, epsilon=warm(self.epsilon, epoch, self.warmup), warmup=0)

    def __call__(self, model: nn.Module, batch: Batch, generator: torch.Generator | None = None) -> torch.Tensor:
        x, y = batch
        noise = self.noise.offsets(copies(x, self.samples), generator)
        delta, assignment = self.attack(model, batch, noise, generator)
        if not self.fixed_noise:
            noise = self.noise.offsets(noise, generator)
        logits = model(copies(x + delta, self.samples) + noise)
        loss = cross_entropy(logits, y, self.samples, self.objective)
        if self.mix == 1:
            return loss
        confidence = mean_probabilities(logits, self.samples).amax(1)
        calibration = error(confidence, assignment.correct, assignment.projected()) / len(x)
        return self.mix * loss + (1 - self.mix) * calibration

    def attack(
        self, model: nn.Module, batch: Batch, noise: torch.Tensor, generator: torch.Generator | None = None
    ) -> tuple[torch.Tensor, Assignment]:
        """Returns the perturbations [N, …] for the given noise of the copies [N·m, …], and the final assignment."""
        x, y = batch
        ball = Ball("l2", self.epsilon)
        rate = 2 * self.rate_factor * self.epsilon / self.steps
        delta, assignment = torch.zeros_like(x), None
        with frozen(model):
            for _ in range(self.steps):
                delta.requires_grad_(True)
                probabilities = mean_probabilities(model(copies(x + delta, self.samples) + noise), self.samples)
                confidence = probabilities.amax(1)
                if assignment is None:
                    assignment = self._begin(probabilities.detach(), y)
                (gradient,) = torch.autograd.grad(assignment.error(confidence), delta)
                delta = climb(delta.detach(), gradient, x, ball, rate=rate, clip=self.clip)
                assignment.step(confidence.detach(), self.penalties)
                if not self.fixed_noise:
                    noise = self.noise.offsets(noise, generator)
        if assignment is None:
            raise ValueError(f"steps {self.steps}: want at least 1")
        return delta, assignment

    def _begin(self, probabilities: torch.Tensor, y: torch.Tensor) -> Assignment:
        confidence, prediction = probabilities.max(1)
        lower, upper = standard_bounds(confidence, self.epsilon, self.noise.scale, self.samples, self.alpha)
        correct = (prediction == y).to(confidence.dtype)
        return Assignment.start(correct, blocked_bins(lower, upper, self.bins), self.penalties)
