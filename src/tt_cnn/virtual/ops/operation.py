# SPDX-License-Identifier: Apache-2.0
"""An op: its arguments, its plan and its numbers, side by side. The rest of the card knows only what is said here.

@op("relu")
class Relu(Operation):
    def arguments(self, input_tensor, *, memory_config=None):      # TT-NN's names and order
        return Call([input_tensor], memory_config=memory_config)   # the tensors, and hashable attributes

    def plan(self, planner, x, memory_config):                     # slots in, slots out; no tensors, no torch
        ...
        return [output]

    def numbers(self, context, x, memory_config):                  # padded torch values in and out, one chip
        return [context.store(x.relu())]
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import torch

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.arguments.call_script import described
from tt_cnn.virtual.arguments.faults import internal_error, is_fault
from tt_cnn.virtual.arguments.typed import takes, type_name
from tt_cnn.virtual.devices.advice import explain
from tt_cnn.virtual.devices.device import MeshDevice, device_of
from tt_cnn.virtual.devices.repeats import Repeat
from tt_cnn.virtual.engines import Engine
from tt_cnn.virtual.errors.card_error import CardError, DoesNotFit, HazardError, current_layer, fatal
from tt_cnn.virtual.errors.failures import Failure
from tt_cnn.virtual.memory.shard_grid import check_shard_grid
from tt_cnn.virtual.numerics.formats import to_integer
from tt_cnn.virtual.ops.aliases import by_one_name, current_spelling
from tt_cnn.virtual.planning.alternatives import Alternative, CallSite
from tt_cnn.virtual.planning.placement import Place, Placement, as_if_it_fit
from tt_cnn.virtual.planning.plan import Allocate, FreeMemory, Plan, Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.queues.accesses import CallAccesses
from tt_cnn.virtual.queues.queue import Command, current_queue, title
from tt_cnn.virtual.tensors.conversion import as_stored, pad_to, unpad
from tt_cnn.virtual.tensors.storage import zeros
from tt_cnn.virtual.tensors.tensor import OPERATORS, Tensor
from tt_cnn.virtual.threads.calls import followers, report_call
from tt_cnn.virtual.types.enums import Arch, BufferType
from tt_cnn.virtual.types.geometry import CoreRangeSet
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_Program = TypeVar("_Program", bound=Program)

NOT_CACHED = (
    "Cannot load new binaries during trace capture.This program is not yet in program cache. Warm up before capturing "
    "a trace.See the operation's hash signature for arguments that must match."
)


class Call:
    """The tensors of a call, in the order of the plan's slots, and its other arguments as hashable attributes.

    Plain names are enough for attributes; lists are made tuples. `queue` is the command queue, `device` is needed
    only for calls without tensors.
    """

    def __init__(
        self,
        tensors: Sequence[Tensor],
        *,
        queue: int | None = None,
        device: MeshDevice | None = None,
        **attributes: Any,
    ) -> None:
        self.tensors = list(tensors)
        self.queue = current_queue.get() if queue is None else queue
        self.device = device
        self.attributes = attributes
        for name, value in attributes.items():
            if type(value) in (list, tuple, MemoryConfig):
                attributes[name] = _hashable(value)
        self.given: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
        """What the user wrote, for errors."""


def _hashable(value: Any) -> Any:
    if type(value) in (list, tuple):
        return tuple(_hashable(v) for v in value)
    return value.sealed() if type(value) is MemoryConfig else value


def _refuse_tensors(value: Any) -> None:
    """Plans are cached by their attributes: a tensor among them would be kept alive."""
    if isinstance(value, tuple):
        for one in value:
            _refuse_tensors(one)
    elif isinstance(value, (Tensor, torch.Tensor)):
        raise TypeError(f"incompatible function arguments: a {type_name(value)} was given where a value is expected")


@dataclass(frozen=True)
class Context:
    """What `numbers` may know beside the values: specs of inputs and outputs, planned steps, engine, kind of card."""

    engine: Engine
    arch: Arch
    inputs: tuple[Spec, ...]
    outputs: tuple[Spec, ...]
    steps: tuple[Step, ...] = ()

    @property
    def exact(self) -> bool:
        return self.engine.numerics == "exact"

    def program(self, kind: type[_Program]) -> _Program:
        """The first planned program of a kind: what it decided is not decided again."""
        return next(step.program for step in self.steps if isinstance(step.program, kind))

    def logical(self, value: torch.Tensor, i: int = 0) -> torch.Tensor:
        """Input i without its padding."""
        return unpad(value, self.inputs[i].shape)

    def store(self, value: torch.Tensor, i: int = 0, fill: float = 0.0) -> torch.Tensor:
        """A result as output i holds it: padded (with `fill` where it is logical) and packed to its dtype."""
        spec = self.outputs[i]
        if value.is_floating_point() is not spec.dtype.is_float:  # integers asked for as floats, or the other way
            value = value.to(torch.float32) if spec.dtype.is_float else to_integer(value, spec.dtype)
        fill = as_stored(fill, spec.dtype) if fill else fill
        return self.engine.pack(pad_to(value, spec.padded_shape, fill), spec.dtype)


class Operation:
    """What every op says about itself. Subclasses define `arguments`, `plan` and `numbers`."""

    name: str = ""
    """The TT-NN name without `ttnn.`, for example `experimental.convert_to_hwc`."""

    freed: ClassVar[str] = "Tensor is not allocated"

    single = True
    """The call returns one tensor, not a list of them."""

    host_order: ClassVar[bool] = False
    """The real kernel's order of additions is not followed: the host's functions decide the last bits."""

    runner: ClassVar[Callable[[Operation, Call], Any] | None] = None
    """Runs calls in place of `run` where it is set (comparison mode)."""

    arguments: Callable[..., Call]
    plan: Callable[..., Sequence[Slot]]
    numbers: Callable[..., Sequence[torch.Tensor]]

    def results(self, outputs: list[Tensor], call: Call) -> Any:
        """What the user gets."""
        return outputs[0] if self.single else outputs

    def describe(self, call: Call) -> str:
        """The call in a few words, for errors."""
        shapes = ", ".join("x".join(map(str, t.shape)) for t in call.tensors)
        return f"ttnn.{self.name}({shapes})"

    def freed_input(self, call: Call, i: int) -> str:
        """What TT-NN says where its input i was given back; most ops of its end the process there."""
        return self.freed

    def alternatives(self, site: CallSite) -> Iterator[Alternative]:
        """Other forms of the call, the mildest first. All advice is made of them."""
        config = site.attributes.get("memory_config", DRAM_MEMORY_CONFIG)
        if config is None or config.is_l1():
            to_dram = {"memory_config": DRAM_MEMORY_CONFIG}
            yield Alternative("memory_config", "memory_config=ttnn.DRAM_MEMORY_CONFIG", to_dram, to_dram)

    def shortcut(self, call: Call) -> Any:
        """A result that needs no command (the same tensor back, host tensors), or None."""
        return None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not followers():
            return self._bind_and_run(args, kwargs)
        return report_call(f"ttnn.{self.name}", self._bind_and_run, args, kwargs)

    def _bind_and_run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            call = self.bind(args, kwargs)
            call.given = args, kwargs
            result = self.shortcut(call)
            if result is not None:
                return _another(result, call.tensors)
            return self.run(call) if Operation.runner is None else Operation.runner(self, call)
        except Exception as error:
            if is_fault(error):
                raise internal_error(f"ttnn.{self.name}", args, kwargs, error) from error
            raise

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        """The call's arguments by TT-NN's signature; a wrong name, number or type of them is TT-NN's TypeError."""
        kwargs = by_one_name(self.name, current_spelling(self.name, kwargs))
        if not takes(type(self).arguments, (self, *args), kwargs):
            raise TypeError(_signature_message(self, args, kwargs))
        for value in kwargs.values():
            if isinstance(value, (MemoryConfig, CoreRangeSet)):
                _check_grid(value)
        call = self.arguments(*args, **kwargs)
        if not all(isinstance(tensor, Tensor) for tensor in call.tensors):
            raise TypeError(_signature_message(self, args, kwargs))
        return call

    def run(self, call: Call) -> Any:
        device = self._device(call)
        with device.lock:
            queue = device.queue(call.queue).index
            buffers = [tensor.buffer(self.name, self.freed_input(call, i)) for i, tensor in enumerate(call.tensors)]
            if any(buffer.device is not device for buffer in buffers):
                raise CardError(f"ttnn.{self.name} was given tensors of different devices.")
            repeat = None if device.watched else self._repeat(device, call, queue, buffers)
            if repeat is not None:
                device.enqueue(repeat.command)
                for cell in repeat.command.writes:
                    cell.will_be_written()
                return self.results([call.tensors[slot.id] for slot in repeat.plan.outputs], call)
            numbering = _number(buffers)
            plan = make_plan(device, self, [t.spec for t in call.tensors], numbering, call.attributes)
            inputs = tuple([(buffer.place, buffer.made_by) for buffer in buffers])
            ground = device.placement_key(plan, inputs)
            known = device.placements.get(ground)
            cached = known is not None or device.programs_cached(plan)
            if device.capturing is not None and device.capturing.queue == queue:
                fatal(
                    cached,
                    NOT_CACHED,
                    f"  call ttnn.{self.name} once with these arguments before ttnn.begin_trace_capture",
                )
            captured = device.captures(queue)
            if not captured:  # what a trace reads may be written until it is replayed
                self._check_readable(call, plan, buffers)

            def admit(placement: Placement) -> None:
                if known is None:
                    placement.accesses = CallAccesses(plan, placement, inputs, self.name)
                if plan.steps and not captured:
                    what = title(f"ttnn.{self.name}", current_layer(), queue)
                    device.hazards.admit(queue, what, placement.accesses)

            if known is not None:
                placement = device.place_again(known, admit)
            else:
                placement = self._place(device, call, numbering, plan, inputs, admit)
                if ground is not None and not device.misfits and all(placed.cached for placed in placement.steps):
                    device.placements.put(ground, plan, placement)
            for slot in plan.consumed:  # an output may lie in the same place
                call.tensors[slot.id].consumed_by(self.name)
            outputs = self._outputs(device, call, plan, placement.places, buffers, captured)
            command = self._enqueue(device, queue, call, plan, outputs, buffers, cached, placement)
            if command is not None:
                key = self._key(call, queue, buffers)
                device.repeats.keep(key, call.tensors, device.memory, command, plan)
        results = self.results(outputs, call)
        return results if plan.steps else _another(results, call.tensors)

    def repeat_of(self, call: Call) -> Repeat | None:
        """The command that an earlier call has left for this one, where it is still right."""
        buffers = [tensor.buffer(self.name, self.freed_input(call, i)) for i, tensor in enumerate(call.tensors)]
        return self._repeat(self._device(call), call, call.queue, buffers)

    def _repeat(self, device: MeshDevice, call: Call, queue: int, buffers: list[Any]) -> Repeat | None:
        key = self._key(call, queue, buffers)
        return device.repeats.find(key, call.tensors, device.memory, device.programs_cached)

    def _key(self, call: Call, queue: int, buffers: list[Any]) -> Hashable:
        return self.name, queue, tuple([buffer.serial for buffer in buffers]), tuple(call.attributes.items())

    def _device(self, call: Call) -> MeshDevice:
        if call.tensors:
            return device_of(call.tensors[0], self.name, self.freed_input(call, 0))
        fatal(call.device is not None, f"ttnn.{self.name} needs a device")
        assert call.device is not None
        call.device.check_open()
        return call.device

    def _place(
        self,
        device: MeshDevice,
        call: Call,
        numbering: list[int],
        plan: Plan,
        given: Sequence[tuple[Place, str]],
        admit: Callable[[Placement], None],
    ) -> Placement:
        inputs = {n: place for n, (place, _) in zip(numbering, given, strict=True)}
        for action in plan.actions:
            if isinstance(action, Allocate):
                check_shard_grid(device.card, action.slot.spec)
        try:
            return device.place(plan, inputs, admit)
        except HazardError:
            raise
        except CardError as error:
            for listener in device.refusal_listeners:
                listener(f"ttnn.{self.name}", plan, error.reached)
            error.reached = None
            card, specs, attributes = device.card, [t.spec for t in call.tensors], call.attributes

            def plan_of(changes: Mapping[str, Any], given: Mapping[int, Spec], memory: FreeMemory) -> Plan:
                wanted = [given.get(number, spec) for number, spec in enumerate(specs)]
                return plan_call(card, self, wanted, numbering, {**attributes, **changes}, memory)

            site = CallSite(card, specs, attributes)
            explain(error, device, self.describe(call), plan_of, inputs, lambda: self.alternatives(site))
            if device.misfits is None or not isinstance(error, DoesNotFit):
                raise
            device.misfits.append(error.with_traceback(None))  # which holds tensors
            return as_if_it_fit(plan, device.memory, inputs)

    def _check_readable(self, call: Call, plan: Plan, buffers: list[Any]) -> None:
        if not plan.steps:
            return  # a view
        for tensor, slot, buffer in zip(call.tensors, plan.inputs, buffers, strict=True):
            if not buffer.written and slot.buffer not in plan.only_written:
                buffer.check_readable(f"ttnn.{self.name}", f"a tensor of shape {tensor.shape}")

    def _outputs(
        self,
        device: MeshDevice,
        call: Call,
        plan: Plan,
        places: dict[int, Place],
        buffers: list[Any],
        captured: bool,
    ) -> list[Tensor]:
        """Tensors on new buffers; on an input's buffer where the plan returns a view of it or writes in place."""
        by_number = {slot.buffer: buffer for slot, buffer in zip(plan.inputs, buffers, strict=True)}
        outputs = []
        for slot in plan.outputs:
            if slot.id < len(call.tensors):
                outputs.append(call.tensors[slot.id])
                continue
            if slot.buffer not in by_number:
                by_number[slot.buffer] = device.adopt(places[slot.buffer], slot.spec, self.name, captured)
            outputs.append(Tensor.on_device(slot.spec, by_number[slot.buffer]))
        return outputs

    def _enqueue(
        self,
        device: MeshDevice,
        queue: int,
        call: Call,
        plan: Plan,
        outputs: list[Tensor],
        buffers: list[Any],
        cached: bool,
        placement: Placement,
    ) -> Command | None:
        if not plan.steps:
            return None  # a view: nothing is dispatched
        written = [t._buffer for t in outputs if t._buffer is not None]
        job = self._job(device, call, plan, [t.spec for t in outputs], buffers, [b.cell for b in written])
        command = Command(
            f"ttnn.{self.name}",
            queue,
            self._reporting(call, job),
            placement.accesses,
            reads=[buffer.cell for buffer in buffers],
            writes=[buffer.cell for buffer in written],
            attributes=call.attributes,
            plan=plan,
            steps=placement.steps,
            places=placement.places,
            cached=cached,
        )
        device.enqueue(command)
        for buffer in written:
            buffer.will_be_written(queue)
        return command

    def _job(
        self, device: MeshDevice, call: Call, plan: Plan, specs: list[Spec], buffers: list[Any], targets: list[Any]
    ) -> Callable[[], None]:
        """What the queue's worker runs. It holds cells, not tensors, so that tensors can go away meanwhile."""
        sources = [
            (buffer.cell, slot.spec, slot.buffer in plan.only_written)
            for buffer, slot in zip(buffers, plan.inputs, strict=True)
        ]
        engine, chips, arch, attributes = device.engine, device.chips, device.card.arch, call.attributes
        given = tuple([tensor.spec for tensor in call.tensors])
        context = Context(engine, arch, given, tuple(specs), tuple(plan.steps))

        def job() -> None:
            bound: Callable[..., Sequence[torch.Tensor]] = functools.partial(self.numbers, context, **attributes)
            if all(spec.shape.volume() == 0 for spec in specs):
                bound = functools.partial(self._nothing, specs, engine)
            elif self.host_order:
                bound = engine.in_host_order(bound)
            values = [cell.read(spec, chips, engine.device, ignored) for cell, spec, ignored in sources]
            results = [bound(*(v[chip] for v in values)) for chip in range(chips)]
            for i, (target, spec) in enumerate(zip(targets, specs, strict=True)):
                target.values = [self._check(result[i], spec) for result in results]

        return job

    def _reporting(self, call: Call, job: Callable[[], None]) -> Callable[[], None]:
        """The job; what breaks in it is reported as a fault of ours. It holds descriptions of tensors, not tensors."""
        args, kwargs = described(call.given[0]), {name: described(value) for name, value in call.given[1].items()}

        def report_fault() -> None:
            try:
                job()
            except Failure:  # of a command before it
                raise
            except Exception as error:
                if is_fault(error):
                    raise internal_error(f"ttnn.{self.name}", args, kwargs, error) from error
                raise

        return report_fault

    @staticmethod
    def _nothing(specs: list[Spec], engine: Engine, *_: torch.Tensor) -> list[torch.Tensor]:
        """Tensors without elements need no numbers."""
        return [zeros(spec, 1, engine.device)[0] for spec in specs]

    def _check(self, value: torch.Tensor, spec: Spec) -> torch.Tensor:
        if tuple(value.shape) != tuple(spec.padded_shape):
            raise AssertionError(
                f"the numbers of ttnn.{self.name} have shape {tuple(value.shape)}; its plan says {spec.padded_shape}"
            )
        return value


