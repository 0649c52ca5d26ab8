"""The options of the functions of this package.

'go test ./cmd/rscert -run TestPythonOptions -update' makes this file from the flags of the program.
"""

import os
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, TypedDict, Union

import numpy as np
import numpy.typing as npt

StrPath: TypeAlias = Union[str, "os.PathLike[str]"]
Floats: TypeAlias = Union[float, Sequence[float], "npt.NDArray[np.floating[Any]]"]


class CertifyOptions(TypedDict, total=False):
    """The options are flags of ``rscert certify``.

    law: law (distribution) of the noise: gaussian (Gaussian noise N(0, σ²I); radii in L2), laplace (Laplace noise of
        scale b; radii in L1), uniform (uniform noise on [−λ, λ]; radii in L1) or splitting (splitting noise on [−λ,
        λ]; this noise is not random, so its certificates need no alpha; radii in L1) (default gaussian)
    sigma_columns: CSV or JSON file with the noise scale σ of each table column, in the units of the column; σ = 0
        means no noise (docs/columns.md)
    sigma_channels: values of the noise scale σ, one per colour channel, such as 0.25,0.5,0.25; σ = 0 means no noise
        in the channel
    sigma_scale: rule for the noise scale of each table column; the only rule, 'std', is ``sigma`` times the column's
        standard deviation in ``scale_data``; constant and whole-number columns get no noise
    scale_data: path of the data whose standard deviations ``sigma_scale`` uses, such as the training data
    noisy_columns: with ``sigma_scale``, names of the whole-number columns that also get noise
    n: number of samples that certify the class, for each example; with ``stop``, the maximum number (default 100000)
    n0: number of separate samples that select the class to certify, for each example (default 100)
    alpha: largest probability that a certificate is wrong (default 0.001)
    method: method of certification; for votes: margin (default), bonferroni, clopper-pearson, bonferroni-classes,
        moutaouakil (not sound); with ``scores``: betting (default), hoeffding, bernstein, prpl-eb, chernoff, star,
        prpl-eb-sequence, moutaouakil-bernstein (not sound), moutaouakil-sequence (not sound)
    class_: class to certify: predicted (the class with the most votes among the n0 selection samples; with scores,
        the class with the largest mean score in these samples) or label (the true label) (default predicted)
    margin: margin between the probability p_A of the class and the largest probability p_B of another class: second
        (gaussian: Φ⁻¹(p_A)−Φ⁻¹(p_B), radius σ/2 times the margin; laplace: Q(p_A)−Q(p_B) with the quantile function Q
        of the Laplace distribution of scale 1, radius b/2 times the margin; uniform: 2(p_A−p_B), radius λ/2 times the
        margin) or first (gaussian: p_A−p_B, radius σ√(π/2) times the margin; laplace: p_A−p_B, radius b times the
        margin; uniform: p_A−p_B, radius λ times the margin; for each of these laws, with a known Lipschitz constant
        L, the radius is at least margin/(√2·L)) (default second)
    lipschitz: with '``margin`` first': a known Lipschitz constant L of the smoothed probabilities; default: the
        constant that the noise guarantees
    stop: rule to stop sampling an example early: 'radius>=R' stops once it is known whether the radius is at least R;
        'precision=F' stops once the radius is at least (1−F) times the largest radius that is still possible
    scores: certify by the mean softmax scores instead of the votes
    save_scores: save the scores of all samples in scores.npz (for m classes, 4·n·m bytes per example); without
        ``confidence_radii``, this flag implies ``scores``
    combine: with ``scores``, method that bounds the margin between two mean scores: directed (bounds the mean of X^A
        − r·X^B, where X^A is the score of the class and X^B that of a rival; the selection samples choose the weight
        r), projected (bounds the mean of X^A − X^B, as 'directed' does with r = 1), bonferroni (bounds the mean score
        of the class and the mean score of each rival separately, each at alpha/2), bonferroni-classes (bounds the
        mean score of each of the m classes separately, each at alpha/m (Algorithm 3 of Moutaouakil 2024)) or taylor
        (takes the formula as printed in Moutaouakil 2024, §5.3; not sound; it only reproduces the paper) (default
        directed)
    temperature: temperature of the softmax for ``scores`` and ``reject_below`` (default 1)
    top_k: certify that the class stays among the K classes that the model answers most often under noise (default 1)
    none: what a certificate claims if samples can vote for "no class"; the smoothed classifier is silent if "no
        class" gets the most votes (docs/reject.md): answer (the smoothed classifier answers the class), ignore (the
        class gets more votes than every other class; votes for "no class" do not count) or safe (the smoothed
        classifier answers the class or is silent) (default answer)
    reject_below: smallest confidence (largest softmax score at ``temperature``) at which a sample votes for a class;
        below it, the sample votes for "no class" (docs/reject.md)
    confidence_radii: also bound the mean score under attack at these radii, and write the bounds to bounds.csv; the
        bounds use half of alpha, and the certificates use the other half
    confidence: method that bounds the confidence under attack: tangent (bounds the mean of a function of the score;
        the selection samples determine the function), standard (bounds the mean score z within the radius R by
        Φ(Φ⁻¹(z̲)−R/σ) ≤ z ≤ Φ(Φ⁻¹(z̄)+R/σ), where z̲ and z̄ are bounds on the mean score without attack (Kumar et al.
        2020, Theorem 1)) or cdf (bounds the probability that the score exceeds a threshold, for every threshold
        (these bounds form a confidence band); then applies the formula of 'standard' to each of these bounds (Kumar
        et al. 2020, Theorem 2)) (default tangent)
    confidence_bound: with ``confidence`` standard or tangent, bound on the mean of the score (for tangent: of a
        function of the score): betting, hoeffding, bernstein, prpl-eb, chernoff, star, prpl-eb-sequence (default
        betting)
    band: with ``confidence`` cdf, confidence band for the distribution of the score: binomial (takes the exact
        binomial bound at each of 127 thresholds; tight in the tails) or dkw (has the same width everywhere
        (Dvoretzky, Kiefer & Wolfowitz); Kumar et al. 2020 and Emde et al. 2025 use this band) (default binomial)
    labels: separate file with the labels of IDX, npy or image data; 'none' makes rscert read no labels
    label_column: column with the labels in a table: a name, an index from 0, 'first', 'last' or 'none'
        (docs/my-data.md); default: found by rscert
    first_label: label that the data use for the model's first class: 0 or 1
    class_names: file with the class names in the order of the model's classes, as JSON or one name per line; needed
        if the labels are words and the model's file does not list its classes; without ``class_names``, if any class
        folder has a name that is not a number, the folders count as 0, 1, … in the order of their names
        (docs/my-data.md)
    resize: resize images to this size in pixels, as torchvision does: give the length of the shorter side, or
        HEIGHTxWIDTH
    crop: crop each image around its centre to this size in pixels, after ``resize``
    interpolation: how ``resize`` interpolates: bilinear or bicubic (default bilinear)
    outputs: kind of the model's outputs (if the model gives a single number per sample, rscert takes this number as
        the output for the second of two classes): auto (rscert inspects the model), logits or probabilities (default
        auto)
    average: with several models, which outputs rscert averages: 'logits' or 'probabilities'; ``outputs`` says what
        every model returns (default logits)
    scores_output: name of the output with the scores, if the model has several outputs
    layout: order of the values in an image that is a flat row (default: the order of the model's input, or 'chw' if
        the model takes no images): chw (channel, height, width) or hwc (height, width, channel)
    mean: values to subtract from the noisy input: one value, or one per channel
    std: values by which to divide the noisy input after ``mean`` is subtracted: one value, or one per channel
    noise: kind of the noise: lattice (noise on a grid; the certificates hold for the exact numbers that the model
        receives) or float (floating-point noise, only for comparison; the certificates ignore rounding errors)
        (default lattice)
    seed: seed of the noise; default: a seed that the operating system draws and the run records
    skip: use only every k-th example of the dataset (default 1)
    max: maximum number of examples; 0 means all examples
    select: which examples ``max`` keeps (default: 'spread' for data sorted by class, otherwise 'first'): first (the
        first examples) or spread (examples spread over the whole dataset)
    shard: run only shard i/k: every k-th example from example i on, where 0 ≤ i < k; 'auto' is the shard of this task
        in a Slurm array or a Kubernetes Indexed Job (default 0/1)
    device: device that runs the model: auto, cuda[:INDEX,…], cpu, openvino[:CPU|GPU|NPU]; 'cuda' distributes the
        examples over all working GPUs (default auto)
    noise_on: place where rscert makes the noise and counts the votes; the place does not affect the votes; it can
        affect the last bits of scores: auto ('device' if the model runs on a GPU, otherwise 'host'), host (in the
        program rscert, on the CPU) or device (in the model's graph, on the device) (default auto)
    precision: number format of the model's arithmetic; the results, such as certificates, hold for the model in this
        format: f32 (with every device), bf16 (only with openvino), f16 (only with openvino) or tf32 (only with cuda)
        (default f32)
    allow_tf32: let NVIDIA GPUs round the factors of products to TF32; the same as ``precision`` tf32
    prefer_nhwc: on NVIDIA GPUs, compute convolutions in the memory layout with the channels last
    conv_search: how cuDNN chooses algorithms for convolutions on NVIDIA GPUs: heuristic (by cuDNN's rules; the choice
        is the same in every run), exhaustive (by timing all algorithms; the choice may change from run to run) or
        default (without a search; the algorithm is always the same (ONNX Runtime's setting DEFAULT)) (default
        heuristic)
    batch: number of samples per call of the model; 0 means that rscert chooses this number
    threads: number of threads; 0 means one thread per core
    onnxruntime: path of the ONNX Runtime library; default: $RSCERT_ONNXRUNTIME, or else the library in the cache or
        in a system folder
    denoiser: ONNX file of a denoiser that runs before the model; the certificates hold for the denoiser and the model
        together (docs/denoiser.md)
    denoiser_kind: kind of the denoiser: image (a denoiser that returns the clean image), epsilon (a diffusion model
        that returns the noise) or x0 (a diffusion model that returns the clean image) (default image)
    denoiser_range: two values of the denoiser: the first for the data value 0, the second for the data value 1;
        default: 0,1 (for a diffusion model -1,1)
    diffusion_schedule: noise schedule of a diffusion model: 'linear', 'cosine', or a file whose lines hold the ᾱ of
        the timesteps (default linear)
    only: certify some examples of RUN again, with new noise: 'abstained=RUN' takes the examples on which RUN
        abstained; 'failed=RUN' also takes the examples that RUN answered wrongly; rates over the chosen examples say
        nothing about the whole dataset (docs/only.md)
    from_: folder (or run.json) of a run to repeat; the new run takes its parameters from this run, except those that
        a flag gives; rscert checks that the model and the data have not changed; it does not check a model or data
        that a flag names
    preset: use the parameters of this paper unless flags say otherwise: cohen2019 (the parameters of the algorithm
        CERTIFY of Cohen et al. 2019: Clopper–Pearson, n0 = 100, n = 100,000, α = 0.001) or emde2025 (the parameters
        of Emde et al. 2025: those of 'cohen2019', and also bounds on the confidence ('standard', Hoeffding) at the
        paper's radii for CIFAR-10)
    resume: continue the run in the folder of ``out``, or start one if the folder holds none
    sign: sign the finished run with the secret key in this file; 'minisign -G' makes such a key
    sign_password_file: with ``sign``, a file whose first line is the password of the key; default:
        $RSCERT_SIGN_PASSWORD, or else rscert asks for the password at the terminal
    require: check this requirement, such as certified-accuracy@0.5>=0.60; exit with code 3 if it is not met; can be
        repeated (docs/gate.md)
    config: YAML file that sets further flags; each key is the name of a flag; flags on the command line win
        (docs/command-line.md)
    strict: end with exit code 2 at the first warning ('rscert explain' lists the warnings)
    """

    law: Literal["gaussian", "laplace", "uniform", "splitting"]
    sigma_columns: StrPath
    sigma_channels: Floats
    sigma_scale: Literal["std"]
    scale_data: StrPath
    noisy_columns: str | Sequence[str]
    n: int
    n0: int
    alpha: float
    method: Literal["margin", "bonferroni", "clopper-pearson", "bonferroni-classes", "moutaouakil", "splitting",
        "betting", "hoeffding", "bernstein", "prpl-eb", "chernoff", "star", "prpl-eb-sequence",
        "moutaouakil-bernstein", "moutaouakil-sequence"]
    class_: Literal["predicted", "label"]
    margin: Literal["second", "first"]
    lipschitz: float
    stop: str
    scores: bool
    save_scores: bool
    combine: Literal["directed", "projected", "bonferroni", "bonferroni-classes", "taylor"]
    temperature: float
    top_k: int
    none: Literal["answer", "ignore", "safe"]
    reject_below: float
    confidence_radii: Floats
    confidence: Literal["tangent", "standard", "cdf"]
    confidence_bound: Literal["betting", "hoeffding", "bernstein", "prpl-eb", "chernoff", "star", "prpl-eb-sequence"]
    band: Literal["binomial", "dkw"]
    labels: StrPath
    label_column: str
    first_label: int
    class_names: StrPath
    resize: str
    crop: str
    interpolation: Literal["bilinear", "bicubic"]
    outputs: Literal["auto", "logits", "probabilities"]
    average: Literal["logits", "probabilities"]
    scores_output: str
    layout: Literal["chw", "hwc"]
    mean: Floats
    std: Floats
    noise: Literal["lattice", "float"]
    seed: int
    skip: int
    max: int
    select: Literal["first", "spread"]
    shard: str
    device: str
    noise_on: Literal["auto", "host", "device"]
    precision: Literal["f32", "bf16", "f16", "tf32"]
    allow_tf32: bool
    prefer_nhwc: bool
    conv_search: Literal["heuristic", "exhaustive", "default"]
    batch: int
    threads: int
    onnxruntime: StrPath
    denoiser: StrPath
    denoiser_kind: Literal["image", "epsilon", "x0"]
    denoiser_range: Floats
    diffusion_schedule: StrPath
    only: str
    from_: str
    preset: str
    resume: bool
    sign: StrPath
    sign_password_file: StrPath
    require: str | Sequence[str]
    config: StrPath
    strict: bool


