"""What PySpark's daemon runs in a worker which reads journals for Java: it takes modules named `pyspark*` alone."""

from penstock.spark.journals.column_worker import main

__all__ = ["main"]

if __name__ == "__main__":  # where Spark starts each worker by itself, without a daemon
    from penstock.spark.versions import executor_file

    with executor_file() as sock_file:
        main(sock_file, sock_file)
