package penstock.spark.jvm;

import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.execution.vectorized.WritableColumnVector;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * The columns of a batch, filled line by line. Plain lines are understood: objects of texts without escapes, of numbers
 * and of words, without blanks, no key twice, each value of its column's type. What always holds: a line which is taken
 * is JSON, and its row is what Python's workers make of it (json_kernels.py); all others are for them.
 */
final class JsonColumns {
    static final int NOT_PLAIN = -1;
    static final int PADDING = 8; // behind the last line of an array: its bytes are looked at by eight

    private static final int SKIP = 0; // as what a value is wanted
    private static final int TEXT = 1;
    private static final int LONG = 2;
    private static final int INT = 3;
    private static final int SHORT = 4;
    private static final int BYTE = 5;
    private static final int DOUBLE = 6;
    private static final int FLOAT = 7;
    private static final int BOOLEAN = 8;

    private static final int DIGITS_DOUBLE = 15; // which a double has all of; it has powers of ten up to 22
    private static final int DIGITS_FLOAT = 7; // which a float has all of; it has powers of ten up to 10
    private static final int DIGITS_LONG = 18; // which fit into a long whatever they are
    private static final long ONES = 0x0101010101010101L;
    private static final long TOPS = 0x8080808080808080L;
    private static final long BASE = (long) Platform.BYTE_ARRAY_OFFSET;
    private static final double[] POWERS = new double[DIGITS_DOUBLE + 1];

    static {
        for (int power = 0; power < POWERS.length; power++) {
            POWERS[power] = Double.parseDouble("1e" + power);
        }
    }

    private final ColumnVector[] columns;
    private final WritableColumnVector[] values; // of the columns which are no texts
    private final TextColumn[] texts; // of those which are
    private final byte[][] names; // of the columns: with quotes and colon, as in a line
    private final int[] kinds;
    private final int[] takenBy; // of each column, the number of the line which filled it last
    private byte[][] keys = new byte[0][]; // of the line before, one after the other
    private int[] places = new int[0]; // the column of each; -1: none
    private int line; // the number of this one
    private int row;

    // the number which was read last
    private long digits;
    private int digitCount;
    private int behindPoint;
    private boolean isLong; // it has an exponent, or more digits than `digits` holds

    JsonColumns(StructType wanted, int rows) {
        columns = new ColumnVector[wanted.length()];
        values = new WritableColumnVector[columns.length];
        texts = new TextColumn[columns.length];
        names = new byte[columns.length][];
        kinds = new int[columns.length];
        takenBy = new int[columns.length];
        for (int column = 0; column < columns.length; column++) {
            names[column] = ("\"" + wanted.apply(column).name() + "\":").getBytes(StandardCharsets.UTF_8);
            kinds[column] = kindOf(wanted.apply(column).dataType());
            if (kinds[column] == TEXT) {
                columns[column] = texts[column] = new TextColumn(rows);
            } else {
                columns[column] = values[column] = new OnHeapColumnVector(rows, wanted.apply(column).dataType());
            }
        }
    }

    int rows() {
        return row;
    }

    ColumnarBatch batch() {
        return new ColumnarBatch(columns, row);
    }

    /** Begin a batch, of lines which lie in an array, and stay there until the next. */
    void reset(byte[] lines) {
        row = 0;
        for (int column = 0; column < columns.length; column++) {
            if (kinds[column] == TEXT) {
                texts[column].reset(lines);
            } else {
                values[column].reset();
            }
        }
    }

    void close() {
        for (int column = 0; column < columns.length; column++) {
            columns[column].close();
        }
    }

    /**
     * Take a line as the next row. Given is where its first key stands, or its brace, and where the last line ends; the
     * answer is the place behind its newline, or NOT_PLAIN. Then nothing more may be taken.
     */
    int take(byte[] bytes, int at, int stop) {
        line += 1;
        if (bytes[at] != '}') {
            at = takeFields(bytes, at, stop);
        }
        if (at == NOT_PLAIN || bytes[at + 1] != '\n') {
            return NOT_PLAIN;
        }
        for (int column = 0; column < columns.length; column++) {
            if (takenBy[column] != line) {
                putNull(column);
            }
        }
        row += 1;
        return at + 2;
    }

