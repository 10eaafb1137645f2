package penstock.spark.jvm;

import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.ByteBuffer;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.api.python.PythonWorker;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import scala.Tuple2;
import scala.collection.immutable.Map;

/**
 * What a Python worker reads and decodes, as columns: Spark's own Python sources make rows of them first.
 *
 * To the worker: length and bytes of the request, then of the columns' names, joined by newlines, then of the offset from
 * which on it reads, in digits. From it: an Arrow stream, then length and bytes of why it failed, nothing if it did not.
 * See column_worker.py.
 */
final class WorkerReader implements PartitionReader<ColumnarBatch> {
    static final long ALL = -1; // from the part's begin on

    private static final String MODULE = "pyspark_journal.columns"; // PySpark's daemon runs none but pyspark*
    private static final Class<?>[] KINDS = {String.class, String.class, String.class, Map.class, PythonWorker.class};

    private final String[] names;
    private final Plan.Workers workers;
    private final Map environment;
    private final PythonWorker worker;
    private final SocketChannel channel;
    private final BufferAllocator allocator;
    private final ArrowStreamReader stream;
    private ColumnVector[] columns;
    private ColumnarBatch batch;
    private boolean isOver; // the worker has said everything, and waits for another request

    WorkerReader(Part part, String[] names, Plan.Workers workers, long from) {
        this.names = names;
        this.workers = workers;
        this.environment = scalaMap(workers.environment);
        this.worker = start();
        this.channel = worker.channel();
        this.allocator = ArrowUtils.rootAllocator().newChildAllocator("journal", 0L, Long.MAX_VALUE);
        this.stream = new ArrowStreamReader((ReadableByteChannel) channel, allocator);
        try {
            if (!channel.isBlocking()) {
                worker.selectionKey().cancel();
                worker.selector().selectNow();
                channel.configureBlocking(true);
            }
            send(part.request);
            send(String.join("\n", names).getBytes(StandardCharsets.UTF_8));
            send(Long.toString(from).getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            allocator.close();
            giveBack("destroyPythonWorker");
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public boolean next() throws IOException {
        if (isOver) {
            return false;
        }
        if (!stream.loadNextBatch()) {
            String failure = new String(receive(receive(4).getInt()).array(), StandardCharsets.UTF_8);
            isOver = true;
            if (!failure.isEmpty()) {
                throw new IOException(failure);
            }
            return false;
        }
        VectorSchemaRoot root = stream.getVectorSchemaRoot();
        if (columns == null) {
            List<FieldVector> vectors = root.getFieldVectors();
            columns = new ColumnVector[names.length];
            for (int column = 0; column < columns.length; column++) {
                columns[column] = new StreamColumn((FieldVector) vectors.get(column));
            }
        }
        batch = new ColumnarBatch(columns, root.getRowCount());
        return true;
    }

    @Override
    public ColumnarBatch get() {
        return batch;
    }

    /**
     * A column of the stream, which frees it. Spark closes a batch before it asks for the next one, and a struct that was
     * closed has no children to load the next batch into.
     */
    private static final class StreamColumn extends ArrowColumnVector {
        StreamColumn(FieldVector vector) {
            super(vector);
        }

        @Override
        public void close() {
        }
    }

    /** A worker which has not said everything is ended, because nobody would listen. */
    @Override
    public void close() throws IOException {
        stream.close(false);
        allocator.close();
        if (isOver) {
            channel.configureBlocking(false);
        }
        giveBack(isOver ? "releasePythonWorker" : "destroyPythonWorker");
    }

    private void giveBack(String method) {
        callEnv(method, void.class, KINDS, new Object[] {workers.python, MODULE, workers.daemon, environment, worker});
    }

    private void send(byte[] content) throws IOException {
        ByteBuffer message = ByteBuffer.allocate(4 + content.length);
        message.putInt(content.length);
        message.put(content);
        message.flip();
        while (message.hasRemaining()) {
            channel.write(message);
        }
    }

    private ByteBuffer receive(int size) throws IOException {
        ByteBuffer content = ByteBuffer.allocate(size);
        while (content.hasRemaining()) {
            if (channel.read(content) < 0) {
                throw new EOFException("the Python worker has ended; its log says why");
            }
        }
        content.flip();
        return content;
    }

    private PythonWorker start() {
        Class<?>[] kinds = {String.class, String.class, String.class, Map.class, boolean.class};
        Object[] given = {workers.python, MODULE, workers.daemon, environment, Boolean.valueOf(workers.has_daemon)};
        return (PythonWorker) ((Tuple2) callEnv("createPythonWorker", Tuple2.class, kinds, given))._1();
    }

    /**
     * Call a method of the SparkEnv. By a handle, because the class cannot be looked into: some of its methods name
     * classes which are not among Spark's jars.
     */
    private static Object callEnv(String name, Class<?> result, Class<?>[] kinds, Object[] given) {
        try {
            Class<?> kind = Class.forName("org.apache.spark.SparkEnv");
            MethodHandles.Lookup methods = MethodHandles.publicLookup();
            Object env = methods.findStatic(kind, "get", MethodType.methodType(kind)).invokeWithArguments(new Object[0]);
            MethodType type = MethodType.methodType(result, kinds);
            return methods.findVirtual(kind, name, type).bindTo(env).invokeWithArguments(given);
        } catch (Throwable error) {
            throw new IllegalStateException("no Python worker: " + error.getMessage(), error);
        }
    }

    private static Map scalaMap(java.util.Map<String, String> entries) {
        Map found = scala.collection.immutable.Map$.MODULE$.empty();
        for (Iterator each = entries.entrySet().iterator(); each.hasNext(); ) {
            java.util.Map.Entry entry = (java.util.Map.Entry) each.next();
            found = (Map) found.updated(entry.getKey(), entry.getValue());
        }
        return found;
    }
}
