package penstock.spark.jvm;

import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.types.UTF8String;

/** Texts which stay where they were read: of each row, where in an array of lines it lies. */
final class TextColumn extends ColumnVector {
    private static final int NONE = -1; // the length of a null

    private final int[] begins;
    private final int[] lengths;
    private byte[] lines;
    private int nulls;

    TextColumn(int rows) {
        super(DataTypes.StringType);
        begins = new int[rows];
        lengths = new int[rows];
    }

    /** Forget all rows; those to come lie in these lines, which stay as they are until then. */
    void reset(byte[] lines) {
        this.lines = lines;
        nulls = 0;
    }

    void put(int row, int begin, int length) {
        begins[row] = begin;
        lengths[row] = length;
    }

    void putNull(int row) {
        lengths[row] = NONE;
        nulls += 1;
    }

    @Override
    public UTF8String getUTF8String(int row) {
        return lengths[row] == NONE ? null : UTF8String.fromBytes(lines, begins[row], lengths[row]);
    }

    @Override
    public boolean isNullAt(int row) {
        return lengths[row] == NONE;
    }

    @Override
    public boolean hasNull() {
        return nulls > 0;
    }

    @Override
    public int numNulls() {
        return nulls;
    }

    @Override
    public void close() {
        lines = null;
    }

    @Override
    public boolean getBoolean(int row) {
        throw noText();
    }

    @Override
    public byte getByte(int row) {
        throw noText();
    }

    @Override
    public short getShort(int row) {
        throw noText();
    }

    @Override
    public int getInt(int row) {
        throw noText();
    }

    @Override
    public long getLong(int row) {
        throw noText();
    }

    @Override
    public float getFloat(int row) {
        throw noText();
    }

    @Override
    public double getDouble(int row) {
        throw noText();
    }

    @Override
    public ColumnarArray getArray(int row) {
        throw noText();
    }

    @Override
    public ColumnarMap getMap(int row) {
        throw noText();
    }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
        throw noText();
    }

    @Override
    public byte[] getBinary(int row) {
        throw noText();
    }

    @Override
    public ColumnVector getChild(int ordinal) {
        throw noText();
    }

    private static UnsupportedOperationException noText() {
        return new UnsupportedOperationException("a column of texts");
    }
}
