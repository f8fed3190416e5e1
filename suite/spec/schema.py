"""What a spec may say: tasks, models, protocols, suites and claims, as strict pydantic models.

Every field is followed by its one-line meaning; the committed JSON Schema is generated from here. Unknown keys are
errors, scalars are never converted (`true` is not 1, `"3"` is not 3), and no number is NaN or infinite.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from .base import (
    Described,
    Fraction,
    Length,
    Lengths,
    Line,
    Name,
    Positive,
    Rate,
    Reference,
    References,
    Revision,
    Seed,
    Sha256,
    Strict,
    Text,
    without_repeats,
    wrong,
)
from .claims_schema import Claim, ClaimsSpec, Expectation, MetricReference

__all__ = [
    "DATASET_FIELDS",
    "AnyModel",
    "Architecture",
    "Checkpoint",
    "Claim",
    "ClaimsSpec",
    "ComponentRule",
    "CurriculumStage",
    "Expectation",
    "FineTuning",
    "Gate",
    "GruArchitecture",
    "HuggingFaceModel",
    "LoraOptions",
    "LstmArchitecture",
    "Mamba2Architecture",
    "MambaArchitecture",
    "MambaSsmModel",
    "MetricReference",
    "MetricSpec",
    "Model",
    "ModelFineTuning",
    "ModelSpec",
    "ModelTraining",
    "ModuleSites",
    "PretrainedSites",
    "ProtocolSpec",
    "ReferenceModel",
    "Spec",
    "SuiteOverride",
    "SuiteSpec",
    "TaskLengths",
    "TaskSizes",
    "TaskSpec",
    "TorchModuleModel",
    "Training",
    "TrainingOverride",
    "TransformerArchitecture",
    "symbols_for",
]


DATASET_FIELDS = ("source", "path", "config", "revision", "sha256")
"""Fields of a task that say which data set it is read from."""


class TaskLengths(Strict):
    """Sequence lengths, in tokens."""

    train: Length
    """The length that models are trained at."""
    evaluate: Lengths
    """The lengths they are measured at; the training length is one of them."""

    @model_validator(mode="after")
    def _train_is_evaluated(self) -> TaskLengths:
        if self.train not in self.evaluate:
            raise wrong("evaluate", f"{self.evaluate} — the training length {self.train} must be among them")
        return self


class TaskSizes(Strict):
    """Numbers of sequences in the data for measuring."""

    probe_train: Positive = 1000
    """Sequences that probes are fitted on."""
    probe_test: Positive = 500
    """Sequences that probes are scored on."""
    evaluate: Positive = 1000
    """Sequences that behaviour is measured on, at each length."""


class TaskSpec(Described):
    """A distribution over token sequences with state variables labelled at every position."""

    kind: Literal["task"]
    family: Reference
    """The generator: a built-in or installed family, or `path/to/file.py:build`."""
    structure: Literal["prefix_update", "stack", "other"]
    """What kind of computation the state needs; gives the task its shape on charts."""
    params: dict[str, Any] = Field(default_factory=dict[str, Any])
    """The family's parameters, checked by the family."""
    target: Name
    """The state variable that models are trained on."""
    states: Annotated[list[Name], Field(min_length=1), AfterValidator(without_repeats)]
    """All state variables that are measured, the target among them."""
    lengths: TaskLengths
    """Training and evaluation lengths."""
    sizes: TaskSizes = Field(default_factory=TaskSizes)
    """Numbers of sequences in the data for measuring."""
    source: Literal["generator", "dataset"] = "generator"
    """Where sequences come from: drawn by the family, or read from a data set that `layerstate data export` made."""
    path: Reference | None = None
    """Of a data set: its folder, or with a `revision` its id on the Hugging Face Hub."""
    config: Name | None = None
    """Which task of the data set is read; the one of this spec's name if left out."""
    revision: Revision | None = None
    """Commit, branch or tag of a data set on the Hub."""
    sha256: Sha256 | None = None
    """The digest of the data set's sequences, as its card gives it."""

    @model_validator(mode="after")
    def _a_data_set_is_named_in_full(self) -> TaskSpec:
        if self.source == "dataset":
            for field, right in (("path", "the folder of the data set"), ("sha256", "the digest that its card gives")):
                if getattr(self, field) is None:
                    raise wrong("source", f"`dataset` without `{field}` — {right} would be right")
        else:
            for field in DATASET_FIELDS[1:]:
                if getattr(self, field) is not None:
                    raise wrong(field, "belongs to a data set — with it, `source: dataset` would be right")
        return self

    @model_validator(mode="after")
    def _target_is_a_state(self) -> TaskSpec:
        if self.target not in self.states:
            raise wrong("target", f"`{self.target}` — one of the states {self.states} would be right")
        return self