class RadiusOptions(TypedDict, total=False):
    """The options are flags of ``rscert radius``.

    method: methods, separated by commas; default: the method of the run; without a run, 'margin' for votes and
        'betting' for scores
    class_: class to certify; default: the choice of the run, or else 'predicted': predicted (the class with the most
        votes among the n0 selection samples; with scores, the class with the largest mean score in these samples) or
        label (the true label)
    alpha: largest probability that the certificate of an example is wrong; for a run, the value of the run replaces
        the default (default 0.001)
    law: law (distribution) of the noise: gaussian (Gaussian noise N(0, σ²I); radii in L2), laplace (Laplace noise of
        scale b; radii in L1), uniform (uniform noise on [−λ, λ]; radii in L1) or splitting (splitting noise on [−λ,
        λ]; this noise is not random, so its certificates need no alpha; radii in L1) (default gaussian)
    margin: one or both margins, separated by commas; p_A is the probability of the class, and p_B the largest
        probability of another class; default: the margin of the run; without a run, 'second': second (gaussian:
        Φ⁻¹(p_A)−Φ⁻¹(p_B), radius σ/2 times the margin; laplace: Q(p_A)−Q(p_B) with the quantile function Q of the
        Laplace distribution of scale 1, radius b/2 times the margin; uniform: 2(p_A−p_B), radius λ/2 times the
        margin) or first (gaussian: p_A−p_B, radius σ√(π/2) times the margin; laplace: p_A−p_B, radius b times the
        margin; uniform: p_A−p_B, radius λ times the margin; for each of these laws, with a known Lipschitz constant
        L, the radius is at least margin/(√2·L))
    lipschitz: for ``margin`` first, a known Lipschitz constant L of the smoothed probabilities; 0 means that L is
        unknown, and rscert uses the constant that the noise guarantees
    top_k: certify that the class stays among the K classes that the model answers most often under noise (default 1)
    none: what a certificate claims if samples can vote for "no class"; the smoothed classifier is silent if "no
        class" gets the most votes (docs/reject.md): answer (the smoothed classifier answers the class), ignore (the
        class gets more votes than every other class; votes for "no class" do not count) or safe (the smoothed
        classifier answers the class or is silent) (default answer)
    config: YAML file that sets further flags; each key is the name of a flag; flags on the command line win
        (docs/command-line.md)
    strict: end with exit code 2 at the first warning ('rscert explain' lists the warnings)
    """

    method: Literal["margin", "bonferroni", "clopper-pearson", "bonferroni-classes", "moutaouakil", "splitting",
        "betting", "hoeffding", "bernstein", "prpl-eb", "chernoff", "star", "prpl-eb-sequence",
        "moutaouakil-bernstein", "moutaouakil-sequence"] | Sequence[str]
    class_: Literal["predicted", "label"]
    alpha: float
    law: Literal["gaussian", "laplace", "uniform", "splitting"]
    margin: Literal["second", "first"] | Sequence[str]
    lipschitz: float
    top_k: int
    none: Literal["answer", "ignore", "safe"]
    config: StrPath
    strict: bool


