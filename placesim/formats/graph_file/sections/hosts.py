"""Reader and writer of an inventory's `host`: cores, rates, and the measurements of `placesim calibrate`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from placesim.formats.graph_file.plain_values import int_value, line_value, number_value
from placesim.formats.problems import FileProblems, InvalidValue, spell, value_position
from placesim.machine.gpu_models import GpuModel
from placesim.machine.host_models import (
    BASIC,
    DEVIATIONS,
    FAMILIES,
    PROFILE_VERSION,
    RATES,
    SECONDS,
    SHARES,
    HostModel,
    HostProfile,
    MeasuredFigure,
)

HOST_KEYS = ("name", "cores", "flops", "bandwidth", "rates", "dispatch", "launch", "inter_op_threads", "ops", "profile")
PROFILE_KEYS = ("version", "about", "caches", "seconds", "families")
_FAMILY_KEYS = ("factor", "low", "high")
_FIGURE_KEYS = ("seconds", "spread")
_MAX_CORES = 1 << 12
_CACHES = 2


def positive_rate(value: Any, what: str) -> float:
    """Return a number above 0. Raises InvalidValue."""
    return rate_value(value, what, is_open=True)


def rate_value(value: Any, what: str, *, is_open: bool = False) -> float:
    """Return a finite number of 0 or more; above 0 if `is_open`. Raises InvalidValue."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = float(value)  # YAML 1.1 reads 67e12 as a text
    found = number_value(value, what)
    if not 0 <= found < float("inf") or (is_open and found == 0):
        expected = "a number above 0" if is_open else "0 or more"
        raise InvalidValue(f"{what} out of range: got {spell(value)}, expected {expected}")
    return float(found)


def read_host(tree: Any, position: int, problems: FileProblems) -> HostModel:
    """Read `host`. Invalid values are reported, and their defaults are used."""
    host = problems.mapping(tree, position, "'host'")
    problems.unknown_keys(host, HOST_KEYS, "'host'")

    def rate(key: str) -> float:
        return float(problems.read_or_default(host, key, lambda value: positive_rate(value, f"'{key}'"), 0.0))

    return HostModel(
        name=problems.read_or_default(host, "name", lambda value: line_value(value, "'name'"), ""),
        cores=problems.read_or_default(host, "cores", lambda value: int_value(value, 1, _MAX_CORES, "'cores'"), 0),
        flops=rate("flops"),
        bandwidth=rate("bandwidth"),
        rates=read_rates(host, problems),
        dispatch=rate("dispatch"),
        launch=rate("launch"),
        inter_op_threads=problems.read_or_default(
            host, "inter_op_threads", lambda value: int_value(value, 0, _MAX_CORES, "'inter_op_threads'"), 0
        ),
        ops=_read_ops(host, problems),
        profile=_read_profile(host["profile"], value_position(host, "profile"), problems) if "profile" in host else None,
    )


def read_rates(tree: dict[Any, Any], problems: FileProblems) -> dict[str, float]:
    """Return the `rates` of a host or a GPU model: operations per second by element type."""
    if "rates" not in tree:
        return {}
    rates = problems.mapping_at(tree, "rates")
    problems.unknown_keys(rates, RATES, "'rates'")
    found = {key: problems.read_or_default(rates, key, partial(positive_rate, what=f"'{key}'"), 0.0) for key in RATES}
    return {key: rate for key, rate in found.items() if rate}


def _read_ops(host: dict[Any, Any], problems: FileProblems) -> dict[str, float]:
    """Return the factors of ops. Names of ops are not checked, since releases have different ops."""
    ops = problems.mapping(host.get("ops", {}), value_position(host, "ops") if "ops" in host else 0, "'ops'")
    found = {str(op): problems.read_or_default(ops, op, partial(positive_rate, what=f"'{op}'"), 1.0) for op in ops}
    return {line_value(op, "'ops'"): factor for op, factor in found.items()}


def _read_profile(tree: Any, position: int, problems: FileProblems) -> HostProfile | None:
    profile = problems.mapping(tree, position, "'profile'")
    problems.unknown_keys(profile, PROFILE_KEYS, "'profile'")
    version = profile.get("version")
    if version != PROFILE_VERSION:
        place = value_position(profile, "version") if "version" in profile else position
        got = "no version" if version is None else f"version {spell(version)}"
        problems.add(
            place, f"unsupported profile version: got {got}, expected {PROFILE_VERSION}; run `placesim calibrate` again"
        )
        return None
    about = problems.mapping(profile.get("about", {}), position, "'about'")
    seconds = _mapping(profile, "seconds", SECONDS + SHARES + DEVIATIONS, position, problems)
    families = _mapping(profile, "families", FAMILIES, position, problems)
    figures = {
        key: problems.read_or_default(seconds, key, partial(_figure, key=key, problems=problems), MeasuredFigure(0.0))
        for key in seconds
    }
    return HostProfile(
        seconds={key: figures[key].value for key in figures},
        caches=problems.read_or_default(profile, "caches", _caches, (1.0, 1.0)),
        families={key: _family(families, key, problems) for key in families},
        spreads={key: figures[key].high - 1 for key in figures},
        about={str(key): str(value) for key, value in about.items()},
    )