class CurriculumStage(Strict):
    """A part of training with easier data."""

    until: Annotated[float, Field(gt=0.0, le=1.0)]
    """The share of all steps at which this stage ends."""
    length: Length | None = None
    """Length of its sequences; the task's training length if left out."""
    params: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Task parameters that differ in this stage."""


def _check_order(stages: list[CurriculumStage]) -> None:
    ends = [stage.until for stage in stages]
    if ends != sorted(set(ends)):
        raise wrong("curriculum", f"stages that end at {ends} — rising shares of the steps would be right")


class Training(Strict):
    """A training recipe, resolved for one task."""

    optimizer: Literal["adamw"] = "adamw"
    """The optimiser."""
    learning_rate: Rate
    """Peak learning rate."""
    weight_decay: Annotated[float, Field(ge=0.0, le=10.0)] = 0.01
    """AdamW's decoupled weight decay, on matrices only."""
    beta2: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.999
    """AdamW's decay of the squared gradient's average."""
    schedule: Literal["cosine", "constant"] = "cosine"
    """What the learning rate does after the warm-up."""
    final_share: Fraction = 0.1
    """The learning rate at the end, as a share of the peak (cosine)."""
    warmup: Annotated[int, Field(ge=0, le=1_000_000)] = 100
    """Steps over which the learning rate rises to its peak."""
    batch_size: Positive = 64
    """Sequences a step."""
    steps: Positive
    """The budget of steps."""
    clip: Rate | None = 1.0
    """Largest norm of the gradient; null for none."""
    evaluate_every: Positive = 100
    """Steps between two evaluations on the validation split."""
    stop_at_accuracy: Fraction | None = 0.9995
    """Stop early once validation accuracy reaches this `stop_after` times running; null for never."""
    stop_after: Positive = 3
    """How many evaluations running must reach it."""
    curriculum: list[CurriculumStage] = Field(default_factory=list[CurriculumStage])
    """Stages of easier data, in order; after the last one comes the task itself."""

    @model_validator(mode="after")
    def _stages_in_order(self) -> Training:
        _check_order(self.curriculum)
        return self


class TrainingOverride(Strict):
    """The fields of a recipe that differ for one task."""

    learning_rate: Rate | None = None
    weight_decay: Annotated[float, Field(ge=0.0, le=10.0)] | None = None
    beta2: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    schedule: Literal["cosine", "constant"] | None = None
    final_share: Fraction | None = None
    warmup: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    batch_size: Positive | None = None
    steps: Positive | None = None
    clip: Rate | None = None
    evaluate_every: Positive | None = None
    stop_at_accuracy: Fraction | None = None
    stop_after: Positive | None = None
    curriculum: list[CurriculumStage] | None = None

    @model_validator(mode="after")
    def _replaces(self) -> TrainingOverride:
        for field in self.model_fields_set - {"clip", "stop_at_accuracy"}:
            if getattr(self, field) is None:
                raise wrong(field, "null (nothing) — leave the key out to keep the general value")
        _check_order(self.curriculum or [])
        return self


