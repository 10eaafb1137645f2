package penstock.spark.jvm;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.arrow.flatbuf.Buffer;
import org.apache.arrow.flatbuf.Message;
import org.apache.arrow.flatbuf.MessageHeader;
import org.apache.arrow.flatbuf.RecordBatch;
import org.apache.arrow.memory.ArrowBuf;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.BitVectorHelper;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.TypeLayout;
import org.apache.arrow.vector.VarCharVector;
import org.apache.arrow.vector.ipc.message.ArrowFieldNode;
import org.apache.arrow.vector.ipc.message.MessageSerializer;
import org.apache.arrow.vector.types.pojo.Field;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.execution.vectorized.ConstantColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Frames of Arrow batches as columns. The bytes come from elsewhere, and Java reads columns without asking where their
 * buffers end: so every length, place and offset is compared with what is there before a column is made of it.
 */
final class FramesReader implements PartitionReader<ColumnarBatch> {
    private static final int MAGIC = 0x36933366;
    private static final int HEAD_BYTES = 8;
    private static final int UUID_BYTES = 16;
    private static final int PREFIX_BYTES = 8; // of an IPC message: -1, and the length of its metadata
    private static final long HIGH_BITS = 0x8080808080808080L;

    private final Part part;
    private final StructType wanted;
    private final FragmentBytes bytes;
    private final BufferAllocator allocator;
    private int span; // the next one
    private long at;
    private long end;
    private byte[] written = new byte[0]; // the schema with which most frames begin
    private List<Field> fields;
    private int[] columns; // of each field, which column it is; -1: none
    private ColumnarBatch batch;

    FramesReader(Part part, StructType wanted) {
        this.part = part;
        this.wanted = wanted;
        this.bytes = new FragmentBytes(part);
        this.allocator = ArrowUtils.rootAllocator().newChildAllocator("journal", 0L, Long.MAX_VALUE);
    }

    @Override
    public boolean next() throws IOException {
        release();
        while (true) {
            if (at == end) {
                if (span == part.spans.length) {
                    bytes.finish();
                    return false;
                }
                at = part.spans[span];
                end = part.spans[span + 1];
                span += 2;
                bytes.skipTo(at);
            }
            long begin = at;
            try {
                if (readFrame()) {
                    return true;
                }
            } catch (RuntimeException error) {
                throw new IOException(part.journal + " at " + begin + ": not a record batch: " + error, error);
            } catch (IOException error) {
                throw new IOException(part.journal + " at " + begin + ": " + error.getMessage(), error);
            }
        }
    }

    @Override
    public ColumnarBatch get() {
        return batch;
    }

    @Override
    public void close() throws IOException {
        release();
        bytes.close();
        allocator.close();
    }

    private void release() {
        if (batch != null) {
            batch.close();
            batch = null;
        }
    }

    /** Does the next frame have rows? Acknowledgements have none. */
    private boolean readFrame() throws IOException {
        ByteBuffer head = bytes.get(HEAD_BYTES + UUID_BYTES);
        int magic = head.getInt();
        int length = head.getInt();
        check(magic == MAGIC && length >= UUID_BYTES && length <= end - at - HEAD_BYTES, "no frame begins here");
        at += HEAD_BYTES + length;
        int size = length - UUID_BYTES;
        return size > 0 && readBody(size);
    }

    private boolean readBody(int size) throws IOException {
        ByteBuffer schema = readMetadata(size);
        size -= PREFIX_BYTES + schema.capacity();
        if (!Arrays.equals(schema.array(), written)) {
            learn(schema);
        }
        ByteBuffer metadata = readMetadata(size);
        size -= PREFIX_BYTES + metadata.capacity();
        Message message = Message.getRootAsMessage(metadata);
        check(message.headerType() == MessageHeader.RecordBatch, "no record batch follows the schema");
        RecordBatch said = (RecordBatch) message.header(new RecordBatch());
        check(said.compression() == null, "its buffers are compressed");
        check(said.length() >= 0 && said.length() <= Integer.MAX_VALUE, "a wrong number of rows");
        check(said.nodesLength() == fields.size(), "a wrong number of columns");
        if (said.length() == 0) {
            bytes.skip(size);
            return false;
        }
        ArrowBuf body = allocator.buffer((long) size);
        try {
            bytes.get(body, size);
            batch = new ColumnarBatch(load(said, body), (int) said.length());
        } finally {
            body.close(); // columns hold what they use of it
        }
        return true;
    }

    private ByteBuffer readMetadata(int size) throws IOException {
        check(size >= PREFIX_BYTES, "cut off");
        ByteBuffer prefix = bytes.get(PREFIX_BYTES);
        check(prefix.getInt() == -1, "no Arrow IPC stream");
        int length = prefix.getInt();
        check(length > 0 && length <= size - PREFIX_BYTES, "metadata beyond the frame");
        return bytes.get(length);
    }

