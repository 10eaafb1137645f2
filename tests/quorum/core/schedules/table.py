"""All schedules by their names."""

from collections.abc import Callable

from tests.quorum.core.schedules import elections, holes, limbo, reconfigurations
from tests.quorum.core.schedules.common import Make

Schedule = Callable[[Make], None]

SCHEDULES: dict[str, Schedule] = {
    name: function
    for module in (elections, limbo, reconfigurations, holes)
    for name, function in sorted(vars(module).items())
    if name[0] in "sh" and name[1:2].isdigit()
}