def _check_grid(value: MemoryConfig | CoreRangeSet) -> None:
    """The real library ends the process for many calls on no cores; some say this."""
    shard = value.shard_spec if isinstance(value, MemoryConfig) else None
    grid = value if isinstance(value, CoreRangeSet) else None if shard is None else shard.grid
    fatal(grid is None or grid.num_cores() > 0, "Core grid must contain at least one core")


def _number(buffers: list[Any]) -> list[int]:
    """Inputs that share memory get the same number: that of the first of them."""
    first: dict[int, int] = {}
    return [first.setdefault(id(buffer), i) for i, buffer in enumerate(buffers)]


def make_plan(
    device: MeshDevice, operation: Operation, specs: list[Spec], numbering: list[int], attributes: dict[str, Any]
) -> Plan:
    """The plan of a call, from the card's cache where the same specs and attributes were planned before."""
    request = (operation.name, tuple(specs), tuple(numbering), tuple(attributes.items()))
    gaps = device.memory.regions[BufferType.L1].gaps
    plan = device.plans.get(request, gaps)
    if plan is None:
        _refuse_tensors(tuple(attributes.values()))
        plan = plan_call(device.card, operation, specs, numbering, attributes, FreeMemory.of(device.memory))
        device.plans.put(request, gaps, plan)
    return plan


