package penstock.spark.jvm;

import org.apache.spark.sql.connector.read.InputPartition;

/**
 * What one task reads: frames of Arrow batches from files, or whatever a Python worker makes of a request.
 * Python's planner writes it as JSON, byte arrays as Base64; see column_plan.py.
 */
public final class Part implements InputPartition {
    public String journal;
    public byte[] request; // for a worker; null: frames
    public String[] files; // fragments, in the journal's order
    public long[] begins; // the journal's offset of each file's first byte
    public long[] froms; // what is read of each file: [from, to), offsets of the journal
    public long[] tos;
    public byte[][] sums; // SHA-1 of a file which is read as a whole; null: only a part of it is
    public long[] spans; // pairs of offsets: whole frames lie within, and all which are not empty are read
}