def _mapping(tree: dict[Any, Any], key: str, known: tuple[str, ...], position: int, problems: FileProblems) -> dict[Any, Any]:
    """Return the mapping under a key; empty, after a report, unless it has exactly the known keys."""
    if key not in tree:
        problems.add(position, f"incomplete profile: expected the key '{key}'")
        return {}
    found = problems.mapping_at(tree, key)
    problems.unknown_keys(found, known, f"'{key}'")
    missing = [name for name in known if name not in found]
    if missing:
        message = f"incomplete '{key}' in a profile: got no {', '.join(missing)}, expected a value for each"
        problems.add(value_position(tree, key), message)
    return {} if missing else found


def _figure(value: Any, key: str, problems: FileProblems) -> MeasuredFigure:
    """Return the figure of a number of seconds, or of a mapping with `seconds` and `spread`. Raises InvalidValue."""
    spread = 0.0
    if isinstance(value, dict):
        problems.unknown_keys(value, _FIGURE_KEYS, f"'{key}'")
        spread = rate_value(value.get("spread", 0), "'spread'")
        value = value.get("seconds")
    # work that a machine overlaps with other work may measure as 0 seconds
    return MeasuredFigure(rate_value(value, f"'{key}'", is_open=key in BASIC), 1.0, 1 + spread)


def _caches(value: Any) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != _CACHES:
        raise InvalidValue(f"wrong 'caches': got {spell(value)}, expected two sizes in bytes")
    first, last = (positive_rate(entry, "'caches'") for entry in value)
    return first, last


def _family(families: dict[Any, Any], key: str, problems: FileProblems) -> MeasuredFigure:
    tree = problems.mapping_at(families, key)
    problems.unknown_keys(tree, _FAMILY_KEYS, f"'{key}'")
    low, value, high = (
        problems.read_or_default(tree, part, partial(positive_rate, what=f"'{part}'"), 1.0)
        for part in ("low", "factor", "high")
    )
    return MeasuredFigure(value, low, high)


# --- writing ----------------------------------------------------------------------------------------------------------


def host_document(host: HostModel) -> dict[str, Any]:
    """Return the value of `host` in a document, without unknown values."""
    fields = ("name", "cores", "flops", "bandwidth", "rates", "dispatch", "launch", "inter_op_threads", "ops")
    written = {key: value for key in fields if (value := getattr(host, key))}
    if host.profile is not None:
        written["profile"] = _profile_document(host.profile)
    return written


def _profile_document(profile: HostProfile) -> dict[str, Any]:
    spreads = profile.spreads
    return {
        "version": PROFILE_VERSION,
        "about": dict(profile.about),
        "caches": list(profile.caches),
        "seconds": {key: {"seconds": value, "spread": spreads.get(key, 0.0)} for key, value in profile.seconds.items()},
        "families": {
            key: {"factor": factor, "low": low, "high": high} for key, (factor, low, high) in profile.families.items()
        },
    }


def host_text(host: HostModel, gpu: GpuModel | None = None, gpus: int = 1) -> str:
    """Return the YAML text of an inventory with this host, and `gpus` GPUs of this model; numbers have four digits."""
    lines = ["devices:", "  host:", *_block(host_document(host), "    ")]
    if gpu is not None:
        rates = {name: rate for name in RATES if (rate := getattr(gpu.figures, name))}
        model = {"name": gpu.name, "flops": gpu.flops, "bandwidth": gpu.bandwidth, "rates": rates}
        lines += ["  gpu:", f"    count: {gpus}", "    model:", *_block(model, "      ")]
    return "\n".join(lines) + "\n"


def _block(tree: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yield the lines of a mapping; a mapping that holds only numbers stands on one line."""
    for key, value in tree.items():
        if isinstance(value, Mapping) and not all(isinstance(entry, int | float) for entry in value.values()):
            yield f"{indent}{key}:"
            yield from _block(value, indent + "  ")
        else:
            yield f"{indent}{key}: {_flow(value)}"


def _flow(value: Any) -> str:
    match value:
        case float():
            return f"{value:.4g}"
        case Mapping():
            return "{" + ", ".join(f"{key}: {_flow(entry)}" for key, entry in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_flow, value)) + "]"
    return json.dumps(value)
