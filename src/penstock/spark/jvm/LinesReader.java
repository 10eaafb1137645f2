package penstock.spark.jvm;

import java.io.IOException;
import java.util.Arrays;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;

/**
 * Lines of JSON as columns, as long as they are plain (JsonColumns). From the first which is not, a Python worker reads
 * on: it is told where.
 */
final class LinesReader implements PartitionReader<ColumnarBatch> {
    private static final int BATCH_ROWS = 1 << 13;
    private static final int BUFFER_BYTES = 1 << 18;
    private static final int LINE_BYTES_MAX = 1 << 26; // a longer one is for a worker, which has a word for it

    // {"_meta":{"uuid":"01234567-89ab-cdef-0123-456789abcdef"},
    private static final byte[] HEAD = {
        '{', '"', '_', 'm', 'e', 't', 'a', '"', ':', '{', '"', 'u', 'u', 'i', 'd', '"', ':', '"'
    };
    private static final int FLAGS_AT = HEAD.length + 20; // three digits: two bits of the clock, ten of the flags
    private static final int META_END = HEAD.length + 36; // of the quote behind the UUID
    private static final int ACK_BYTES = META_END + 4;
    private static final long NO_CLOCK = 0x3030303030303030L; // the first eight digits of a UUID without one
    private static final long BASE = (long) Platform.BYTE_ARRAY_OFFSET;

    private final Part part;
    private final String[] names;
    private final Plan.Workers workers;
    private final FragmentBytes bytes;
    private final JsonColumns columns;
    private byte[] buffer = new byte[BUFFER_BYTES + JsonColumns.PADDING];
    private int next; // whole lines: [next, stop)
    private int stop;
    private int filled; // behind them the begin of another: [stop, filled)
    private int span; // the next one
    private long at; // the journal's offset behind the buffer's bytes
    private long end; // of this span
    private long notPlainAt = -1; // the journal's offset of the first line for a worker
    private WorkerReader rest;

    LinesReader(Part part, StructType wanted, Plan.Workers workers) {
        this.part = part;
        this.names = wanted.fieldNames();
        this.workers = workers;
        this.bytes = new FragmentBytes(part);
        this.columns = new JsonColumns(wanted, BATCH_ROWS);
    }

    @Override
    public boolean next() throws IOException {
        columns.reset(buffer);
        while (notPlainAt < 0 && columns.rows() == 0 && (next < stop || fill())) {
            takeLines();
        }
        if (columns.rows() > 0) {
            return true;
        }
        if (notPlainAt >= 0) {
            if (rest == null) {
                bytes.finish(); // of what was taken, the sum is to be right
                rest = new WorkerReader(part, names, workers, notPlainAt);
            }
            return rest.next();
        }
        return false;
    }

    @Override
    public ColumnarBatch get() {
        return rest == null ? columns.batch() : rest.get();
    }

    @Override
    public void close() throws IOException {
        columns.close();
        bytes.close();
        if (rest != null) {
            rest.close();
        }
    }

    /** Lines of the buffer, up to its end or that of a batch. */
    private void takeLines() {
        byte[] lines = buffer;
        columns.reset(lines);
        int line = next;
        while (line < stop && columns.rows() < BATCH_ROWS) {
            int key = firstKey(lines, line);
            int behind = key > 0 ? columns.take(lines, key, stop) : key == 0 ? line + ACK_BYTES : key;
            if (behind == JsonColumns.NOT_PLAIN) {
                notPlainAt = at - (filled - line);
                break;
            }
            line = behind;
        }
        next = line;
    }

    /** Where a line's first key stands, or its brace; 0: it is an acknowledgement, and no row. */
    private int firstKey(byte[] lines, int line) {
        int quote = line + META_END;
        if (quote + 4 > stop || !hasHead(lines, line)) {
            return lines[line] == '{' ? line + 1 : JsonColumns.NOT_PLAIN;
        }
        if (lines[quote] != '"' || lines[quote + 1] != '}') {
            return JsonColumns.NOT_PLAIN;
        }
        boolean isAck = lines[line + FLAGS_AT + 2] == '2' && lines[line + FLAGS_AT + 1] == '0'
                && (Character.digit((char) lines[line + FLAGS_AT], 16) & 3) == 0;
        if (isAck) { // with a clock, and nothing else; others are looked at by the worker
            boolean isLone = lines[quote + 2] == '}' && lines[quote + 3] == '\n';
            boolean hasClock = Platform.getLong(lines, BASE + line + HEAD.length) != NO_CLOCK;
            return isLone && hasClock ? 0 : JsonColumns.NOT_PLAIN;
        }
        return lines[quote + 2] == ',' ? quote + 3 : quote + 2;
    }

    private static boolean hasHead(byte[] lines, int line) {
        return Platform.getLong(lines, BASE + line) == Platform.getLong(HEAD, BASE)
                && Platform.getLong(lines, BASE + line + 8) == Platform.getLong(HEAD, BASE + 8)
                && lines[line + 16] == ':' && lines[line + 17] == '"';
    }

    /** Bring lines. A span is of whole lines, so what a line's begin is left of goes on behind it. */
    private boolean fill() throws IOException {
        if (at == end && filled == stop) {
            if (span == part.spans.length) {
                bytes.finish();
                return false;
            }
            at = part.spans[span];
            end = part.spans[span + 1];
            span += 2;
            bytes.skipTo(at);
        }
        System.arraycopy(buffer, stop, buffer, 0, filled - stop);
        filled -= stop;
        next = stop = 0;
        while (stop == 0) {
            if (at == end) {
                throw new IOException(part.journal + " at " + (at - filled) + ": a line is cut off");
            }
            if (filled >= LINE_BYTES_MAX) {
                notPlainAt = at - filled;
                return false;
            }
            if (filled == buffer.length - JsonColumns.PADDING) {
                buffer = Arrays.copyOf(buffer, 2 * buffer.length);
            }
            int size = (int) Math.min(end - at, (long) (buffer.length - JsonColumns.PADDING - filled));
            bytes.get(buffer, filled, size);
            at += size;
            filled += size;
            for (stop = filled; stop > filled - size && buffer[stop - 1] != '\n'; ) {
                stop -= 1;
            }
            stop = stop == filled - size ? 0 : stop;
        }
        return true;
    }
}
