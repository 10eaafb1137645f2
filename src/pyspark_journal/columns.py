"""What PySpark's daemon runs in a worker which reads journals for Java: it takes modules named `pyspark*` alone."""

from penstock.spark.journals.column_worker import main

__all__ = ["main"]

if __name__ == "__main__":  # where Spark starts each worker by itself, without a daemon
    from pyspark.worker_util import get_sock_file_to_executor

    with get_sock_file_to_executor() as sock_file:
        main(sock_file, sock_file)
