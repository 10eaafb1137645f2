"""Logs of a world: what programs log goes into the story, with the process and the virtual time; nowhere else.

What always holds: an exception that a program logs as its own defect fails the world (W8).
"""

from asyncio import events
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from traceback import format_exc
from typing import TYPE_CHECKING, Any

import structlog

if TYPE_CHECKING:
    from penstock_lab.world.world import World

__all__ = ["telling"]


@contextmanager
def telling(world: "World") -> Iterator[None]:
    """Send log lines into a world's story while it runs."""
    before = structlog.get_config()
    was_configured = structlog.is_configured()

    def tell(_logger: Any, method: str, event: MutableMapping[str, Any]) -> Any:
        life = getattr(events._get_running_loop(), "process", None)
        if method == "exception" and (life is None or not life.is_dead):  # the dead end their turn
            world.fail(f"a defect was logged: {event.get('event')}\n{format_exc()}")
        if world.story_of is not None:
            text = " ".join(f"{key}={value}" for key, value in event.items() if key not in ("event", "exc_info"))
            world.tell(life.name if life is not None else "?", f"log      {method}: {event.get('event')} {text}")
        raise structlog.DropEvent

    structlog.configure(processors=[tell], wrapper_class=structlog.BoundLogger, cache_logger_on_first_use=False)
    try:
        yield
    finally:
        if was_configured:
            structlog.configure(**before)
        else:
            structlog.reset_defaults()
