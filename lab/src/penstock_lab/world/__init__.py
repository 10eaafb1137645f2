"""The world: a simulator that runs the shells and clients we ship, on simulated ports. Design: rooms.md §2, §3.

Each process has an event loop of its own; all of them, the network, disks, object stores and the KeySpace share one
heap of (time, number, call). So a seed says everything that happens.
"""
