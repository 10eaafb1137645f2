"""One machine: the roles of a process, on one data folder and one port for the wire. Design: operating.md O1 to O3."""
