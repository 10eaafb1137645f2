package penstock.spark.jvm;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.util.Collections;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/**
 * Journals as a source of columns. All thinking was done by Python's planner (column_plan.py), whose plan is the option
 * "plan"; here its parts are read. Compiled by Janino, which knows no lambdas and forgets type arguments: hence the casts.
 */
public final class JournalSource implements TableProvider {
    @Override
    public StructType inferSchema(CaseInsensitiveStringMap options) {
        throw new UnsupportedOperationException("read journals by penstock.spark.read_journal, which knows the schema");
    }

    @Override
    public boolean supportsExternalMetadata() {
        return true;
    }

    @Override
    public Table getTable(StructType schema, Transform[] partitioning, Map<String, String> properties) {
        return new JournalTable(schema);
    }

    /** The journals, as Spark's analyzer sees them. */
    public static final class JournalTable implements Table, SupportsRead {
        private final StructType schema;

        JournalTable(StructType schema) {
            this.schema = schema;
        }

        @Override
        public String name() {
            return "penstock journal";
        }

        @Override
        public StructType schema() {
            return schema;
        }

        @Override
        public Set<TableCapability> capabilities() {
            return Collections.singleton(TableCapability.BATCH_READ);
        }

        @Override
        public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
            return new JournalScan(schema, options.get("plan"));
        }
    }

    /** One use of them in a query: only the columns which it needs are read. */
    public static final class JournalScan implements ScanBuilder, SupportsPushDownRequiredColumns, Scan, Batch {
        private final StructType full;
        private StructType schema;
        private final Plan plan;

        JournalScan(StructType schema, String plan) {
            this.full = schema;
            this.schema = schema;
            try {
                this.plan = (Plan) new ObjectMapper().readValue(plan, Plan.class);
            } catch (IOException error) {
                throw new IllegalArgumentException("not a plan of journals: " + error.getMessage());
            }
        }

        /** Spark also asks for parts of columns; a column is read as a whole, and its schema says so. */
        @Override
        public void pruneColumns(StructType wanted) {
            StructField[] fields = new StructField[wanted.length()];
            for (int column = 0; column < fields.length; column++) {
                fields[column] = full.apply(wanted.fields()[column].name());
            }
            schema = new StructType(fields);
        }

        @Override
        public Scan build() {
            return this;
        }

        @Override
        public StructType readSchema() {
            return schema;
        }

        @Override
        public String description() {
            return "penstock journal, " + plan.parts.length + " parts";
        }

        @Override
        public Batch toBatch() {
            return this;
        }

        @Override
        public InputPartition[] planInputPartitions() {
            return plan.parts;
        }

        @Override
        public PartitionReaderFactory createReaderFactory() {
            return new Readers(schema, plan.workers);
        }
    }

    /** Makes readers in executors. */
    public static final class Readers implements PartitionReaderFactory {
        private final StructType schema;
        private final Plan.Workers workers;

        Readers(StructType schema, Plan.Workers workers) {
            this.schema = schema;
            this.workers = workers;
        }

        @Override
        public boolean supportColumnarReads(InputPartition part) {
            return true;
        }

        @Override
        public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition given) {
            Part part = (Part) given;
            if (part.files == null) {
                return new WorkerReader(part, schema.fieldNames(), workers, WorkerReader.ALL);
            }
            if (part.are_lines) {
                return new LinesReader(part, schema, workers);
            }
            return new FramesReader(part, schema);
        }

        @Override
        public PartitionReader<InternalRow> createReader(InputPartition part) {
            throw new UnsupportedOperationException("journals are read as columns");
        }
    }
}
