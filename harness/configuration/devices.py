"""The devices that a run can name: the class of each by its dotted path, and its own section of the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from harness.configuration.errors import UsageError, one_line, unknown_key
from harness.configuration.operation import resolve
from harness.configuration.settings import check

AUTO = "auto"  # the first device that is there, in the order that the devices give themselves
LIBRARY = {
    "neuron": "harness.devices.neuron.Neuron",
    "cuda": "harness.devices.cuda.Cuda",
    "cpu": "harness.devices.cpu.Cpu",
}


@dataclass(frozen=True)
class DeviceConfig:
    """A device as the configuration gives it: its class by dotted path, and an instance of the class's `Settings`."""

    path: str
    settings: Any


DeviceConfigs = Mapping[str, DeviceConfig]  # by the device's name


def device_configs(plain: Mapping[str, Any]) -> dict[str, DeviceConfig]:
    """The devices under `devices`, each with its section; `plain` is a configuration in plain values.

    Raises UsageError, which names the key, for a class that is no device and for a section that does not fit it.
    """
    return {name: _config(str(name), path, plain.get(name)) for name, path in plain["devices"].items()}


def library() -> dict[str, DeviceConfig]:
    """The library's own devices with their default settings."""
    return device_configs({"devices": LIBRARY})


def section(name: str, path: str) -> type:
    """The dataclass that holds the settings of the device whose class has this dotted path."""
    key = f"devices.{name}={path}"
    if not name.isidentifier() or name == AUTO:
        raise UsageError(f"{key}: a device's name must be an identifier other than {AUTO}")
    device = resolve(path, f"devices.{name}")
    settings = getattr(device, "Settings", None)
    if not isinstance(device, type) or not isinstance(settings, type) or not is_dataclass(settings):
        raise UsageError(f"{key}: expected a subclass of harness.devices.base.Device")
    if getattr(device, "name", None) != name:
        raise UsageError(f"{key}: is called {getattr(device, 'name', None)}; expected the same name")
    return settings


def _config(name: str, path: Any, values: Any) -> DeviceConfig:
    schema = section(name, str(path))
    if values is not None and not isinstance(values, Mapping):
        raise UsageError(f"{name}={values}: expected a mapping, the settings of device {name}")
    names = [known.name for known in fields(schema)]
    try:
        settings = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(schema), dict(values or {})))
    except (ConfigKeyError, ConfigAttributeError) as error:
        raise unknown_key(name, str(error.key), names) from error
    except OmegaConfBaseException as error:
        raise UsageError(f"{name}.{error.full_key}: {one_line(error)}") from error
    except ValueError as error:  # of the dataclass's own checks
        raise UsageError(f"{name}.{error}") from error
    check(settings, f"{name}.")
    return DeviceConfig(str(path), settings)
