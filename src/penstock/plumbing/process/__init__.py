"""Parts that every process uses: logs, metrics, tasks, ports, and the loop of blocking clients."""
