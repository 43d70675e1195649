"""Who holds the cores of an instance, as neuron-ls lists it before and after the change of its JSON."""

from __future__ import annotations

import json
import os
from pathlib import Path

import neuroncore
import pytest
from neuron_runner import on_core

from harness.devices import neuron_ls
from harness.devices.neuron_ls import Holder

TRAINING = {"pid": 1 << 30, "command": "python train.py", "neuroncore_ids": [2, 3]}


def holding(*processes: object, form: str = "newer") -> dict[str, str]:
    """Variables under which the stand-in lists these processes."""
    path = neuroncore.explorer_environment("flat")["PATH"]
    return {"PATH": path, "NEURONCORE_HOLDERS": json.dumps(processes), "NEURONCORE_LS": form}


@pytest.mark.parametrize("form", ["older", "newer"])
def test_both_forms_of_its_json_are_read(monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    own = {"pid": os.getpid(), "command": "pytest"}
    itself = {"pid": 5, "command": "neuron-ls --output-format json"}
    for name, value in holding(own, TRAINING, itself, form=form).items():
        monkeypatch.setenv(name, value)
    assert neuron_ls.others() == [Holder(1 << 30, "python train.py", (2, 3))]


@pytest.mark.parametrize(
    "value", [None, [], {}, {"devices": 3}, [{"neuron_processes": None}], {"neuron_processes": ["x"]}]
)
def test_of_what_is_not_known_there_is_nobody(value: object) -> None:
    assert neuron_ls.holders(value) == []


def test_a_process_on_several_devices_is_one() -> None:
    devices = [{"neuron_processes": [{"pid": 7}], "neuroncore_ids": cores} for cores in ([0, 1], [2, 3])]
    (holder,) = neuron_ls.holders({"instance": "i-0", "devices": devices})
    assert str(holder) == "process 7, on cores 0, 1, 2, 3"
    (wordy,) = neuron_ls.holders([{"neuron_processes": [{"pid": 1, "command": "x" * 500}]}])
    assert len(wordy.command) == neuron_ls.COMMAND


def test_without_the_program_nobody_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert neuron_ls.others() == []


def test_who_holds_a_core_is_named_where_it_does_not_open(tmp_path: Path) -> None:
    ran = on_core("variants=[naive]", cwd=tmp_path, busy=True, **holding(TRAINING))
    assert ran.status == 2
    assert f"process {1 << 30} (python train.py), on cores 2, 3: end the process that holds it" in ran.error


@pytest.mark.slow
def test_who_holds_another_core_is_warned_of(tmp_path: Path) -> None:
    ran = on_core("variants=[naive]", cwd=tmp_path, **holding(TRAINING))
    assert ran.status == 0
    assert f"process {1 << 30} (python train.py), on cores 2, 3: dispatch from several busy cores" in ran.err