class ModelTraining(Training):
    """A training recipe with what differs for single tasks."""

    per_task: dict[Name, TrainingOverride] = Field(default_factory=dict[str, TrainingOverride])
    """Task name to the fields that differ there."""

    def resolve(self, task: str) -> Training:
        """The recipe for `task`: the general fields, replaced by those that `per_task` sets for it."""
        return Training.model_validate(_resolved(self, self.per_task.get(task)))


class LoraOptions(Strict):
    """Low-rank updates of linear maps (Hu et al. 2022)."""

    rank: Positive = 8
    """Rank of each update."""
    alpha: Rate = 16.0
    """The update is scaled by alpha over rank."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Dropout before each update."""
    targets: References | None = None
    """Names of linear maps, or their ends (`q_proj`); all in the blocks if left out."""


class FineTuning(Training):
    """A recipe for a pretrained model, resolved for one task."""

    method: Literal["full", "lora"] = "full"
    """What is trained besides the head: all weights, or low-rank updates."""
    lora: LoraOptions | None = None
    """The updates, with `method: lora`."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """What training computes in; weights, and everything that is measured, stay float32."""
    accumulate: Positive = 1
    """Parts that a step's batch is worked on in, one after the other, to save memory."""

    @model_validator(mode="after")
    def _fits(self) -> FineTuning:
        if self.lora is not None and self.method != "lora":
            raise wrong("lora", "given with `method: full` — `method: lora` would be right, or no `lora`")
        if self.batch_size % self.accumulate:
            raise wrong(
                "accumulate", f"{self.accumulate} parts of a batch of {self.batch_size} — a divisor would be right"
            )
        return self


class ModelFineTuning(FineTuning):
    """A recipe for a pretrained model with what differs for single tasks."""

    per_task: dict[Name, TrainingOverride] = Field(default_factory=dict[str, TrainingOverride])
    """Task name to the fields that differ there."""

    def resolve(self, task: str) -> FineTuning:
        """The recipe for `task`: the general fields, replaced by those that `per_task` sets for it."""
        return FineTuning.model_validate(_resolved(self, self.per_task.get(task)))


def _resolved(recipe: Training, override: TrainingOverride | None) -> dict[str, Any]:
    general = recipe.model_dump(exclude={"per_task"})
    return general if override is None else general | override.model_dump(exclude_unset=True)


class TransformerArchitecture(Strict):
    """Pre-norm Transformer decoder."""

    type: Literal["transformer"]
    blocks: Positive
    """Number of blocks."""
    width: Positive
    """Width of the residual stream."""
    heads: Positive = 4
    """Attention heads."""
    positions: Literal["learned", "rotary", "none"] = "learned"
    """How positions enter."""
    max_length: Length = 256
    """Number of learned positions."""
    mlp_ratio: Positive = 4
    """Hidden width of the MLP over `width`."""

    @model_validator(mode="after")
    def _heads_divide_width(self) -> TransformerArchitecture:
        if self.width % self.heads:
            raise wrong("width", f"{self.width} — a multiple of the {self.heads} heads would be right")
        if self.positions == "rotary" and self.width // self.heads % 2:
            raise wrong("width", f"{self.width // self.heads} a head — rotary positions need an even number")
        return self


def _check_inner(inner: float, unit: int) -> None:
    if inner < 1 or inner % unit:
        right = "a whole number" if unit == 1 else f"a multiple of the head width {unit}"
        raise wrong("expand", f"an inner width of {inner:g} — {right} would be right")


class MambaArchitecture(Strict):
    """Selective state-space model (Mamba)."""

    type: Literal["mamba"]
    blocks: Positive
    """Number of blocks."""
    width: Positive
    """Width of the residual stream."""
    expand: Rate = 2.0
    """Inner width over `width`."""
    state_size: Positive = 16
    """State dimensions a channel."""
    conv_kernel: Positive = 4
    """Taps of the causal convolution."""
    conv1d: bool = True
    """Whether blocks have their causal convolution."""

    @model_validator(mode="after")
    def _inner_width_is_whole(self) -> MambaArchitecture:
        _check_inner(self.width * self.expand, 1)
        return self


