import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventSender;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.EPDeployment;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Locale;

/**
 * Rounds of one query over events held in memory. Usage: EsperRounds FILE COUNT together|by-type TICK EPL
 *
 * <p>Each line on standard input asks for a round and is answered by "round SECONDS MATCHES ID_SUM"; the end of input
 * ends the process. A line "round PATH" also writes the ids of the matches to a file, as little-endian longs, after the
 * clock has stopped. Only sending is timed: events are objects before the first round, and the statement is compiled
 * and deployed before the clock starts.
 */
public final class EsperRounds {
    private static final String[] COLUMNS = {"id", "ts", "key", "type", "v"};
    private static final Object[] TYPES = {long.class, long.class, Integer.class, String.class, double.class};
    private static final String[] KINDS = {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J"};
    private static final String TOGETHER = "Event";
    private static final String SUBSCRIBED = "matches";
    private static final long AFTERWARDS = 3_600_000;

    /** What Esper calls with each match; cheaper for it than a listener. */
    public static final class Matches {
        private int count;
        private long idSum;
        private long[] ids = new long[1024];

        public void update(long aid) {
            if (count == ids.length) {
                ids = Arrays.copyOf(ids, 2 * count);
            }
            ids[count++] = aid;
            idSum += aid;
        }

        void write(Path file) throws IOException {
            ByteBuffer bytes = ByteBuffer.allocate(8 * count).order(ByteOrder.LITTLE_ENDIAN);
            bytes.asLongBuffer().put(ids, 0, count);
            Files.write(file, bytes.array());
        }
    }

    private final Object[][] events;
    private final long[] times;
    private final byte[] kinds;
    private final boolean byType;
    private final long tick;
    private final Configuration configuration = new Configuration();
    private final EPCompiled compiled;
    private int rounds;
    private Matches matches;

    private EsperRounds(Path file, int count, boolean byType, long tick, String epl) throws Exception {
        this.events = new Object[count][];
        this.times = new long[count];
        this.kinds = new byte[count];
        this.byType = byType;
        this.tick = tick;
        read(file, count);
        configuration.getCompiler().getByteCode().setAllowSubscriber(true);
        configuration.getRuntime().getThreading().setInternalTimerEnabled(false);
        configuration.getCommon().addEventType(TOGETHER, COLUMNS, TYPES);
        for (String kind : KINDS) {
            configuration.getCommon().addEventType(kind, COLUMNS, TYPES);
        }
        compiled = EPCompilerProvider.getCompiler().compile(epl, new CompilerArguments(configuration));
    }

    public static void main(String[] args) throws Exception {
        EsperRounds rounds = new EsperRounds(
                Path.of(args[0]), Integer.parseInt(args[1]), args[2].equals("by-type"), Long.parseLong(args[3]), args[4]);
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = asked.readLine()) != null) {
            double seconds = rounds.next();
            int path = line.indexOf(' ');
            if (path > 0) {
                rounds.matches.write(Path.of(line.substring(path + 1)));
            }
            System.out.printf(Locale.ROOT, "round %.9f %d %d%n", seconds, rounds.matches.count, rounds.matches.idSum);
            System.out.flush();
        }
    }

    /** Columns one after the other, little-endian: id and ts (8 bytes), key (4), type (1), v (8). */
    private void read(Path file, int count) throws IOException {
        try (FileChannel channel = FileChannel.open(file)) {
            ByteBuffer bytes = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
            bytes.order(ByteOrder.LITTLE_ENDIAN);
            int timesAt = 8 * count;
            int keysAt = 16 * count;
            int kindsAt = 20 * count;
            int valuesAt = 21 * count;
            for (int i = 0; i < count; i++) {
                times[i] = bytes.getLong(timesAt + 8 * i);
                kinds[i] = bytes.get(kindsAt + i);
                // Boxed here, once: Esper looks keys up as objects.
                events[i] = new Object[] {
                    bytes.getLong(8 * i),
                    times[i],
                    bytes.getInt(keysAt + 4 * i),
                    KINDS[kinds[i]],
                    bytes.getDouble(valuesAt + 8 * i)
                };
            }
        }
    }

    /** The seconds that sending all events took. */
    private double next() throws Exception {
        EPRuntime runtime = EPRuntimeProvider.getRuntime("round" + rounds++, configuration);
        EPEventService service = runtime.getEventService();
        service.advanceTime(times[0]);
        EPDeployment deployment = runtime.getDeploymentService().deploy(compiled);
        matches = new Matches();
        runtime.getDeploymentService()
                .getStatement(deployment.getDeploymentId(), SUBSCRIBED)
                .setSubscriber(matches);
        EventSender[] senders = new EventSender[KINDS.length];
        for (int kind = 0; kind < KINDS.length; kind++) {
            senders[kind] = service.getEventSender(byType ? KINDS[kind] : TOGETHER);
        }
        System.gc();
        long start = System.nanoTime();
        send(service, senders);
        double seconds = (System.nanoTime() - start) / 1e9;
        runtime.destroy();
        return seconds;
    }

    private void send(EPEventService service, EventSender[] senders) {
        long due = times[0];
        for (int i = 0; i < events.length; i++) {
            if (times[i] >= due) {
                service.advanceTime(times[i]);
                due = times[i] + tick;
            }
            senders[kinds[i]].sendEvent(events[i]);
        }
        // What waits for time to pass has not been seen yet.
        service.advanceTime(times[times.length - 1] + AFTERWARDS);
    }
}
