import io.siddhi.core.SiddhiAppRuntime;
import io.siddhi.core.SiddhiManager;
import io.siddhi.core.event.Event;
import io.siddhi.core.stream.input.InputHandler;
import io.siddhi.core.stream.output.StreamCallback;
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
 * Rounds of one query over events held in memory. Usage: SiddhiRounds FILE COUNT none|MINIMUM_SUM APP
 *
 * <p>Each line on standard input asks for a round and is answered by "round SECONDS MATCHES ID_SUM"; the end of input
 * ends the process. A line "round PATH" also writes the ids of the matches to a file, as little-endian longs, after the
 * clock has stopped. Only sending is timed.
 */
public final class SiddhiRounds {
    private static final String[] KINDS = {"A", "B", "C", "D", "E", "F", "G", "H", "I", "J"};
    private static final long AFTERWARDS = 3_600_000;
    /** Events that advance the clock after the last one; one is not enough for all timers. */
    private static final int CLOSING_EVENTS = 10;

    private final Object[][] events;
    private final double least;
    private final String app;
    private long[] ids = new long[1024];
    private int count;

    private SiddhiRounds(Path file, int count, double least, String app) throws IOException {
        this.events = new Object[count][];
        this.least = least;
        this.app = app;
        read(file, count);
    }

    public static void main(String[] args) throws Exception {
        double least = args[2].equals("none") ? Double.NEGATIVE_INFINITY : Double.parseDouble(args[2]);
        SiddhiRounds rounds = new SiddhiRounds(Path.of(args[0]), Integer.parseInt(args[1]), least, args[3]);
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in));
        String line;
        while ((line = asked.readLine()) != null) {
            double seconds = rounds.next();
            int path = line.indexOf(' ');
            if (path > 0) {
                rounds.write(Path.of(line.substring(path + 1)));
            }
            long sum = Arrays.stream(rounds.ids, 0, rounds.count).sum();
            System.out.printf(Locale.ROOT, "round %.9f %d %d%n", seconds, rounds.count, sum);
            System.out.flush();
        }
        // Threads that Siddhi leaves behind must not keep the process.
        System.exit(0);
    }

    /** Columns one after the other, little-endian: id and ts (8 bytes), key (4), type (1), v (8). */
    private void read(Path file, int count) throws IOException {
        try (FileChannel channel = FileChannel.open(file)) {
            ByteBuffer bytes = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size());
            bytes.order(ByteOrder.LITTLE_ENDIAN);
            for (int i = 0; i < count; i++) {
                events[i] = new Object[] {
                    bytes.getLong(8 * i),
                    bytes.getLong(8 * count + 8 * i),
                    bytes.getInt(16 * count + 4 * i),
                    KINDS[bytes.get(20 * count + i)],
                    bytes.getDouble(21 * count + 8 * i)
                };
            }
        }
    }

    /** The seconds that sending all events took. */
    private double next() throws InterruptedException {
        SiddhiManager manager = new SiddhiManager();
        SiddhiAppRuntime runtime = manager.createSiddhiAppRuntime(app);
        count = 0;
        runtime.addCallback("Out", new StreamCallback() {
            @Override
            public void receive(Event[] found) {
                for (Event one : found) {
                    add(one);
                }
            }
        });
        InputHandler input = runtime.getInputHandler("S");
        runtime.start();
        System.gc();
        long start = System.nanoTime();
        for (Object[] event : events) {
            // One millisecond later: 0 is no time for this clock to start at.
            input.send((Long) event[1] + 1, event);
        }
        long end = (Long) events[events.length - 1][1] + AFTERWARDS;
        for (int i = 0; i < CLOSING_EVENTS; i++) {
            input.send(end + i, new Object[] {-1L, end + i, -1, "Z", 0.0});
        }
        double seconds = (System.nanoTime() - start) / 1e9;
        runtime.shutdown();
        manager.shutdown();
        return seconds;
    }

    private void add(Event match) {
        double sum = 0;
        for (int i = 1; i < match.getData().length; i++) {
            sum += match.getData(i) == null ? 0 : (Double) match.getData(i);
        }
        if (sum > least) {
            if (count == ids.length) {
                ids = Arrays.copyOf(ids, 2 * count);
            }
            ids[count++] = (Long) match.getData(0);
        }
    }

    private void write(Path file) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(8 * count).order(ByteOrder.LITTLE_ENDIAN);
        bytes.asLongBuffer().put(ids, 0, count);
        Files.write(file, bytes.array());
    }
}
