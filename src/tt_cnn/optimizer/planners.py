# SPDX-License-Identifier: Apache-2.0
"""Actors of Ray that plan what a search expects to ask for, while it is still at what comes before.

The search decides everything, one candidate after the other; only plans are made elsewhere, and a plan depends on the
assignment alone. What no actor has, or one had that died, is planned by the search itself, as without Ray.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tt_cnn.builder.overrides import Assignment
from tt_cnn.distributed.cluster import CARD, Cluster
from tt_cnn.distributed.driver import Driver
from tt_cnn.distributed.extra import require
from tt_cnn.optimizer.planning_actor import PlannedTask, PlanningActor
from tt_cnn.optimizer.prediction import NetworkForm, Prediction, Refusal

ASKED_OF_EACH = 2
"""Plans that an actor has before it: one that it is at, and one so that it need not wait for the search."""
_PROBE = Assignment()
"""The first that an actor plans in each form: it shows that the actor is ready, and plans as the search does."""

Planned = Prediction | Refusal


@dataclass
class _Actor:
    handle: Any
    asked: int = 0
    ready: set[NetworkForm] = field(default_factory=set)


@dataclass(frozen=True)
class _Question:
    actor: _Actor
    form: NetworkForm
    assignment: Assignment


class Planners:
    """A pool of actors. What one of them says is taken where its first plan equals the search's own."""

    def __init__(self, handles: Iterable[Any], lost: Callable[[str], None] = lambda why: None) -> None:
        self.taken = 0
        """Plans that the search did not have to make."""
        self._ray, self._errors = (require(name, "planning on several cores") for name in ("ray", "ray.exceptions"))
        self._actors = [_Actor(handle) for handle in handles]
        self._lost = lost
        self._questions: dict[Any, _Question] = {}
        """By the references of their answers."""
        self._asked: set[tuple[NetworkForm, Assignment]] = set()
        self._answers: dict[tuple[NetworkForm, Assignment], Planned] = {}
        self._own: dict[NetworkForm, Callable[[], Planned]] = {}
        """How the search's process plans the probe."""
        self._form: NetworkForm | None = None
        self._expected: Iterator[Assignment] = iter(())

    @property
    def alive(self) -> int:
        return len(self._actors)

    def wait_until_started(self) -> None:
        """A search need not: it plans by itself until they are there."""
        self._ray.get([actor.handle.__ray_ready__.remote() for actor in self._actors])

    def join(self, form: NetworkForm, own: Callable[[], Planned]) -> None:
        """Every actor opens the model in this form, and is used from when it has."""
        self._own[form] = own
        for actor in self._actors:
            self._send(_Question(actor, form, _PROBE))

    def expect(self, form: NetworkForm, assignments: Iterable[Assignment]) -> None:
        """What will be asked for next, as far as it is known; it replaces what was expected before."""
        self._form, self._expected = form, iter(assignments)
        self._collect(wait=False)
        self._ask()

    def planned(self, form: NetworkForm, assignment: Assignment) -> Planned | None:
        """What an actor says of it, or None where none was asked."""
        self._collect(wait=False)
        self._ask()
        while self._questions and (form, assignment) in self._asked:
            self._collect(wait=True)
            self._ask()
        answer = self._answers.pop((form, assignment), None)
        self.taken += answer is not None
        return answer

    def _ask(self) -> None:
        """Fill the actors up with what is expected."""
        form = self._form
        while form is not None:
            free = [actor for actor in self._actors if form in actor.ready and actor.asked < ASKED_OF_EACH]
            if not free:
                return
            assignment = next(self._expected, None)
            if assignment is None:
                return
            key = (form, assignment)
            if key not in self._asked and key not in self._answers:
                self._asked.add(key)
                self._send(_Question(min(free, key=lambda actor: actor.asked), form, assignment))

    def _send(self, question: _Question) -> None:
        question.actor.asked += 1
        self._questions[question.actor.handle.predict.remote(question.form, question.assignment)] = question

    def _collect(self, wait: bool) -> None:
        """Take what has been answered; `wait` for one answer at least."""
        if not self._questions:
            return
        references = list(self._questions)
        done, _ = self._ray.wait(references, num_returns=1 if wait else len(references), timeout=None if wait else 0)
        for reference in done:
            question = self._questions.pop(reference, None)
            if question is None:  # of an actor that was given up meanwhile
                continue
            question.actor.asked -= 1
            self._asked.discard((question.form, question.assignment))
            try:
                answer: Planned = self._ray.get(reference)
            except self._errors.RayError as error:
                self._give_up(question.actor, str(error).strip().splitlines()[-1])
                continue
            if question.assignment != _PROBE:
                self._answers[question.form, question.assignment] = answer
            elif answer == (own := self._own[question.form]()):
                question.actor.ready.add(question.form)
            else:
                self._give_up(question.actor, f"it plans {answer}, and this process {own}; is its version another?")

    def _give_up(self, actor: _Actor, why: str) -> None:
        self._actors.remove(actor)
        for reference, question in list(self._questions.items()):
            if question.actor is actor:
                del self._questions[reference]
                self._asked.discard((question.form, question.assignment))
        self._lost(why)


@contextmanager
def planners(
    cluster: Cluster,
    task: PlannedTask,
    *,
    actors: int | None = None,
    threads: int = 1,
    lost: Callable[[str], None] = lambda why: None,
) -> Iterator[Planners]:
    """A pool on the cluster, as large as its cards and cores allow, or of `actors`. It ends with the context."""
    ray = require("ray", "planning on several cores")
    made = ray.remote(PlanningActor).options(
        num_cpus=threads,
        resources={CARD: 1},
        runtime_env={"env_vars": {"TT_CNN_RUNTIME": "virtual"}},  # plans need no card, whatever the node has
    )
    handles = [made.remote(task, Driver.here(), threads) for _ in range(cluster.actors(actors, threads))]
    try:
        yield Planners(handles, lost)
    finally:
        for handle in handles:
            ray.kill(handle)
