"""Compile the source in Java into the jar of the wheel, always to the same bytes.

    .venv/bin/python scripts/make_jar.py [--jars FOLDER] [--out FILE]

The jar names the hash of the sources in its manifest. Its files are stored in order, without dates and uncompressed, so
that a release of zlib changes nothing. `make jar` runs this.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

from penstock.spark.journals.java_source import SHIPPED, SOURCES, java_sources, manifest, zipped

RELEASE = "17"
INSTALL = "install a JDK 17 (on Debian: sudo apt-get install openjdk-17-jdk-headless) and run it again"


def main() -> int:
    """Compile, write the jar, and print its path."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jars", type=Path, default=Path(pyspark.__file__).parent / "jars", help="Spark's jars")
    parser.add_argument("--out", type=Path, default=SHIPPED, help="where the jar goes")
    chosen = parser.parse_args()
    sources = java_sources()
    with tempfile.TemporaryDirectory() as folder:
        command = ["javac", "--release", RELEASE, "-proc:none", "-Xlint:none", "-XDsuppressNotes", "-encoding", "UTF-8"]
        command += ["-cp", f"{chosen.jars}/*", "-d", folder, *(str(SOURCES / name) for name in sources)]
        try:
            subprocess.run(command, check=True, env={**os.environ, "LC_ALL": "C"})
        except FileNotFoundError:
            print(f"make_jar: javac is missing: {INSTALL}", file=sys.stderr)
            return 2
        except subprocess.CalledProcessError:
            return 1
        classes = {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*.class")}
    chosen.out.write_bytes(zipped(classes, manifest(sources)))
    print(chosen.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
