package penstock.spark.jvm;

import org.apache.spark.sql.connector.read.InputPartition;

/**
 * What one task reads: frames of Arrow batches or lines of JSON from files, or what a Python worker makes of a request.
 * Python's planner writes it as JSON, byte arrays as Base64; see column_plan.py.
 */
public final class Part implements InputPartition {
    public String journal;
    public byte[] request; // for a worker, who reads the part; of lines, those behind the first which is not plain
    public boolean are_lines; // else frames
    public String[] files; // fragments, in the journal's order; null: a worker reads all of it
    public long[] begins; // the journal's offset of each file's first byte
    public long[] froms; // what is read of each file: [from, to), offsets of the journal
    public long[] tos;
    public byte[][] sums; // SHA-1 of a file which is read as a whole; null: only a part of it is
    public long[] spans; // pairs of offsets: whole frames or lines lie within, and all which are not empty are read
}
