import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import pytest
import uvloop

from penstock.plumbing.process.run import run


def script(body: str, *options: str, **environment: str) -> "subprocess.Popen[str]":
    text = "import asyncio, os, signal\nfrom penstock.plumbing.process.run import run\n" + textwrap.dedent(body)
    return subprocess.Popen(
        [sys.executable, *options, "-c", text],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


WAITS = """
    async def main():
        try:
            print("ready", flush=True)
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("closing", flush=True)
            {closing}
            print("closed", flush=True)
            {ending}
    print("result", run(main()))
    """


def test_the_result_comes_back_from_uvloop() -> None:
    async def main() -> type:
        return type(asyncio.get_running_loop())

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert run(main()) is uvloop.Loop
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_an_error_comes_out_as_it_is() -> None:
    async def main() -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        run(main())


def test_a_cancellation_that_is_no_signal_stays_one() -> None:
    async def main() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run(main())


@pytest.mark.parametrize(
    ("options", "environment"), [(["-O"], {}), ([], {"PYTHONOPTIMIZE": "2"})], ids=["flag", "variable"]
)
def test_without_assertions_it_does_not_start(options: list[str], environment: dict[str, str]) -> None:
    process = script("async def main(): print('started')\nrun(main())", *options, **environment)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert out == ""
    assert "ConfigError" in err
    assert "never awaited" not in err


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT)], ids=lambda value: str(int(value))
)
def test_a_signal_cancels_and_the_status_says_so(number: signal.Signals, status: int) -> None:
    process = script(WAITS.format(closing="", ending="raise"))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert out == "closing\nclosed\n"
    assert process.returncode == status


def test_whoever_closes_well_after_a_signal_may_return_a_result() -> None:
    process = script(WAITS.format(closing="", ending="return 7"))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=30)
    assert (process.returncode, out) == (0, "closing\nclosed\nresult 7\n")


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_a_close_that_hangs(second: signal.Signals) -> None:
    process = script(WAITS.format(closing="await asyncio.Event().wait()", ending="raise"))
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "closing\n"
    process.send_signal(second)
    process.communicate(timeout=30)
    assert process.returncode == -second


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="Linux only")
def test_who_sends_to_a_server_keeps_its_processor() -> None:
    process = script("""
        from penstock.plumbing.process.run import let_senders_finish
        let_senders_finish()
        print(os.sched_getscheduler(0) == os.SCHED_BATCH)
        """)
    assert process.communicate(timeout=60) == ("True\n", "")


def test_cycles_are_looked_for_now_and_then() -> None:
    process = script("""
        import gc
        async def main():
            return gc.get_threshold(), gc.isenabled()
        print(run(main()))
        """)
    assert process.communicate(timeout=60) == ("((20000, 10, 10), True)\n", "")
