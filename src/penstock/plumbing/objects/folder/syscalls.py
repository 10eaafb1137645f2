"""The system calls by which the local folder changes the disk, one method each, so that a test can fail any of them."""

import os

__all__ = ["Syscalls"]


class Syscalls:
    """The real ones. Each raises OSError. A crash may happen between any two of them, and then only the first
    has an effect.
    """

    def create(self, path: str) -> int:
        """A new file, open for writing."""
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)

    def write(self, file: int, data: memoryview) -> int:
        return os.write(file, data)

    def copy(self, source: int, target: int, size: int) -> int:
        """Move up to `size` bytes inside the kernel; file systems which can will share the blocks."""
        return os.copy_file_range(source, target, size)

    def set_modified(self, file: int, ns: int) -> None:
        os.utime(file, ns=(ns, ns))

    def start_writing(self, file: int) -> None:
        """Have the kernel start to write a file's data, and do not wait: the fsync of another file then covers this one
        too.
        """
        if hasattr(os, "posix_fadvise"):  # not on macOS, where the syncs take longer and are right all the same
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)

    def fsync(self, file: int) -> None:
        os.fsync(file)

    def fsync_folder(self, path: str) -> None:
        """Make the names in a folder durable: the list of its files, not their contents."""
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name, which must be free."""
        os.link(source, target)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def mkdir(self, path: str) -> None:
        os.mkdir(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)
