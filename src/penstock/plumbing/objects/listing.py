"""Listings of one folder: sub-folders and objects as one sorted sequence, cut into pages."""

from collections.abc import Iterable, Iterator

from penstock.plumbing.objects.port import ObjectMeta, ObjectPage

__all__ = ["Entry", "folder_pages"]

Entry = tuple[str, ObjectMeta | None]  # its key, or the name of a sub-folder with its slash and no metadata


def folder_pages(entries: Iterable[Entry], after: str, page_keys_max: int) -> Iterator[ObjectPage]:
    """Yield pages of the entries after `after`. The entries need not be sorted.

    >>> [page.folders for page in folder_pages([("b/", None), ("a/", None), ("c/", None)], "", 2)]
    [('a/', 'b/'), ('c/',)]
    """
    rest = sorted((entry for entry in entries if entry[0] > after), key=lambda entry: entry[0])
    for first in range(0, len(rest), page_keys_max):
        page = rest[first : first + page_keys_max]
        yield ObjectPage(
            objects=tuple(meta for _, meta in page if meta is not None),
            folders=tuple(name for name, meta in page if meta is None),
        )