class CceOptions(TypedDict, total=False):
    """The options are flags of ``rscert acce``.

    bins: number of bins of equal width in the calibration error (default 15)
    edge: edge that each bin includes; the only value is 'lower', that is, bins [lo,hi) (default lower)
    solver: solvers to run: exact, admm, dece or brier (default [exact])
    adaptive: also bound the calibration error with bins of equal count
    tau: thresholds τ; for each τ, bound the error of a classifier that answers only where its confidence is at least
        τ
    delta: for the bounds that hold even if k bounds in the file fail: the largest probability, at each radius, that
        these bounds are wrong (default 0.05)
    alpha: largest probability that a single bound in the file is wrong; default: the value in the run or the file
    examples: number of all sampled examples, with or without a certified class; default: the number in the run or the
        file
    plot: draw a figure to this .svg, .png or .pdf file
    curve: name of the figure: under-attack, solvers, cbs, lagrangian, constraints or assignment (default
        under-attack)
    names: names for the inputs in the figures 'solvers' and 'cbs'; default: the names of the folders or files
    plot_size: size of the figure in centimetres, such as 15x10; default: depends on the figure and the number of its
        panels
    group: also compute CBS and CCE for each group; the rows with the same value in the given column form a group; if
        you name several columns, each of them makes groups of its own
    groups: file with the groups of the examples, in the columns 'index' and 'group'; to use another column instead of
        'group', give its name to ``group``
    out: CSV file for the worst confidences that the solvers find
    admm_starts: confidences at which 'admm' starts: clean (the confidences without attack) or brier (the confidences
        with the largest Brier score) (default [clean,brier])
    admm_learning_rate_z: learning rates of 'admm' for the confidences (default [0.001000,0.010000])
    admm_learning_rate_a: learning rates of 'admm' for the assignment of confidences to bins (default
        [0.010000,0.100000])
    admm_rho: initial penalty ρ of 'admm' (default 0.01)
    admm_rho_growth: growth factors of the penalty ρ: each run of 'admm' multiplies ρ by one of them after each step
        (default [1.004000,1.010000])
    admm_rho_max: largest penalty ρ of 'admm' (default 10)
    admm_steps: number of steps of 'admm' in each of its runs (default 3000)
    dece_starts: confidences at which 'dece' starts: clean (the confidences without attack) or brier (the confidences
        with the largest Brier score) (default [brier,clean])
    dece_random_starts: number of random starts of the search 'dece' in addition to ``dece_starts``; each of these
        starts draws its confidences uniformly between their bounds
    dece_gaussian_starts: number of additional random starts of 'dece', normally distributed around the middle of the
        bounds
    dece_seed: seed of the random starts of 'dece' (default 1)
    dece_learning_rate: initial learning rate of 'dece' (default 0.01)
    dece_schedule: schedule of the learning rate of 'dece': cosine (falls to 0 along a half cosine), constant (stays
        the same) or plateau (falls to a tenth after eleven steps in a row without progress) (default cosine)
    dece_momentum: momentum of the search 'dece', from 0 to below 1: the share of the previous step that 'dece' adds
        to each step
    dece_steps: number of steps of 'dece' per start (default 1000)
    trace: CSV file for the calibration error at every k-th step of 'admm' and 'dece'; ``trace_every`` sets k
    trace_every: write only every k-th step to the file of ``trace`` (default 10)
    config: YAML file that sets further flags; each key is the name of a flag; flags on the command line win
        (docs/command-line.md)
    strict: end with exit code 2 at the first warning ('rscert explain' lists the warnings)
    """

    bins: int
    edge: Literal["upper", "lower"]
    solver: Literal["exact", "admm", "dece", "brier"] | Sequence[str]
    adaptive: bool
    tau: Floats
    delta: float
    alpha: float
    examples: int
    plot: StrPath | Sequence[StrPath]
    curve: Literal["under-attack", "solvers", "cbs", "lagrangian", "constraints", "assignment"]
    names: str | Sequence[str]
    plot_size: str
    group: str | Sequence[str]
    groups: StrPath
    out: StrPath
    admm_starts: Literal["clean", "brier"] | Sequence[str]
    admm_learning_rate_z: Floats
    admm_learning_rate_a: Floats
    admm_rho: float
    admm_rho_growth: Floats
    admm_rho_max: float
    admm_steps: int
    dece_starts: Literal["clean", "brier"] | Sequence[str]
    dece_random_starts: int
    dece_gaussian_starts: int
    dece_seed: int
    dece_learning_rate: float
    dece_schedule: Literal["cosine", "constant", "plateau"]
    dece_momentum: float
    dece_steps: int
    trace: StrPath
    trace_every: int
    config: StrPath
    strict: bool


