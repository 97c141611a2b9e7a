"""Sensors report temperatures; averages over rolling windows that are too high become alerts in a topic.

Windows are by the time of the reading and not of its arrival: readings overtake each other by some seconds. A window of
a sensor is final when a reading of this sensor is later than its end by LATE seconds, or when the sensor has stopped.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence

from tools.examples.envelope import Contract, Envelope, Reason, Refused, first_event, read
from tools.examples.poison import pills, with_pills
from tools.examples.service import service
from tools.examples.stage import Events, Stage, must

READINGS, ALERTS = "telemetry", "telemetry.alerts"
COUNT, SENSORS, STEP_SECONDS = 600, 5, 5
WINDOW, STEP, LATE = 60, 30, 10
TOO_HOT = 24.0
_BEGIN = Events.BEGIN // 1_000
CONTRACT: Contract = {"sensor.read": {"sensor": str, "temperature": float}, "sensor.stopped": {"sensor": str}}
ALERTED: Contract = {"window.hot": {"sensor": str, "begin": int, "mean": float}}
Window = tuple[str, int]
"""A sensor and the window's beginning, in seconds."""


def readings(seed: int, count: int) -> list[Envelope]:
    """Every sensor once every five seconds; they warm up and cool down, and one is always hot."""
    chance = random.Random(seed)
    events = [Events(seed, f"sensor-{sensor}") for sensor in range(SENSORS)]
    made = []
    for number in range(count):
        sensor, second = number % SENSORS, number // SENSORS * STEP_SECONDS
        warmth = 26.0 if sensor == SENSORS - 1 else 20.0 + 6 * ((second // 150) % 2)
        name = f"sensor-{sensor}"
        event = events[sensor].event(
            "sensor.read",
            name,
            (_BEGIN + second) * 1_000,
            sensor=name,
            temperature=round(warmth + chance.uniform(-3, 3), 2),
        )
        made.append((second + chance.uniform(0, LATE - 1), event))
    return [event for _, event in sorted(made, key=lambda one: one[0])]


def stops(seed: int, count: int) -> list[Envelope]:
    """The last event of each sensor, later than every window."""
    end = _BEGIN + count // SENSORS * STEP_SECONDS + 10 * WINDOW
    return [
        Events(seed, f"sensor-{sensor}").event(
            "sensor.stopped", f"sensor-{sensor}", end * 1_000, sensor=f"sensor-{sensor}"
        )
        for sensor in range(SENSORS)
    ]


def windows_of(second: int) -> range:
    """The beginnings of the windows that have this second."""
    last = second // STEP * STEP
    return range(last - WINDOW + STEP, last + 1, STEP)


def expected_alerts(some: Iterable[Envelope]) -> dict[Window, float]:
    windows: dict[Window, list[float]] = defaultdict(list)
    for one in some:
        for begin in windows_of(one.timestamp // 1_000):
            windows[one.data["sensor"], begin].append(one.data["temperature"])
    means = {where: sum(found) / len(found) for where, found in windows.items()}
    return {where: mean for where, mean in means.items() if mean > TOO_HOT}


class Windows:
    """The open windows: at most WINDOW / STEP and some late ones for each sensor."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._open: dict[Window, tuple[float, int]] = {}
        self._time: dict[str, int] = {}
        self.stopped: set[str] = set()
        self.count = 0

    def take(self, event: Envelope) -> Iterable[tuple[str, Envelope]]:
        """The alerts of the windows that this event closes."""
        sensor, second = event.data["sensor"], event.timestamp // 1_000
        if event.type == "sensor.stopped":
            self.stopped.add(sensor)
        else:
            self.count += 1
            for begin in windows_of(second):
                total, count = self._open.get((sensor, begin), (0.0, 0))
                self._open[sensor, begin] = total + event.data["temperature"], count + 1
        self._time[sensor] = max(second, self._time.get(sensor, 0))
        return [(ALERTS, alert) for alert in self._closed(sensor)]

    def _closed(self, sensor: str) -> list[Envelope]:
        final = self._time[sensor] - LATE
        ended = [where for where in self._open if where[0] == sensor and where[1] + WINDOW <= final]
        alerts = []
        for where in ended:
            total, count = self._open.pop(where)
            if total / count > TOO_HOT:
                alerts.append(hot(self._seed, where, total / count))
        return alerts


def hot(seed: int, where: Window, mean: float) -> Envelope:
    """An alert. A window has one, whatever it is told again: its id is made from the window."""
    sensor, begin = where
    data = {"sensor": sensor, "begin": begin, "mean": mean}
    end = (begin + WINDOW) * 1_000
    return first_event("window.hot", f"averages/{sensor}", sensor, data, timestamp=end, seed=seed, number=begin)


def play(stage: Stage) -> str:
    """One service with the open windows in memory."""
    some = readings(stage.seed, stage.counted(COUNT))
    stage.make_topics(READINGS, ALERTS)
    stage.send(READINGS, with_pills([*some, *stops(stage.seed, len(some))], pills(some[0])))
    windows = Windows(stage.seed)
    with service(stage, "averages", [READINGS], CONTRACT, windows.take) as averages:

        def step() -> None:
            averages.step()
            if windows.count >= len(some) // 2:
                stage.middle(READINGS)

        def is_done() -> bool:
            return len(windows.stopped) == SENSORS and len(averages.counts.refused) == len(Reason)

        stage.until(is_done, step, lambda: f"{windows.count:,} of {len(some):,} readings are in windows")
    must(windows.count == len(some), f"{windows.count} readings instead of {len(some)}")
    alerts = [read(one.value, ALERTED) for one in stage.client.replay(stage.bootstrap, stage.topic(ALERTS))]
    found = check_alerts(alerts, some)
    kinds = len(averages.counts.refused)
    return (
        f"{len(some):,} readings, {found} alerts, as calculated at once; {kinds} kinds of wrong messages were counted"
    )


def check_alerts(written: Sequence[Envelope | Refused], some: Iterable[Envelope]) -> int:
    """The number of alerts, which are those that must be, each once."""
    found: dict[Window, float] = {}
    for one in written:
        if isinstance(one, Refused):
            must(False, f"an alert is no event: {one}")
            continue
        where = (one.data["sensor"], one.data["begin"])
        must(where not in found, f"an alert was written twice: {where}")
        found[where] = one.data["mean"]
    wanted = expected_alerts(some)
    must(
        found.keys() == wanted.keys(),
        f"missing or too many: {sorted(found.keys() ^ wanted.keys())[:4]}",
    )
    must(all(abs(found[where] - wanted[where]) < 1e-6 for where in wanted), "a mean is wrong")
    return len(found)
