import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Locale;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.JobID;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.execution.ExecutionState;
import org.apache.flink.runtime.executiongraph.AccessExecution;
import org.apache.flink.runtime.executiongraph.AccessExecutionGraph;
import org.apache.flink.runtime.executiongraph.AccessExecutionJobVertex;
import org.apache.flink.runtime.executiongraph.AccessExecutionVertex;
import org.apache.flink.runtime.jobgraph.JobGraph;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Rounds of one query over Parquet files, on a Flink cluster inside this process.
 *
 * <p>Usage: FlinkRounds PARALLELISM sql TABLE QUERY, or FlinkRounds PARALLELISM cep FOLDER QUERY WINDOW_MS DELAY_MS
 * TYPES read-v|no-v long-keys|int-keys
 *
 * <p>Each line on standard input asks for a round and is answered by "round SECONDS MATCHES ID_SUM"; the end of input
 * ends the process. A line "round PATH" also writes the ids of the matches to a file, as little-endian longs, after the
 * clock has stopped. The time is that from the first task's being ready to read until the last task's being done: the
 * cluster is up, the job planned, its tasks are deployed and opened before it begins.
 */
public final class FlinkRounds {
    private static final String LOOPBACK = "127.0.0.1";
    private static final long ASK_SECONDS = 10;

    private FlinkRounds() {}

    public static void main(String[] args) throws Exception {
        int parallelism = Integer.parseInt(args[0]);
        Configuration settings = settings();
        MiniClusterConfiguration shape = new MiniClusterConfiguration.Builder()
                .setConfiguration(settings)
                .setNumTaskManagers(1)
                .setNumSlotsPerTaskManager(parallelism)
                .setCommonBindAddress(LOOPBACK)
                .withRandomPorts()
                .build();
        try (MiniCluster cluster = new MiniCluster(shape)) {
            cluster.start();
            BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
            String line;
            while ((line = asked.readLine()) != null) {
                StreamExecutionEnvironment env = StreamExecutionEnvironment.createLocalEnvironment(parallelism, settings);
                build(env, args);
                Found.forget();
                double seconds = run(cluster, env.getStreamGraph().getJobGraph());
                int path = line.indexOf(' ');
                if (path > 0) {
                    Found.write(Path.of(line.substring(path + 1)));
                }
                System.out.printf(
                        Locale.ROOT, "round %.3f %d %d%n", seconds, Found.COUNT.sum(), Found.ID_SUM.sum());
                System.out.flush();
            }
        }
        // Threads that Flink leaves behind must not keep the process.
        System.exit(0);
    }

    private static Configuration settings() {
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", "hashmap");
        settings.setString("pipeline.object-reuse", "true");
        // State on the heap has no use for memory of Flink's own, and a few tasks need few buffers.
        settings.setString("taskmanager.memory.managed.size", "64m");
        settings.setString("taskmanager.memory.network.max", "256m");
        settings.setString("jobmanager.bind-host", LOOPBACK);
        settings.setString("taskmanager.bind-host", LOOPBACK);
        settings.setString("rest.bind-address", LOOPBACK);
        return settings;
    }

    private static void build(StreamExecutionEnvironment env, String[] args) {
        if (args[1].equals("sql")) {
            SqlJob.build(env, args[2], args[3]);
            return;
        }
        Duration window = Duration.ofMillis(Long.parseLong(args[4]));
        Duration delay = Duration.ofMillis(Long.parseLong(args[5]));
        boolean needsV = args[7].equals("read-v");
        boolean longKeys = args[8].equals("long-keys");
        CepJob.build(env, args[2], new CepForm(args[3], window, delay, args[6], needsV, longKeys));
    }

    private static double run(MiniCluster cluster, JobGraph job) throws Exception {
        System.gc();
        JobID id = cluster.executeJobBlocking(job).getJobID();
        AccessExecutionGraph ran = cluster.getExecutionGraph(id).get(ASK_SECONDS, TimeUnit.SECONDS);
        long begin = Long.MAX_VALUE;
        long end = 0;
        for (AccessExecutionJobVertex vertex : ran.getAllVertices().values()) {
            for (AccessExecutionVertex task : vertex.getTaskVertices()) {
                AccessExecution attempt = task.getCurrentExecutionAttempt();
                begin = Math.min(begin, attempt.getStateTimestamp(ExecutionState.RUNNING));
                end = Math.max(end, attempt.getStateTimestamp(ExecutionState.FINISHED));
            }
        }
        return (end - begin) / 1000.0;
    }
}
