"""One seed of the lake's world: work under faults, calm, and the judge."""

from penstock.kernel.errors import PenstockError
from penstock_lab.world.faults import plan
from penstock_lab.world.lake.judge import LakeJudge
from penstock_lab.world.lake.site import BRANCHES, LakeSite
from penstock_lab.world.world import World

__all__ = ["ABOUT", "answers", "ask", "run_lake"]

ABOUT = "members of the lake, REST, S3 and the shipped client: no acknowledged object or commit is missing"
ANSWER_S = 15.0  # E4
JUDGE_S = 120.0


def run_lake(world: World, faults: tuple[str, ...], counts: dict[str, int]) -> None:
    """Run a seed. The world fails with the first broken rule."""
    site = LakeSite(world, faults)
    settings = site.settings
    begin_s = world.now_ns / 1e9
    plan(site.scene, faults, begin_s=begin_s + 0.2, end_s=begin_s + settings.run_s)
    site.trouble_log(world.random("log trouble"))
    site.scene.run(settings.run_s)
    site.is_over = True
    site.scene.calm()
    site.scene.run(settings.calm_s)
    counts.update(site.ledger.counts())
    ask(site)


def ask(site: LakeSite) -> None:
    """Ask the shipped client, and judge."""
    found = site.do(answers(site), 2 * ANSWER_S)
    if found is None or found:
        site.world.fail(f"E4: after the calm {found or 'the lake does not answer'}")
    site.world.check()
    end_ns = site.world.now_ns

    async def judge() -> tuple[str]:
        async with site.lake(len(site.urls) - 1) as lake:
            return (await LakeJudge(site.ledger, lake, BRANCHES, end_ns).verdict(site.repositories),)

    verdict = site.do(judge(), JUDGE_S)
    if verdict is None:
        site.world.fail("E4: after the calm the judge was not answered in time")
    elif verdict[0]:
        site.world.fail(verdict[0])


async def answers(site: LakeSite) -> str:
    """E4: each member takes an object and a commit, and shows it."""
    for number, url in enumerate(site.urls):
        async with site.lake(number) as lake:
            for name in site.repositories:
                branch = lake.repository(name).branch("main")
                path = f"calm/{number}"
                write = site.ledger.write(name, "main", path, 60, site.world.now_ns)
                try:
                    await branch.put(path, write.content or b"")
                    write.fate, write.ended_ns = "acknowledged", site.world.now_ns
                    made = await branch.commit("after the calm")
                    if (await branch.head()).id != made.id or await branch.read(path) != write.content:
                        return f"{url} does not show its own commit"
                except PenstockError as error:
                    return f"{url} answers {type(error).__name__}: {error}"
    return ""
