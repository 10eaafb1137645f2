"""An error of the user's code names file, line, function and error. No Spark runs."""

import sys
from pathlib import Path

import pytest

from penstock.kernel.errors import InvalidArgument, NotFound
from penstock.spark.pipelines.pipeline import load_pipeline
from penstock.spark.pipelines.user_code import UserCode, cause_of

# What PySpark 4.3 says of a task that failed, shortened; FILE is the user's.
FAILED = """[STREAM_FAILED] Query [id = 1b, runId = 2c] terminated with exception: [FOREACH_BATCH_USER_FUNCTION_ERROR] \
An error occurred in the user provided function in foreach batch sink. Reason: An exception was raised by the Python \
Proxy. Return Message: Traceback (most recent call last):
  File "/venv/site-packages/py4j/clientserver.py", line 642, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/src/penstock/spark/pipelines/staging.py", line 160, in _run_tasks
    return [_Answer(**row.asDict()) for row in frame.mapInArrow(run, ANSWER).collect()]
pyspark.errors.exceptions.captured.PythonException: \n\
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "FILE", line 12, in picky
    raise ValueError("no")
ValueError: cannot work with 13.37

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
org.apache.spark.SparkException: Job aborted: not what it is about
SQLSTATE: XXKST"""
CLASSES = (
    "[STREAM_FAILED] Query [id = 1b] terminated with exception: Job aborted due to stage failure: Lost task 0.3 "
    "(TID 3): org.apache.spark.SparkException: java.lang.RuntimeException: java.lang.ClassNotFoundException: Class "
    "org.apache.hadoop.fs.s3a.S3AFileSystem not found SQLSTATE: XXKST\n\tat org.apache.spark.Some.thing(Some.scala:1)"
)
CAST = (
    "[STREAM_FAILED] Query [id = 1b] terminated with exception: [CAST_INVALID_INPUT] The value 'x' of the type "
    '"STRING" cannot be cast to "INT". SQLSTATE: 22018\n== DataFrame ==\n"cast" was called from\nFILE:7\n'
)


def shop(folder: Path, text: str) -> Path:
    file = folder / "shop.py"
    file.write_text(text)
    return file


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (FAILED, "shop.py, line 12, in picky: ValueError: cannot work with 13.37"),
        (FAILED.replace("FILE", "/elsewhere.py"), "ValueError: cannot work with 13.37"),
        (CLASSES, "ClassNotFoundException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"),
        (CAST, """shop.py, line 7: [CAST_INVALID_INPUT] The value 'x' of the type "STRING" cannot be cast to "INT"."""),
        ("Traceback (most recent call last):\n  File 'x'\nKeyError\n", "KeyError"),
        ("no such column", "no such column"),
    ],
)
def test_the_cause_is_the_innermost_error_without_wrappers(text: str, told: str, tmp_path: Path) -> None:
    file = shop(tmp_path, "")
    assert str(cause_of(text.replace("FILE", str(file)), UserCode(file))) == told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import nosuchmodule\n", "shop.py, line 1: ModuleNotFoundError: No module named 'nosuchmodule'"),
        ("\n\n1 / 0\n", "shop.py, line 3: ZeroDivisionError: division by zero"),
        ("def (:\n", "shop.py, line 1: SyntaxError: invalid syntax"),
        ("import helper\nhelper.work(0)\n", "helper.py, line 2, in work: ValueError: no"),
        (
            "from penstock.spark import Pipeline\nPipeline('a b')\n",
            "shop.py, line 2: 'a b': a name has up to 27 letters",
        ),
        ("raise SystemExit(3)\n", "shop.py, line 1: SystemExit: 3"),
    ],
)
def test_an_error_in_a_file_is_its_author_s(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def work(n):\n    raise ValueError('no')\n")
    with pytest.raises(InvalidArgument) as failed:
        load_pipeline(shop(tmp_path, text))
    sys.modules.pop("helper", None)
    assert failed.value.message.startswith(told)
    assert "defect" not in failed.value.describe()


def test_a_missing_module_has_its_own_next_step(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument) as failed:
        load_pipeline(shop(tmp_path, "import nosuch.part\n"))
    assert failed.value.next_step == "pip install nosuch, or put the module next to the file"


def test_modules_next_to_the_file_travel_by_value(tmp_path: Path) -> None:
    from pyspark import cloudpickle

    (tmp_path / "prices.py").write_text("def double(n):\n    return 2 * n\n")
    text = "import prices\nfrom penstock.spark import Pipeline\npipeline = Pipeline('shop')\ndouble = prices.double\n"
    pipeline = load_pipeline(shop(tmp_path, text))
    module = sys.modules.pop("prices")
    try:
        data = cloudpickle.dumps(module.double)  # type: ignore[no-untyped-call]
        assert pipeline.name == "shop"
        assert str(tmp_path) not in sys.path
        assert cloudpickle.loads(data)(4) == 8  # where no such module can be imported
    finally:
        cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def test_errors_of_others_stay_as_they_are(tmp_path: Path) -> None:
    """A missing lake is not an error of the file, and an installed module is not the user's."""
    code = UserCode(shop(tmp_path, ""))
    with pytest.raises(NotFound, match="no such table"), code.blamed():
        raise NotFound("no such table")
    assert not UserCode(Path("/")).has(pytest.__file__)
    assert not UserCode(Path(__file__).parents[3] / "shop.py").has(sys.modules["penstock"].__file__ or "")
