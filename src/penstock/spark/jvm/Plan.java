package penstock.spark.jvm;

import java.io.Serializable;
import java.util.HashMap;

/** What a DataFrame reads: decided once, by Python, when the DataFrame is made. */
public final class Plan {
    public Workers workers;
    public Part[] parts;

    /** How Python workers are started. */
    public static final class Workers implements Serializable {
        public String python;
        public String daemon;
        public boolean has_daemon;
        public HashMap<String, String> environment;
    }
}