    /** The place of the brace behind the fields. */
    private int takeFields(byte[] bytes, int at, int stop) {
        for (int field = 0; ; field++) {
            if (field == keys.length || !isAt(bytes, at, stop, keys[field])) {
                if (!learn(bytes, at, stop, field)) {
                    return NOT_PLAIN;
                }
            }
            int place = places[field];
            at += keys[field].length;
            if (place < 0) {
                at = value(bytes, at, stop, SKIP, place);
            } else if (takenBy[place] != line) {
                takenBy[place] = line;
                at = value(bytes, at, stop, kinds[place], place);
            } else {
                return NOT_PLAIN; // a key for the second time
            }
            if (at == NOT_PLAIN || bytes[at] == '}') {
                return at;
            }
            if (bytes[at] != ',') {
                return NOT_PLAIN;
            }
            at += 1;
        }
    }

    /** Expect the key which stands there at this place of the lines to come. Keys which no column has are told apart by
     * nobody, so the same one twice is not noticed: neither do the workers look at them. */
    private boolean learn(byte[] bytes, int at, int stop, int field) {
        int end = bytes[at] == '"' ? textEnd(bytes, at + 1, stop) : NOT_PLAIN;
        if (end == NOT_PLAIN || bytes[end + 1] != ':') {
            return false;
        }
        if (field == keys.length) {
            keys = (byte[][]) Arrays.copyOf(keys, 2 * field + 8);
            places = Arrays.copyOf(places, 2 * field + 8);
            for (int later = field; later < keys.length; later++) {
                keys[later] = new byte[] {'\n'}; // which stands nowhere
            }
        }
        keys[field] = Arrays.copyOfRange(bytes, at, end + 2);
        places[field] = -1;
        for (int column = 0; column < names.length; column++) {
            if (Arrays.equals(names[column], keys[field])) {
                places[field] = column;
            }
        }
        return true;
    }

    private static boolean isAt(byte[] bytes, int at, int stop, byte[] key) {
        int size = key.length;
        if (at + size > stop) {
            return false;
        }
        int done = 0;
        for (; done + 8 <= size; done += 8) {
            if (Platform.getLong(bytes, BASE + at + done) != Platform.getLong(key, BASE + done)) {
                return false;
            }
        }
        if (size >= 8) {
            return Platform.getLong(bytes, BASE + at + size - 8) == Platform.getLong(key, BASE + size - 8);
        }
        for (; done < size; done++) {
            if (bytes[at + done] != key[done]) {
                return false;
            }
        }
        return true;
    }

    private void putNull(int column) {
        if (kinds[column] == TEXT) {
            texts[column].putNull(row);
        } else {
            values[column].putNull(row);
        }
    }

    /** Behind a value, which was put into its column if one wants it. */
    private int value(byte[] bytes, int at, int stop, int kind, int column) {
        byte first = bytes[at];
        if (first == '"') {
            int end = textEnd(bytes, at + 1, stop);
            if (end == NOT_PLAIN || (kind != TEXT && kind != SKIP)) {
                return NOT_PLAIN;
            }
            if (kind == TEXT) {
                texts[column].put(row, at + 1, end - at - 1);
            }
            return end + 1;
        }
        if (first > '9') {
            return word(bytes, at, kind, column);
        }
        int end = number(bytes, at);
        if (end == NOT_PLAIN || kind == SKIP) {
            return end;
        }
        return kind != TEXT && putNumber(bytes, at, end, kind, values[column]) ? end : NOT_PLAIN;
    }

    private int word(byte[] bytes, int at, int kind, int column) {
        int letters = Platform.getInt(bytes, BASE + at);
        if (letters == 0x6C6C756E) { // null
            if (kind != SKIP) {
                putNull(column);
            }
            return at + 4;
        }
        boolean isTrue = letters == 0x65757274;
        boolean isWord = isTrue || (letters == 0x736C6166 && bytes[at + 4] == 'e'); // fals
        if (!isWord || (kind != BOOLEAN && kind != SKIP)) {
            return NOT_PLAIN;
        }
        if (kind == BOOLEAN) {
            values[column].putBoolean(row, isTrue);
        }
        return at + (isTrue ? 4 : 5);
    }

