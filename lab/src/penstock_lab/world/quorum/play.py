"""Plays a schedule: a fixed script of faults against the shipped nodes, under the load of clients, calm, and the judge.

failure = play(SCHEDULES["x13"])          # None: clean
"""

import gc
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

import msgspec

from penstock_lab.world.guard import guarded
from penstock_lab.world.process import Life
from penstock_lab.world.quorum.run import ask_quorum
from penstock_lab.world.quorum.settings import QuorumSettings
from penstock_lab.world.quorum.site import SHARD, QuorumSite
from penstock_lab.world.run import metrics_kept
from penstock_lab.world.stories import telling
from penstock_lab.world.world import World, WorldFailed

__all__ = ["QuorumSchedule", "Script", "calls", "play"]

Script = Callable[[QuorumSite], Callable[[], str | None] | None]  # plays, and returns a check for the end
READY_S: Final = 1.0


class QuorumSchedule(msgspec.Struct, frozen=True):
    """A script, and the cluster that it is for."""

    about: str
    script: Script
    settings: QuorumSettings = QuorumSettings()


def play(schedule: QuorumSchedule, seed: int | str = 1, *, story_of: str | None = None, tell: Any = None) -> str | None:
    """Play a schedule; return the rule that was broken, or None. `tell`: called with each line of the story."""
    world = World(seed, story_of=story_of)
    was_collecting = gc.isenabled()
    gc.disable()
    gc.freeze()  # the end of the world collects its own garbage only
    try:
        with metrics_kept(), telling(world), guarded(world):
            with suppress(WorldFailed):
                _play(world, schedule)
            if tell is not None:
                for line in world.story:
                    tell(line)
    finally:
        world.end()
        gc.unfreeze()
        if was_collecting:
            gc.enable()
    return world.failure


def _play(world: World, schedule: QuorumSchedule) -> None:
    site = QuorumSite(world, schedule.settings)
    site.scene.run(READY_S)
    check = schedule.script(site)
    site.scene.run(site.settings.run_s)
    site.is_over = True
    site.scene.calm()
    site.scene.run(site.settings.calm_s)
    ask_quorum(site)
    broken = check() if check is not None else None
    if broken is not None:
        world.fail(broken)
    world.check()


class calls:
    """What scripts do to a site: by the name of a process, or of whatever leads then."""

    def __init__(self, site: QuorumSite) -> None:
        self.site = site

    def after(self, seconds: float, do: Callable[..., Any], *args: Any) -> None:
        self.site.world.after(int(seconds * 1e9), partial(do, *args))

    def life(self, name: str | None) -> Life | None:
        name = name or self.site.leader()
        return self.site.scene.life(name) if name is not None else None

    def kill(self, name: str | None = None) -> None:
        life = self.life(name)
        if life is not None:
            life.kill()

    def freeze(self, name: str | None, seconds: float) -> None:
        life = self.life(name)
        if life is not None:
            life.freeze()
            self.after(seconds, life.thaw)

    def power_off(self, name: str | None, seconds: float) -> None:
        life = self.life(name)
        if life is not None:
            self.site.scene.hold(life.name)
            life.machine.lose_power()
            self.after(seconds, self.site.scene.start, life.name)

    def wipe(self, name: str) -> None:
        """Kill a node, and lose all its files."""
        scene = self.site.scene
        scene.hold(name)
        self.kill(name)
        files = scene.computers[name].files
        files.root.names.clear()
        files.root.sync()
        files.install(scene.computers[name].process.folder)  # type: ignore[union-attr]
        scene.start(name)

    def part(self, name: str | None, seconds: float) -> None:
        """Cut a node off from the other nodes; operators and clients reach it."""
        one = name or self.site.leader()
        if one is None:
            return
        others = [other for other in self.site.names if other != one]
        links = self.site.scene.links
        for pair in [(one, other) for other in others] + [(other, one) for other in others]:
            links.cut(*pair)
            self.after(seconds, links.heal, *pair)

    def slow(self, names: list[str], sync_s: float, seconds: float) -> None:
        for name in names:
            trouble = self.site.scene.computers[name].files.trouble
            trouble.sync_ns = (int(sync_s * 1e9), int(sync_s * 1e9))
            self.after(seconds, trouble.heal)

    def ask(self, request: Callable[[Any], Any], *, may_fail: bool = True) -> None:
        """Ask the operators for something, as a person does."""

        async def work() -> None:
            async with self.site.asking(self.site.admin) as operators:
                try:
                    await request(operators)
                except Exception as error:
                    self.site.world.tell("admin", f"admin    {error!r}")
                    if not may_fail:
                        self.site.world.fail(f"an operator refused: {error!r}")

        self.site.admin.spawn(work(), "asks the operators")

    def elect(self, name: str | None = None) -> None:
        self.ask(lambda operators: operators.elect(SHARD, name, timeout=5))