def plan_call(
    card: Card,
    operation: Operation,
    specs: Sequence[Spec],
    numbering: Sequence[int],
    attributes: Mapping[str, Any],
    memory: FreeMemory,
) -> Plan:
    """The plan of a call on any card and memory. That of a call which the card refuses ends in the refusal."""
    planner = Planner.for_specs(card, specs, numbering, memory)
    try:
        return planner.finish(operation.plan(planner, *planner.inputs, **attributes))
    except CardError as error:
        return planner.refused(CardError(error.message, error.advice))  # without a traceback, which holds tensors
    except ZeroDivisionError:
        if all(0 not in spec.shape for spec in specs):
            raise
        message = f"ttnn.{operation.name} divides by a size of a tensor without elements."
        return planner.refused(CardError(message, "  TT-NN ends the process for many such calls"))


def _another(result: Any, tensors: Sequence[Tensor]) -> Any:
    """Where there is nothing to do, TT-NN does not give the caller's own tensor back but another one in the same
    memory, which both then hold."""
    if isinstance(result, Tensor) and any(result is one for one in tensors) and result.is_allocated():
        return result.another()
    return result


def _signature_message(operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    short = operation.name.rsplit(".", 1)[-1]
    given = [type_name(a) for a in args] + [f"{k}={type_name(v)}" for k, v in kwargs.items()]
    parameters = list(inspect.signature(type(operation).arguments).parameters.values())[1:]
    signature = str(inspect.Signature(parameters)).replace("'", "")
    return (
        f"\nttnn.{operation.name}(): incompatible function arguments.\n\n"
        f"Called with:\n  {short}({', '.join(given)})\n\n"
        f"Available signatures:\n  {short}{signature}\n"
    )


OPERATIONS: dict[str, Operation] = {}
"""Every op of the virtual card by its TT-NN name."""

_Op = TypeVar("_Op", bound=type[Operation])


def op(*names: str) -> Callable[[_Op], _Op]:
    """Registers an op under its TT-NN name (and its other spellings)."""

    def register(cls: _Op) -> _Op:
        for name in names:
            if name in OPERATIONS:
                raise ValueError(
                    f"ttnn.{name} is registered twice: by {type(OPERATIONS[name]).__module__} and {cls.__module__}"
                )
            variant = type(cls.__name__, (cls,), {"name": name, "__doc__": cls.__doc__})()
            OPERATIONS[name] = variant
            OPERATORS.setdefault(name, variant)
        return cls

    return register


__all__ = ["OPERATIONS", "Call", "Context", "Operation", "make_plan", "op", "plan_call"]