class Mamba2Architecture(Strict):
    """State-space duality model (Mamba-2)."""

    type: Literal["mamba2"]
    blocks: Positive
    """Number of blocks."""
    width: Positive
    """Width of the residual stream."""
    expand: Rate = 2.0
    """Inner width over `width`."""
    headdim: Positive = 32
    """Width of a head (the name of mamba_ssm)."""
    state_size: Positive = 64
    """State dimensions a head."""
    conv_kernel: Positive = 4
    """Taps of the causal convolution."""
    conv1d: bool = True
    """Whether blocks have their causal convolution."""
    signed: bool = False
    """Whether state transitions lie in [-1, 1] instead of [0, 1] (Grazzi et al. 2025)."""

    @model_validator(mode="after")
    def _heads_divide_inner_width(self) -> Mamba2Architecture:
        _check_inner(self.width * self.expand, self.headdim)
        return self


class LstmArchitecture(Strict):
    """Stacked LSTM blocks on a residual stream."""

    type: Literal["lstm"]
    blocks: Positive
    """Number of blocks."""
    width: Positive
    """Width of the residual stream."""
    hidden: Positive
    """Hidden units of a block's LSTM."""


class GruArchitecture(Strict):
    """Stacked GRU blocks on a residual stream."""

    type: Literal["gru"]
    blocks: Positive
    """Number of blocks."""
    width: Positive
    """Width of the residual stream."""
    hidden: Positive
    """Hidden units of a block's GRU."""


Architecture = Annotated[
    TransformerArchitecture | MambaArchitecture | Mamba2Architecture | LstmArchitecture | GruArchitecture,
    Field(discriminator="type"),
]


class Model(Described):
    """What every model spec has, whatever its adapter."""

    kind: Literal["model"]
    family: Line | None = None
    """The architecture family under which pages group and colour it; the architecture's type if left out."""
    suite: Reference | None = None
    """The suite that the model is meant for, so that its file can be run by itself: a name, or a path to its YAML."""


class ReferenceModel(Model):
    """A model of the reference zoo."""

    adapter: Literal["reference"]
    architecture: Architecture
    """The architecture and its sizes."""
    training: ModelTraining
    """The training recipe."""


class ModuleSites(Strict):
    """Where the residual stream is in a module: names of submodules, `*` standing for an index."""

    embed: Reference
    """The submodule whose output enters the first block."""
    blocks: Reference | References
    """A pattern such as `layers.*`, or the list of patterns or submodules in order."""
    output: int | Line | None = None
    """Which element (index) or attribute (name) of a block's output is the residual stream, if it returns several."""


class ComponentRule(Strict):
    """How a component of a module is ablated."""

    pattern: Reference | References
    """The submodules, `*` standing for an index, or a list of them."""
    output: int | Line | None = None
    """Which element (index) or attribute (name) of what they return is replaced, if they return several."""
    modes: Annotated[list[Literal["zero", "bypass"]], Field(min_length=1)] = Field(default_factory=lambda: ["zero"])
    """`zero`: its output becomes zeros; `bypass`: its input passes unchanged."""


class TorchModuleModel(Model):
    """A user's own `torch.nn.Module`."""

    adapter: Literal["torch_module"]
    module: Reference
    """`my_model.py:build` (beside the YAML) or `package.module:build`; called as build(vocab_size, classes)."""
    sites: ModuleSites
    """Where its residual stream is."""
    components: dict[Name, Reference | ComponentRule] = Field(default_factory=dict[str, Reference | ComponentRule])
    """Parts that can be ablated: a pattern (ablated to zero) or a rule."""
    training: ModelTraining
    """The training recipe."""


