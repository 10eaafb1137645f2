"""Every place that removes, cuts or empties a file, with the reason why no acknowledged byte is lost there (D1).

No reason may be that the file could not be read: such a file moves into the quarantine, or the start is refused.
"""

_OWN = "a temporary file of this very call"
_CORE = "no file: a call of the core, whose effect the shell carries out"
_PORT = "the disk port: its callers are in this list"
_REPLAY = "a working folder, which its recovery log has"

REMOVALS = {
    "cli/machines/fsck.py:_forget": "a person named the entry of the quarantine",
    "consumers/core/recoverylog/recorder.py:Recorder.create": _CORE,
    "consumers/core/recoverylog/recorder.py:Recorder.rename": _CORE,
    "consumers/stores/recoverylog/player.py:Player._play": _REPLAY,
    "consumers/stores/recoverylog/player.py:Player._clear": _REPLAY,
    "consumers/stores/recoverylog/player.py:Player._link": _REPLAY,
    "consumers/stores/recoverylog/recorded_folder.py:RecordedFolder.create": _REPLAY,
    "consumers/stores/recoverylog/recorded_folder.py:RecordedFolder.truncate": _REPLAY,
    "consumers/stores/recoverylog/recorded_folder.py:RecordedFolder.unlink": _REPLAY,
    "consumers/stores/recoverylog/recording.py:Recording.unlinked": _CORE,
    "consumers/stores/recoverylog/recording.py:Recording._give_up_rewrite_of": _CORE,
    "consumers/stores/recoverylog/work_folder.py:WorkFolder.remove": _REPLAY,
    "consumers/stores/recoverylog/work_folder.py:_remove_abandoned": _REPLAY + "; its process is dead",
    "consumers/stores/sqlite_store.py:SqliteStore.restore": _REPLAY,
    "journals/broker/spools/spool_file.py:SpoolFile._truncate": "content that the core cut, and no state names",
    "journals/broker/spools/spool_file.py:SpoolFile.unlink": "its callers are in this list",
    "journals/broker/spools/spool_files.py:Save.run": "files that the state before named, and the durable one does not",
    "journals/broker/spools/spool_files.py:SpoolFiles.open": "a Spool that keeps nothing on purpose",
    "journals/broker/spools/spool_files.py:SpoolFiles.drop": "the journal was deleted, or has another life",
    "journals/broker/spools/spool_files.py:SpoolFiles.close": "a Spool that keeps nothing on purpose",
    "journals/broker/spools/spool_files.py:SpoolFiles._remove": "the fragment is stored, or the core cut the content",
    "journals/broker/spools/spool_files.py:SpoolFiles._recover": "begun after the durable state, so not acknowledged",
    "journals/broker/spools/state_log.py:StateLog.remove": "with its Spool, which is dropped",
    "journals/client/append_service.py:AppendService.done": "all appends in the file have their answers",
    "keyspace/shell/embedded/wakeups.py:Wakeups.close": "a pipe",
    "keyspace/shell/embedded/wakeups.py:Wakeups._wake": "a pipe whose reader is dead",
    "plumbing/files/whole.py:_write_on": _OWN,
    "plumbing/files/whole.py:_written": _OWN,
    "plumbing/host/loop.py:MachineLoop._submit": "a TruncateLog of the core, after the lost-and-found has its entries",
    "plumbing/objects/folder/disk.py:FolderDisk._unlink": "a delete of the store's user",
    "plumbing/objects/folder/staging.py:StagedFile.close": _OWN,
    "plumbing/objects/folder/staging.py:_remove": "unfinished objects of a process that is dead",
    "plumbing/objects/folder/syscalls.py:Syscalls.unlink": _PORT,
    "plumbing/ports/disk.py:LocalDisk.unlink": _PORT,
    "plumbing/ports/disk.py:LocalDisk.remove": _PORT,
    "plumbing/ports/disk.py:LocalDisk.remove_tree": _PORT,
    "plumbing/ports/disk.py:LocalDisk.temporary": _OWN,
    "plumbing/ports/disk.py:LocalDisk.create": _PORT,
    "plumbing/ports/disk.py:LocalDisk.ftruncate": _PORT,
    "plumbing/ports/disk.py:LocalDisk.release": "cuts to the file's own length: only the room after it is freed",
    "plumbing/process/running.py:hold": "up.json, the addresses of a process that has ended",
    "plumbing/wal/segments.py:Segments._remove": "segments that a trim or a truncation has passed",
    "plumbing/wal/segments.py:Segments._cut": "a torn tail below the witness's end, or a truncation",
    "quorum/core/follower.py:Follower.on_truncate": _CORE,
    "quorum/core/replica.py:Replica.truncate": _CORE,
    "quorum/node/lost_and_found.py:LostAndFound._write": "the oldest of many lists of rolled-back transactions",
    "quorum/node/snapshots.py:Snapshots._write": "the rest of a part that is received again",
    "quorum/node/snapshots.py:Snapshots._keep_newest": "older snapshots than the newest two, and unfinished parts",
    "spark/connection.py:_remove": "a file that this process wrote for its own driver",
    "spark/journals/java_source.py:_put": _OWN,
}
