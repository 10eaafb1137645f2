"""The runtime: runs the pure cores on asyncio, sockets and disks."""