class Checkpoint(Strict):
    """Where pretrained weights are, as safetensors."""

    repo: Annotated[str, StringConstraints(pattern=r"^[\w.-]{1,96}(/[\w.-]{1,96})?$")] | None = None
    """A model on the Hugging Face Hub: owner/name."""
    revision: Annotated[str, StringConstraints(pattern=r"^[\w./-]{1,200}$")] | None = None
    """Its commit, or a tag or branch; only a commit never moves."""
    folder: Reference | None = None
    """Or a folder (beside the YAML) that `save_pretrained` wrote."""

    @model_validator(mode="after")
    def _one_place(self) -> Checkpoint:
        if (self.repo is None) == (self.folder is None):
            raise wrong("repo", "either `repo` and `revision`, or `folder`, would be right")
        if self.repo is not None and self.revision is None:
            raise wrong(
                "repo", f"`{self.repo}` without a `revision` — its commit would be right, so that it can't move"
            )
        if self.folder is not None and self.revision is not None:
            raise wrong("revision", "a folder has none — leave it out")
        return self


class PretrainedSites(Strict):
    """Where the residual stream of a pretrained model is, if that can't be found by itself."""

    blocks: Reference | References | None = None
    """A pattern such as `layers.*`, or the list of submodules in order."""
    norm: Reference | None = None
    """The submodule between the last block and the head."""


Symbols = Annotated[
    list[Annotated[str, StringConstraints(min_length=1, max_length=100)] | Annotated[int, Field(ge=0, lt=2**31)]],
    Field(min_length=2),
    AfterValidator(without_repeats),
]


class HuggingFaceModel(Model):
    """A causal language model that transformers builds, fine-tuned with a fresh linear head for each task."""

    adapter: Literal["huggingface"]
    checkpoint: Checkpoint
    """Its weights."""
    backend: Literal["transformers", "matched"] = "transformers"
    """Whose code computes: that of transformers, or (Mamba and Mamba-2) that of the reference zoo."""
    symbols: Annotated[dict[Name, Symbols], Field(min_length=1)]
    """Task name, or family, to the tokens (texts or numbers) that stand for its symbols, in its vocabulary's order."""
    sites: PretrainedSites = Field(default_factory=PretrainedSites)
    """Blocks and final norm, where they can't be found."""
    components: dict[Name, Reference | ComponentRule] = Field(default_factory=dict[str, Reference | ComponentRule])
    """Parts that can be ablated besides those that are found: a pattern (ablated to zero) or a rule."""
    training: ModelFineTuning
    """The recipe for fine-tuning."""


class MambaSsmModel(Model):
    """A Mamba or Mamba-2 computed by mamba_ssm's CUDA kernels."""

    adapter: Literal["mamba_ssm"]
    architecture: Annotated[MambaArchitecture | Mamba2Architecture, Field(discriminator="type")] | None = None
    """The architecture and its sizes, to be trained from the start."""
    checkpoint: Checkpoint | None = None
    """Or the weights of a `MambaLMHeadModel`, as safetensors."""
    symbols: dict[Name, Symbols] = Field(default_factory=dict[str, Symbols])
    """With a checkpoint: task name, or family, to the tokens that stand for its symbols."""
    training: ModelFineTuning
    """The recipe."""

    @model_validator(mode="after")
    def _one_source(self) -> MambaSsmModel:
        if (self.architecture is None) == (self.checkpoint is None):
            raise wrong("architecture", "either `architecture` or `checkpoint` would be right")
        if self.architecture is not None and not self.architecture.conv1d:
            raise wrong("architecture", "`conv1d: false` — mamba_ssm always has it; use `adapter: reference`")
        if isinstance(self.architecture, Mamba2Architecture) and self.architecture.signed:
            raise wrong("architecture", "`signed: true` — mamba_ssm has no such; `adapter: reference` would be right")
        if self.checkpoint is None and self.symbols:
            raise wrong("symbols", "given without a checkpoint — leave them out")
        return self