    /** Where a text ends: at its quote. NOT_PLAIN if it has escapes, or bytes which are no text. */
    private static int textEnd(byte[] bytes, int begin, int stop) {
        long high = 0;
        for (int at = begin; at < stop; at += 8) {
            long word = Platform.getLong(bytes, BASE + at);
            long quote = word ^ (ONES * '"');
            long slash = word ^ (ONES * '\\');
            long marks = (((quote - ONES) & ~quote) | ((slash - ONES) & ~slash) | ((word - ONES * 0x20) & ~word)) & TOPS;
            if (marks != 0) {
                int shift = Long.numberOfTrailingZeros(marks) - 7; // of the bits before the mark's byte
                high |= word & TOPS & ((1L << shift) - 1);
                int end = at + (shift >> 3);
                boolean isText = bytes[end] == '"' && (high == 0 || isUtf8(bytes, begin, end));
                return isText ? end : NOT_PLAIN;
            }
            high |= word & TOPS;
        }
        return NOT_PLAIN;
    }

    private static boolean isUtf8(byte[] bytes, int begin, int end) {
        return UTF8String.fromBytes(bytes, begin, end - begin).isValid();
    }

    /** Behind a number as JSON has them. */
    private int number(byte[] bytes, int at) {
        at += bytes[at] == '-' ? 1 : 0;
        int first = at;
        long found = 0;
        for (; bytes[at] >= '0' && bytes[at] <= '9'; at++) {
            found = 10 * found + (bytes[at] - '0');
        }
        int count = at - first;
        if (count == 0 || (count > 1 && bytes[first] == '0')) {
            return NOT_PLAIN;
        }
        behindPoint = 0;
        if (bytes[at] == '.') {
            int point = ++at;
            for (; bytes[at] >= '0' && bytes[at] <= '9'; at++) {
                found = 10 * found + (bytes[at] - '0');
            }
            behindPoint = at - point;
            count += behindPoint;
            if (behindPoint == 0) {
                return NOT_PLAIN;
            }
        }
        digits = found;
        digitCount = count;
        isLong = count > DIGITS_LONG;
        return (bytes[at] | 0x20) == 'e' ? exponent(bytes, at + 1) : at;
    }

    private int exponent(byte[] bytes, int at) {
        isLong = true;
        at += bytes[at] == '-' || bytes[at] == '+' ? 1 : 0;
        int first = at;
        while (bytes[at] >= '0' && bytes[at] <= '9') {
            at += 1;
        }
        return at > first ? at : NOT_PLAIN;
    }

    /** Is the last number one for this column? Then it is there. */
    private boolean putNumber(byte[] bytes, int at, int end, int kind, WritableColumnVector column) {
        boolean isNegative = bytes[at] == '-';
        if (kind == DOUBLE) {
            boolean isExact = digitCount <= DIGITS_DOUBLE && !isLong;
            double found = isExact ? digits / POWERS[behindPoint] : Double.parseDouble(text(bytes, at, end));
            column.putDouble(row, isExact && isNegative ? -found : found);
            return !Double.isInfinite(found);
        }
        if (kind == FLOAT) {
            boolean isExact = digitCount <= DIGITS_FLOAT && !isLong;
            float found = isExact ? digits / (float) POWERS[behindPoint] : Float.parseFloat(text(bytes, at, end));
            column.putFloat(row, isExact && isNegative ? -found : found);
            return !Float.isInfinite(found);
        }
        if (isLong || behindPoint > 0) {
            return false;
        }
        long found = isNegative ? -digits : digits;
        switch (kind) {
            case LONG:
                column.putLong(row, found);
                return true;
            case INT:
                column.putInt(row, (int) found);
                return found == (int) found;
            case SHORT:
                column.putShort(row, (short) found);
                return found == (short) found;
            case BYTE:
                column.putByte(row, (byte) found);
                return found == (byte) found;
            default:
                return false;
        }
    }

    private static String text(byte[] bytes, int begin, int end) {
        return new String(bytes, begin, end - begin, StandardCharsets.US_ASCII);
    }

    private static int kindOf(DataType type) {
        DataType[] known = {
            DataTypes.StringType, DataTypes.LongType, DataTypes.IntegerType, DataTypes.ShortType, DataTypes.ByteType,
            DataTypes.DoubleType, DataTypes.FloatType, DataTypes.BooleanType
        };
        for (int number = 0; number < known.length; number++) {
            if (known[number].equals(type)) {
                return TEXT + number;
            }
        }
        throw new IllegalArgumentException("columns of " + type + " are read by workers");
    }
}
