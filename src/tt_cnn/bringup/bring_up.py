# SPDX-License-Identifier: Apache-2.0
"""The stages of a bring-up, one function each, and all of them in their order."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast, get_args

import torch
from safetensors.torch import save
from torch import nn

from tt_cnn.bringup.accuracy import (
    HEADROOM,
    MIN_PCC,
    RUNGS,
    Accuracy,
    Arithmetic,
    Sample,
    arithmetic_settings,
    measure,
    sample_of,
)
from tt_cnn.bringup.codegen.config_file import config_code, settings_of, with_changes
from tt_cnn.bringup.codegen.files import (
    LAYERS_SEED,
    WHOLE_SEEDS,
    Facts,
    common_code,
    demo_code,
    entry_code,
    readme,
    reference_code,
    test_code,
)
from tt_cnn.bringup.codegen.model_file import ModelFile, model_class, model_file, takes_pictures
from tt_cnn.bringup.codegen.points import points_code, points_of, with_losses
from tt_cnn.bringup.comparison import Point, compare_points, losses
from tt_cnn.bringup.fitting import Fitted, fit_fastest
from tt_cnn.bringup.folder import GeneratedFolder
from tt_cnn.bringup.generated_entry import generated_entry
from tt_cnn.bringup.graph_copy import copy_graph
from tt_cnn.bringup.graph_page import graph_html, graph_svg
from tt_cnn.bringup.inputs import IMAGENET, Normalisation, examples
from tt_cnn.bringup.inventory import Inventory, inventory, issue_text
from tt_cnn.bringup.lowering import Program, lower
from tt_cnn.bringup.lowering.skips import drop_placements, place_skips, placements
from tt_cnn.bringup.model_card import model_card
from tt_cnn.bringup.outcomes import outcomes
from tt_cnn.bringup.source import ModelSource, Weights, check_inputs, give_weights
from tt_cnn.bringup.source_files import source_files
from tt_cnn.bringup.sources import Source
from tt_cnn.bringup.summary import summary
from tt_cnn.bringup.task_guess import guess_task
from tt_cnn.bringup.torch_graph import Shape, TorchGraph, export_graph
from tt_cnn.builder.overrides import Assignment, LayerSettings
from tt_cnn.models.registry import ModelEntry, Task, create_tt
from tt_cnn.models.running import opened_card
from tt_cnn.optimizer.findings import find_in_model
from tt_cnn.optimizer.judging import Judging
from tt_cnn.optimizer.prediction import Prediction, Refusal, planned_network
from tt_cnn.optimizer.result import OptimizationResult
from tt_cnn.optimizer.rounds import Watcher
from tt_cnn.optimizer.run import optimize
from tt_cnn.optimizer.steps.base import STEPS
from tt_cnn.reports.profile import profile_model
from tt_cnn.reports.profile_folder import write_folder
from tt_cnn.reports.records import Profile
from tt_cnn.testing.layer_report import LayerReport

L1_SMALL_SIZE = 32768
LEAST_SAVED = 0.005
"""Share of the time that moves of skips must save to be in the code, those that make room aside."""
CONFIG = "tt/config.py"
ORIGINAL = "reference/original/"
OPTIMIZER_STEPS = tuple(name for name in STEPS if name not in ("batch", "devices", "pipeline"))
"""Those that change settings of layers; how the model is run is chosen by whoever runs it."""


class DoesNotComeUp(ValueError):
    """The model was lowered, but no settings were found that the card takes."""


@dataclass
class BringUp:
    """One model on its way; a stage fills what the next ones read."""

    source: Source
    input_shape: Shape
    card: str = "n150"
    name: str = ""
    more_inputs: tuple[Shape, ...] = ()
    """Shapes of further inputs, in the order of forward's arguments."""
    normalisation: Normalisation = IMAGENET
    """Of images of three channels."""
    min_pcc: float = MIN_PCC
    """What every output must reach, or be little below PyTorch's own bfloat16."""
    model: nn.Module | None = None
    weights: Weights | None = None
    written: frozenset[str] | None = None
    """Layers that the settings of an existing folder name, where its code is to stay as it is."""
    task: str | None = None
    """As the user says; guessed where None."""
    licence: str = ""
    origin: str = ""
    """Where the model is from, as the user says."""
    graph: TorchGraph | None = None
    program: Program | None = None
    code: ModelFile | None = None
    ops: Inventory | None = None
    table: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Settings by layer: what `tt/config.py` says."""
    fitted: Fitted | None = None
    arithmetic: Arithmetic | None = None
    accuracy: Accuracy | None = None
    prediction: Prediction | None = None
    lost: dict[str, float] = field(default_factory=dict)
    """The PCC that each layer loses by itself, as the settings are."""
    sections: dict[str, str] = field(default_factory=dict)
    """Parts of the README that stages have written."""
    extra_files: dict[str, bytes] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = self.name or self.source.name

    @property
    def title(self) -> str:
        return type(self.model).__name__

    @property
    def inputs(self) -> list[torch.Tensor]:
        return self._examples(seed=0)

    def _examples(self, seed: int) -> list[torch.Tensor]:
        shapes = (self.input_shape, *self.more_inputs)
        return examples(shapes, seed, self.normalisation)

    def example(self, seed: int) -> Any:
        """A batch; a tuple where the model has several inputs."""
        made = self._examples(seed)
        return tuple(made) if self.more_inputs else made[0]

    @cached_property
    def samples(self) -> list[Sample]:
        """What accuracy is measured on; no setting is chosen by it but the arithmetic to begin with."""
        assert self.model is not None and self.program is not None
        outputs = self.program.graph.output_names
        return [sample_of(self.model, self.example(seed), outputs) for seed in WHOLE_SEEDS]

    # -- stages

    def load(self, weights: Path | None = None) -> None:
        """The model and its weights."""
        self.model = self.source.create()
        check_inputs(self.model, self.inputs)
        shapes = (self.input_shape, *self.more_inputs)
        self.weights = give_weights(self.model, weights, shapes, self.source.whose, self.normalisation)

    def export(self) -> TorchGraph:
        assert self.model is not None
        self.graph = export_graph(self.model, self.inputs)
        return self.graph

    def lower(self) -> Program:
        """Statements and settings; the exported graph stays as it is."""
        self.program = lower(copy_graph(self.graph or self.export()))
        self.table = {}
        self._write_code()
        return self.program

    def _write_code(self) -> None:
        """The program as code, and the table with what the lowering decided."""
        assert self.program is not None
        self.code = model_file(self.program, f"{self.title} on the card.")
        self.table = with_changes(settings_of(self.program, self.code.optional), self.table)

    @contextmanager
    def movable_skips(self) -> Iterator[None]:
        """Tensors that wait have placements for a while; those that then move nothing are taken out again.

        In the code of an existing folder there are those that it was written with.
        """
        assert self.program is not None
        place_skips(self.program)
        if self.written is not None:
            drop_placements(self.program, lambda name: name not in self.written)  # type: ignore[operator]
        self._write_code()
        try:
            yield
        finally:
            if self.written is None:
                idle = drop_placements(self.program, lambda name: not any(self.table.get(name, {}).values()))
                self.table = {name: own for name, own in self.table.items() if name not in idle}
            self._write_code()

    def describe(self) -> None:
        """The model's card, the summary of its ops and their inventory, as files and as parts of the README."""
        assert self.model is not None and self.graph is not None and self.program is not None
        card = model_card(
            self.model,
            self.inputs,
            self.graph,
            name=self.name,
            task=self.task,
            licence=self.licence,
            source=self.origin,
        )
        self.ops = ops = inventory(self.graph, self.program, title=self.title)
        became = outcomes(self.graph, self.program)
        files = {
            "docs/model_card.md": card.to_markdown(),
            "docs/model_card.json": json.dumps(card.to_dict(), indent=1),
            "docs/summary.md": summary(self.graph, title=self.title).to_markdown(),
            "docs/inventory.md": ops.to_markdown(),
            "docs/graph.svg": graph_svg(self.program.graph, title=self.title, outcomes=became),
            "docs/graph.html": graph_html(self.program.graph, title=self.title, outcomes=became),
        }
        for number, fallback in enumerate(ops.fallbacks, 1):
            files[f"docs/issues/{number}-{fallback.op}.md"] = issue_text(fallback)
        self.extra_files |= {name: text.encode() for name, text in files.items()}

    def fit(self) -> Fitted:
        """Settings that the card takes, with the cheapest arithmetic whose outputs are good enough with room to spare;
        where there is none, with the most accurate."""
        assert self.model is not None and self.program is not None
        refused: Fitted | None = None
        self.fitted = self.accuracy = None
        with self.movable_skips(), self.entry() as entry:
            for rung in RUNGS:
                fitted = self._fitted(entry, rung)
                if isinstance(fitted.prediction, Refusal):
                    refused = fitted  # another arithmetic may fit all the same
                    continue
                accuracy = measure(entry, self.model, self.samples, self.card, fitted.assignment, self.min_pcc)
                if self.accuracy is None or accuracy.headroom > self.accuracy.headroom:
                    self.fitted, self.arithmetic, self.accuracy = fitted, rung, accuracy
                    self.prediction = fitted.prediction
                if accuracy.headroom >= HEADROOM:
                    break
            if self.fitted is None:
                assert refused is not None
                raise DoesNotComeUp(_refused(refused))
            self.table = with_changes(self.table, self.fitted.assignment)
        return self.fitted

    def fit_in(self, arithmetic: Arithmetic) -> Fitted:
        """Settings that the card takes, in an arithmetic whose accuracy is known from another batch: nothing is run."""
        assert self.program is not None
        with self.movable_skips(), self.entry() as entry:
            self.fitted, self.arithmetic, self.accuracy = self._fitted(entry, arithmetic), arithmetic, None
            if isinstance(self.fitted.prediction, Refusal):
                raise DoesNotComeUp(_refused(self.fitted))
            self.prediction = self.fitted.prediction
            self.table = with_changes(self.table, self.fitted.assignment)
        return self.fitted

    def _fitted(self, entry: ModelEntry, rung: Arithmetic) -> Fitted:
        assert self.program is not None
        with planned_network(entry.name, self.card, batch_size=entry.batch_sizes[0], reference=self.model) as network:
            start = arithmetic_settings(rung, network.configurations, self.program.readers_of_images())
            return fit_fastest(network, self.program, start)

    def compare(self) -> tuple[LayerReport, dict[str, Point]]:
        """Every layer beside torch, in a run of the whole model: what each loses, its test allows."""
        assert self.model is not None and self.program is not None
        points = points_of(self.program)
        with self.entry() as entry, opened_card(entry, card=self.card, executor="plain") as device:
            model = create_tt(entry.name, device, self.model, batch_size=entry.batch_sizes[0])
            inputs = entry.example_input(batch_size=entry.batch_sizes[0], seed=LAYERS_SEED)
            report = compare_points(self.model, model, inputs, points)
        self.lost = losses(report, points)
        return report, points

    def optimize(self, seconds: float, watcher: Watcher | None = None) -> OptimizationResult:
        """The optimiser's settings, under its guard; what was found becomes the model's."""
        assert self.model is not None
        with self.movable_skips(), self.entry() as entry:
            judging = Judging(
                entry,
                self.card,
                entry.resolution,
                "tuned",
                entry.batch_sizes[0],
                self.min_pcc + HEADROOM * (1 - self.min_pcc),
                given=self.model,
            )
            with judging.guard(None) as guard:
                result = optimize(
                    entry.name,
                    card=self.card,
                    budget_seconds=seconds,
                    steps=OPTIMIZER_STEPS,
                    batch_size=entry.batch_sizes[0],
                    guard=guard,
                    watcher=watcher,
                    reference=self.model,
                )
            return self._taken(result) if result.verification.accurate else result

    def _taken(self, result: OptimizationResult) -> OptimizationResult:
        """The result's settings become the model's, unless outputs that were accurate enough no longer are."""
        assert self.model is not None and self.accuracy is not None
        before = self.table
        self.table = with_changes(self.table, result.after.assignment)
        prediction = self._settled_skips(result.after.prediction)
        with self.entry() as entry:
            accuracy = measure(entry, self.model, self.samples, self.card, Assignment(), self.min_pcc)
        if self.accuracy.passed and not accuracy.passed:
            self.table = before
            said = "its outputs are under the gate on other inputs"
            return replace(result, verification=replace(result.verification, accurate=False, said=said))
        self.accuracy, self.prediction = accuracy, prediction
        if self.lost:
            self.compare()
        return result

    def _settled_skips(self, prediction: Prediction) -> Prediction:
        """Without moves of skips that together save hardly anything: each is a line that somebody has to read."""
        assert self.program is not None
        moved = [name for name in placements(self.program) if any(self.table.get(name, {}).values())]
        if not moved or self.written is not None:
            return prediction
        stays: LayerSettings = {"memory_config": None, "reallocate": False}
        given_up, last = Assignment(), prediction
        with self.entry() as entry:
            batch = entry.batch_sizes[0]
            with planned_network(entry.name, self.card, batch_size=batch, reference=self.model) as network:
                for name in moved:
                    tried = given_up.with_all({name: stays})
                    found = network.predict(tried)
                    if not isinstance(found, Refusal) and found.device_ns <= (1 + LEAST_SAVED) * prediction.device_ns:
                        given_up, last = tried, found
        self.table = with_changes(self.table, given_up)
        return last

    def profile(self) -> Profile:
        """Predicted times of the whole model; its files go into the folder."""
        with self.entry() as entry:
            batch = entry.batch_sizes[0]
            executor = "plain" if self.facts.fallbacks else "trace+2cq"
            made = profile_model(entry.name, card=self.card, executor=executor, batch_size=batch)
            with planned_network(entry.name, self.card, batch_size=batch, reference=self.model) as network:
                made = find_in_model(network, made)
        with tempfile.TemporaryDirectory() as place:
            write_folder(made, Path(place))
            for file in sorted(Path(place).iterdir()):
                self.extra_files[f"profile/{file.name}"] = file.read_bytes()
        return made

    # -- files

    @property
    def facts(self) -> Facts:
        assert self.program is not None
        outputs = self.program.graph.output_names
        gates = self.accuracy.gates if self.accuracy is not None else dict.fromkeys(outputs, 0.99)
        return Facts(
            name=self.name,
            title=self.title,
            task=self._registry_task(),
            tt_class=model_class(self.program),
            card=self.card,
            input_shape=self.input_shape,
            more_inputs=self.more_inputs,
            images=self.normalisation if takes_pictures(self.program) else None,
            outputs=outputs,
            gates=gates,
            l1_small_size=L1_SMALL_SIZE,
            fallbacks=any(note.kind == "fallback" for note in self.program.notes),
        )

    def _registry_task(self) -> str:
        """One of those that the registry has; a model that is none of them is run and compared all the same."""
        assert self.program is not None
        guessed, _ = guess_task(
            [self.input_shape, *self.more_inputs], [cast(Shape, node.shape) for node in self.program.graph.outputs]
        )
        task = self.task or guessed
        return task if task in get_args(Task) else "detection"

    def code_files(self) -> dict[str, bytes]:
        """All that is Python."""
        assert self.program is not None and self.code is not None
        facts = self.facts
        own = self._own_files()
        texts = {
            "__init__.py": entry_code(facts),
            "reference/__init__.py": "",
            "reference/model.py": reference_code(self.source, _place_of(own)),
            "tt/__init__.py": "",
            "tt/common.py": common_code(facts),
            CONFIG: self.config_text(),
            "tt/model.py": self.code.code,
            "tests/__init__.py": "",
            "tests/points.py": points_code(with_losses(points_of(self.program), self.lost)),
            "tests/test_model.py": test_code(facts),
            "demo/__init__.py": "",
            "demo/demo.py": demo_code(facts),
        }
        return {name: text.encode() for name, text in texts.items()} | own

    def _own_files(self) -> dict[str, bytes]:
        """Copies of the user's files; in a folder of their own where one has the name of the generated file."""
        if not isinstance(self.source, ModelSource):
            return self.source.files()
        if self.source.file is None or self.source.root is None:
            return {}
        own = source_files(self.source.file, self.source.root)
        if "model.py" not in own:
            return {f"reference/{name}": content for name, content in own.items()}
        copies = {f"{ORIGINAL}{name}": content for name, content in own.items()}
        return {f"{ORIGINAL}__init__.py": b"", **copies}

    def config_text(self) -> str:
        return config_code(self.table, f"How every layer of {self.title} runs on {self.card}.")

    def all_files(self, figures: Mapping[str, Any]) -> dict[str, bytes]:
        assert self.model is not None
        state = {name: value.detach().clone().contiguous() for name, value in self.model.state_dict().items()}
        page = readme(self.facts, self.source, self.sections, figures)
        return {
            **self.code_files(),
            "reference/weights.safetensors": save(state),
            "README.md": page.encode(),
            **self.extra_files,
        }

    def write(self, folder: GeneratedFolder, figures: Mapping[str, Any], overwrite: bool = False) -> None:
        folder.write(self.all_files(figures), overwrite)

    @contextmanager
    def entry(self) -> Iterator[ModelEntry]:
        """The generated code, imported from a folder of its own and known to the registry for a while."""
        assert self.model is not None
        with generated_entry(self.facts, self.code_files(), self.model) as made:
            yield made

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.monotonic() - began


def _place_of(own: Mapping[str, bytes]) -> str:
    """The package of the copies beside `reference/model.py`; empty where there are none."""
    if not own:
        return ""
    return ".original." if any(name.startswith(ORIGINAL) for name in own) else "."


def _refused(fitted: Fitted) -> str:
    refusal = fitted.prediction
    assert isinstance(refusal, Refusal)
    done = "\n".join(f"  {each.layer}: {each.reason}" for each in fitted.misfits)
    tried = f"\n  misfits that were mended before:\n{done}" if done else ""
    return f"no settings were found that the card takes for {refusal.layer or 'the model'}: {refusal.reason}{tried}"
