"""Names of the lake as people and clients write them: repositories, branches, tags and paths."""

import re
from typing import Final

from penstock.kernel.errors import InvalidArgument

__all__ = ["check_branch", "check_path", "check_repository", "check_tag"]

PATH_BYTES_MAX: Final = 1024
_REPOSITORY: Final = re.compile(r"[a-z0-9][a-z0-9-]{2,62}")
_BRANCH: Final = re.compile(r"\w[-\w]{0,254}")
_TAG: Final = re.compile(r"\w[-\w.+=]{0,254}")


def check_repository(name: str) -> str:
    if not _REPOSITORY.fullmatch(name):
        raise InvalidArgument(f"repository {name[:100]!r}: a name has 3 to 63 of a-z 0-9 and -, and no - in front")
    return name


def check_branch(name: str) -> str:
    if not _BRANCH.fullmatch(name):
        raise InvalidArgument(f"branch {name[:100]!r}: a name has letters, digits, _ and -, and no - in front")
    return name


def check_tag(name: str) -> str:
    if not _TAG.fullmatch(name):
        raise InvalidArgument(f"tag {name[:100]!r}: a name has letters, digits and _ - . + =")
    return name


def check_path(path: str) -> str:
    size = len(path.encode("utf-8", "surrogatepass"))
    if not 0 < size <= PATH_BYTES_MAX:
        raise InvalidArgument(f"a path has 1 to {PATH_BYTES_MAX} bytes, not {size}")
    return path
