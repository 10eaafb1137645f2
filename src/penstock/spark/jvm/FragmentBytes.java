package penstock.spark.jvm;

import java.io.Closeable;
import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import org.apache.arrow.memory.ArrowBuf;

/**
 * The bytes of a part's files, from the first to the last. A file which is read as a whole must have the sum which its
 * name says: it is known behind its last byte, so rows of a damaged file may have been seen before the task fails.
 */
final class FragmentBytes implements Closeable {
    private static final int CHUNK_BYTES = 1 << 18; // which stays in a core's cache until it is handed on

    private final Part part;
    private final byte[] chunk = new byte[CHUNK_BYTES];
    private int next; // what of the chunk was not handed out: [next, limit)
    private int limit;
    private int file = -1;
    private long readTo; // the journal's offset behind the chunk
    private RandomAccessFile in;
    private MessageDigest digest; // null: only a part of the file is read

    FragmentBytes(Part part) {
        this.part = part;
    }

    /** Go on at a later offset of the journal. */
    void skipTo(long offset) throws IOException {
        while (file < 0 || offset >= part.tos[file]) {
            openNext();
        }
        if (digest == null && offset > readTo) {
            in.seek(offset - part.begins[file]);
            readTo = offset;
            next = limit = 0;
        }
        while (readTo < offset) {
            fill();
        }
        next = (int) (limit - (readTo - offset));
    }

    /** The next bytes, in an array of their own. */
    ByteBuffer get(int size) throws IOException {
        byte[] found = new byte[size];
        get(found, 0, size);
        return ByteBuffer.wrap(found).order(ByteOrder.LITTLE_ENDIAN);
    }

    /** The next bytes, into an array. */
    void get(byte[] found, int at, int size) throws IOException {
        for (int done = 0; done < size; ) {
            int count = ready(size - done);
            System.arraycopy(chunk, next, found, at + done, count);
            next += count;
            done += count;
        }
    }

    /** The next bytes, into a buffer of Arrow's. */
    void get(ArrowBuf found, int size) throws IOException {
        for (int done = 0; done < size; ) {
            int count = ready(size - done);
            found.setBytes((long) done, chunk, next, (long) count);
            next += count;
            done += count;
        }
    }

    void skip(int size) throws IOException {
        for (int done = 0; done < size; ) {
            int count = ready(size - done);
            next += count;
            done += count;
        }
    }

    /** Read what is left of the last file, for its sum. */
    void finish() throws IOException {
        if (file >= 0) {
            endFile();
        }
    }

    @Override
    public void close() throws IOException {
        if (in != null) {
            in.close();
            in = null;
        }
    }

    private int ready(int size) throws IOException {
        while (next == limit) {
            if (readTo == part.tos[file]) {
                if (file + 1 == part.files.length || part.froms[file + 1] != readTo) {
                    throw new EOFException("a frame goes on at " + readTo + ", where no fragment is");
                }
                openNext();
            }
            fill();
        }
        return Math.min(size, limit - next);
    }

    private void openNext() throws IOException {
        if (file >= 0) {
            endFile();
        }
        file += 1;
        in = new RandomAccessFile(new File(URI.create(part.files[file])), "r");
        in.seek(part.froms[file] - part.begins[file]);
        readTo = part.froms[file];
        next = limit = 0;
        try {
            digest = part.sums[file] == null ? null : MessageDigest.getInstance("SHA-1");
        } catch (GeneralSecurityException error) {
            throw new IOException(error);
        }
    }

    private void fill() throws IOException {
        int size = (int) Math.min(part.tos[file] - readTo, (long) CHUNK_BYTES);
        try {
            in.readFully(chunk, 0, size);
        } catch (EOFException error) {
            throw new IOException(part.files[file] + " has less content than its name says");
        }
        if (digest != null) {
            digest.update(chunk, 0, size);
        }
        readTo += size;
        next = 0;
        limit = size;
    }

    private void endFile() throws IOException {
        if (digest != null) {
            while (readTo < part.tos[file]) {
                fill();
            }
            if (!MessageDigest.isEqual(digest.digest(), part.sums[file])) {
                throw new IOException(part.files[file] + " is damaged: its content has another sum than its name");
            }
            digest = null; // who has reached the end may ask again
        }
        close();
    }
}