class MetricsOptions(TypedDict, total=False):
    """The options are flags of ``rscert metrics``.

    bins: number of bins in the calibration errors that use bins (default 15)
    edge: edge that each bin includes: upper (bins (lo,hi]) or lower (bins [lo,hi)) (default upper)
    level: confidence level of the intervals (default 0.95)
    joint_bands: widen the intervals of the reliability diagram, so that with probability ``level`` they hold in every
        bin at once
    consistency_bands: add bands to the reliability diagram; if the predictions are calibrated, then with probability
        at least ``level`` all bins lie in their bands at once
    group: also compute the metrics of each group; the rows with the same value in the given column form a group; if
        you name several columns, each of them makes groups of its own
    groups: file with the groups of the examples, in the columns 'index' and 'group'; to use another column instead of
        'group', give its name to ``group``
    cluster: column that gives the cluster of each row, such as the row's patient; rows of one cluster may depend on
        each other; the command keeps one random row of each cluster
    seed: seed of the random choices in five places: the betting intervals (those of the Brier scores and those of
        ``versus``), the bootstrap, the simulated calibration test, ``cluster`` and ``holdout`` (default 1)
    draws: number of simulations in the calibration test, at most 1000000; the smallest p-value is 1/(draws+1);
        default: 999, or fewer for more than 200,000 rows
    radius: use only the rows with this radius
    quantity: the probability whose calibration the command reports; default: 'class-1' for the columns score and
        label, otherwise 'top-label': top-label (the confidence of the classifier's answer) or class-1 (the score of
        class 1, if there are two classes)
    plot: write the reliability diagram to this .svg, .png or .pdf file
    plot_size: size of the diagram in centimetres, such as 15x10 (default 11x14)
    title: title of the diagram; default: the file name, the number of rows and the ECE
    curve: curve in the diagram: kernel (a kernel regression with the smooth ECE as its bandwidth), isotonic (an
        isotonic regression) or none (no curve) (default kernel)
    held_out: file with held-out predictions (without attack); ``tpr`` takes its thresholds from these predictions
    holdout: take this share of the input's rows, such as 0.1, as the held-out predictions that ``tpr`` needs;
        ``seed`` chooses the rows at random; give this flag or ``held_out``, not both
    attack: file with predictions on the same rows under an attack; if the flag is repeated, each row counts with its
        worst case over all these attacks
    tpr: true positive rates, as shares such as 0.99,0.98; the held-out predictions give a threshold for each rate
        (default 0.99)
    tau: further confidence thresholds τ, from 0 to 1; they need no held-out predictions
    by_tau: write the test error, the robust test error, and the true and false positive rates at every threshold to
        this .csv, .svg, .png or .pdf file
    versus: compare the input with this file of another classifier's predictions; the file must have the same rows as
        the input, in the same order
    config: YAML file that sets further flags; each key is the name of a flag; flags on the command line win
        (docs/command-line.md)
    strict: end with exit code 2 at the first warning ('rscert explain' lists the warnings)
    """

    bins: int
    edge: Literal["upper", "lower"]
    level: float
    joint_bands: bool
    consistency_bands: bool
    group: str | Sequence[str]
    groups: StrPath
    cluster: str
    seed: int
    draws: int
    radius: float
    quantity: Literal["top-label", "class-1"]
    plot: StrPath | Sequence[StrPath]
    plot_size: str
    title: str
    curve: Literal["kernel", "isotonic", "none"]
    held_out: StrPath
    holdout: float
    attack: StrPath | Sequence[StrPath]
    tpr: Floats
    tau: Floats
    by_tau: StrPath | Sequence[StrPath]
    versus: StrPath
    config: StrPath
    strict: bool