    private void learn(ByteBuffer schema) throws IOException {
        Message message = Message.getRootAsMessage(schema);
        check(message.headerType() == MessageHeader.Schema, "no schema at its begin");
        List<Field> found = MessageSerializer.deserializeSchema(message).getFields();
        int[] places = new int[found.size()];
        Arrays.fill(places, -1);
        for (int column = 0; column < wanted.length(); column++) {
            for (int number = 0; number < places.length; number++) {
                Field field = (Field) found.get(number);
                if (field.getName().equals(wanted.apply(column).name())) {
                    DataType kind = ArrowUtils.fromArrowField(field);
                    check(kind.equals(wanted.apply(column).dataType()), "column " + field.getName() + " is " + kind);
                    places[number] = column;
                }
            }
        }
        fields = found;
        columns = places;
        written = schema.array();
    }

    private ColumnVector[] load(RecordBatch said, ArrowBuf body) throws IOException {
        int rows = (int) said.length();
        ColumnVector[] loaded = new ColumnVector[wanted.length()];
        boolean isGood = false;
        try {
            int buffer = 0;
            for (int number = 0; number < columns.length; number++) {
                Field field = (Field) fields.get(number);
                int count = TypeLayout.getTypeBufferCount(field.getType());
                check(field.getChildren().isEmpty() && buffer + count <= said.buffersLength(), "a column in parts");
                if (columns[number] >= 0) {
                    loaded[columns[number]] = loadColumn(field, said, number, buffer, count, body);
                }
                buffer += count;
            }
            for (int column = 0; column < loaded.length; column++) {
                if (loaded[column] == null) { // which this frame's schema does not have
                    ConstantColumnVector nulls = new ConstantColumnVector(rows, wanted.apply(column).dataType());
                    nulls.setNull();
                    loaded[column] = nulls;
                }
            }
            isGood = true;
        } finally {
            for (int column = 0; column < loaded.length && !isGood; column++) {
                if (loaded[column] != null) {
                    loaded[column].close();
                }
            }
        }
        return loaded;
    }

    private ColumnVector loadColumn(Field field, RecordBatch said, int number, int first, int count, ArrowBuf body)
            throws IOException {
        int rows = (int) said.length();
        long nulls = said.nodes(number).nullCount();
        check(said.nodes(number).length() == rows && nulls >= 0 && nulls <= rows, "a column of another length");
        List<ArrowBuf> buffers = new ArrayList<ArrowBuf>();
        for (int place = first; place < first + count; place++) {
            Buffer buffer = said.buffers(place);
            boolean isWithin = buffer.offset() >= 0 && buffer.length() >= 0 && buffer.offset() <= body.capacity()
                    && buffer.length() <= body.capacity() - buffer.offset();
            check(isWithin, "a buffer beyond the frame");
            buffers.add(body.slice(buffer.offset(), buffer.length()));
        }
        FieldVector vector = field.createVector(allocator);
        boolean isGood = false;
        try {
            checkBuffers(vector, buffers, rows, nulls);
            vector.loadFieldBuffers(new ArrowFieldNode((long) rows, nulls), buffers);
            isGood = true;
        } finally {
            if (!isGood) {
                vector.close();
            }
        }
        return new ArrowColumnVector(vector);
    }

    private static void checkBuffers(FieldVector vector, List<ArrowBuf> buffers, int rows, long nulls)
            throws IOException {
        long bitBytes = ((long) rows + 7) / 8;
        ArrowBuf bits = (ArrowBuf) buffers.get(0);
        ArrowBuf values = (ArrowBuf) buffers.get(1);
        if (nulls > 0) {
            check(bits.capacity() >= bitBytes && BitVectorHelper.getNullCount(bits, rows) == nulls, "nulls miscounted");
        }
        if (vector instanceof BaseFixedWidthVector) {
            int width = ((BaseFixedWidthVector) vector).getTypeWidth();
            check(values.capacity() >= (width == 0 ? bitBytes : (long) width * rows), "too few values");
        } else {
            check(vector instanceof BaseVariableWidthVector, "a column of an unknown layout");
            if (rows > 0) {
                checkTexts(values, (ArrowBuf) buffers.get(2), rows, vector instanceof VarCharVector);
            }
        }
    }

    private static void checkTexts(ArrowBuf offsets, ArrowBuf texts, int rows, boolean isText) throws IOException {
        check(offsets.capacity() >= 4L * (rows + 1L), "too few offsets");
        int first = offsets.getInt(0L);
        int last = first;
        boolean isRising = first >= 0;
        for (long place = 4; place <= 4L * rows; place += 4) {
            int here = offsets.getInt(place);
            isRising &= here >= last;
            last = here;
        }
        check(isRising && last <= texts.capacity(), "offsets of texts beyond their bytes");
        if (isText && !isAscii(texts, first, last)) {
            for (long row = 0; row < rows; row++) {
                int begin = offsets.getInt(4 * row);
                int size = offsets.getInt(4 * row + 4) - begin;
                check(UTF8String.fromAddress(null, texts.memoryAddress() + begin, size).isValid(), "texts not in UTF-8");
            }
        }
    }

    private static boolean isAscii(ArrowBuf texts, long at, long end) {
        long seen = 0;
        for (; at + 8 <= end; at += 8) {
            seen |= texts.getLong(at);
        }
        for (; at < end; at++) {
            seen |= (long) texts.getByte(at); // a negative one has all high bits
        }
        return (seen & HIGH_BITS) == 0;
    }

    private static void check(boolean isGood, String why) throws IOException {
        if (!isGood) {
            throw new IOException("not a record batch of this schema: " + why);
        }
    }
}
