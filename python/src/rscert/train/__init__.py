"""Training of models that are worth certifying. It needs PyTorch: ``pip install 'rscert[train]'``.

Every loss is a function of a model and a batch (x [N, …], y [N]), and returns one number to minimise. It drops into any
training loop; ``fit`` is a loop of this package. ``rscert.export`` writes the trained model and its recipe.
"""

from rscert.train.acce_act import ACCEACT
from rscert.train.adversarial import AdversarialTraining
from rscert.train.average import Average
from rscert.train.ball import Ball, ascend
from rscert.train.binning import Penalties
from rscert.train.brier_act import BrierACT
from rscert.train.ccat import CCAT
from rscert.train.consistency import Consistency
from rscert.train.gaussian import GaussianAugmentation
from rscert.train.loop import Fitted, Loss, Options, fit, noisy_accuracy
from rscert.train.networks import Standardise, digits_cnn, resnet
from rscert.train.noise import BYTE, Noise, gaussian, laplace, uniform
from rscert.train.perturbed import PerturbationAware
from rscert.train.recipe import recipe
from rscert.train.schedule import Constant, Cosine, Steps
from rscert.train.smoothadv import SmoothAdv

__all__ = [
    "ACCEACT",
    "BYTE",
    "CCAT",
    "AdversarialTraining",
    "Average",
    "Ball",
    "BrierACT",
    "Consistency",
    "Constant",
    "Cosine",
    "Fitted",
    "GaussianAugmentation",
    "Loss",
    "Noise",
    "Options",
    "Penalties",
    "PerturbationAware",
    "SmoothAdv",
    "Standardise",
    "Steps",
    "ascend",
    "digits_cnn",
    "fit",
    "gaussian",
    "laplace",
    "noisy_accuracy",
    "recipe",
    "resnet",
    "uniform",
]