def symbols_for(model: HuggingFaceModel | MambaSsmModel, task: TaskSpec) -> list[str | int] | None:
    """The tokens that stand for a task's symbols, given for its name or else for its family; None if there are none."""
    return model.symbols.get(task.name, model.symbols.get(task.family))


AnyModel = ReferenceModel | TorchModuleModel | HuggingFaceModel | MambaSsmModel
"""Every kind of model spec, by its adapter."""
ModelSpec = Annotated[AnyModel, Field(discriminator="adapter")]


Words = Annotated[list[Line], Field(min_length=1), AfterValidator(without_repeats)]


class MetricSpec(Strict):
    """How a metric is shown, where its numbers stand and what they may be."""

    title: Line
    """A short title."""
    unit: Line
    """`share`, `pp`, `sites`, `skill` …"""
    direction: Literal["higher", "lower", "none"]
    """Which way is better, if any."""
    at: Annotated[list[Name], AfterValidator(without_repeats)] | None = None
    """The coordinates of each of its numbers, of those that the protocol declares; not checked if left out."""
    sometimes: Annotated[list[Name], AfterValidator(without_repeats)] = Field(default_factory=list[str])
    """Coordinates that some of its numbers have beside these."""
    value: Literal["number", "word", "site"] | Words | None = None
    """What it may be: `number`, `word`, `site`, or the list of its words; its unit says so if left out."""
    description: Text | None = None
    """What it says, and what it does not."""


class ProtocolSpec(Described):
    """A declared way to measure a trained cell."""

    kind: Literal["protocol"]
    measures: Reference
    """The measuring code: a built-in or installed protocol, or `path/to/file.py`."""
    params: dict[str, Any] = Field(default_factory=dict[str, Any])
    """Its parameters, checked by the protocol."""
    coordinates: dict[Name, Literal["site", "length", "variable", "number", "word"] | Words] = Field(
        default_factory=dict[str, Literal["site", "length", "variable", "number", "word"] | Words]
    )
    """What the coordinates of its metrics may be: `site`, `length`, `variable`, `number`, `word` or a list."""
    metrics: Annotated[dict[Name, MetricSpec], Field(min_length=1)]
    """The metrics it yields."""


class Gate(Strict):
    """What a cell must do before its mechanism is worth reading."""

    metric: Line = "behaviour.accuracy"
    """The metric, as protocol.metric."""
    at_length: Literal["train"] | Length = "train"
    """The length at which it is read."""
    at_least: Fraction = 0.95
    """The smallest value that passes."""


class SuiteOverride(Strict):
    """What this suite changes in the specs it names, merged key by key; `*` stands for all."""

    tasks: dict[str, dict[str, Any]] = Field(default_factory=dict[str, dict[str, Any]])
    """By task name."""
    models: dict[str, dict[str, Any]] = Field(default_factory=dict[str, dict[str, Any]])
    """By model name."""
    protocols: dict[str, dict[str, Any]] = Field(default_factory=dict[str, dict[str, Any]])
    """By protocol name."""


class SuiteSpec(Described):
    """Models × tasks × seeds × protocols."""

    kind: Literal["suite"]
    models: References
    """Names of models, or paths to their YAML."""
    tasks: References
    """Names of tasks, or paths to their YAML."""
    seeds: Annotated[list[Seed], Field(min_length=1), AfterValidator(without_repeats)]
    """Seeds of initial weights and data order."""
    protocols: References
    """Names of protocols, or paths to their YAML."""
    gate: Gate = Field(default_factory=Gate)
    """Cells below it are measured, and marked."""
    headline: Line = "behaviour.ood_skill"
    """The metric that ranks models."""
    override: SuiteOverride = Field(default_factory=SuiteOverride)
    """Changes to the specs it names."""


Spec = TaskSpec | AnyModel | ProtocolSpec | SuiteSpec | ClaimsSpec
