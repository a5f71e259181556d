import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.LongAdder;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.util.function.SerializableFunction;

/**
 * Where matches go: they are counted, and the ids of their first events added up and collected. Tasks are threads of one
 * process.
 */
public final class Found<T> implements Sink<T> {
    static final LongAdder COUNT = new LongAdder();
    static final LongAdder ID_SUM = new LongAdder();
    private static final List<long[]> IDS = new ArrayList<>();

    private final SerializableFunction<T, Long> id;

    Found(SerializableFunction<T, Long> id) {
        this.id = id;
    }

    static void forget() {
        COUNT.reset();
        ID_SUM.reset();
        synchronized (IDS) {
            IDS.clear();
        }
    }

    static void write(Path file) throws IOException {
        synchronized (IDS) {
            int count = IDS.stream().mapToInt(part -> part.length).sum();
            ByteBuffer bytes = ByteBuffer.allocate(8 * count).order(ByteOrder.LITTLE_ENDIAN);
            for (long[] part : IDS) {
                for (long one : part) {
                    bytes.putLong(one);
                }
            }
            Files.write(file, bytes.array());
        }
    }

    @Override
    public SinkWriter<T> createWriter(WriterInitContext context) {
        return new SinkWriter<>() {
            private long[] ids = new long[1024];
            private int count;

            @Override
            public void write(T match, Context context) {
                long one = id.apply(match);
                COUNT.increment();
                ID_SUM.add(one);
                if (count == ids.length) {
                    ids = Arrays.copyOf(ids, 2 * count);
                }
                ids[count++] = one;
            }

            @Override
            public void flush(boolean endOfInput) {}

            @Override
            public void close() {
                synchronized (IDS) {
                    IDS.add(Arrays.copyOf(ids, count));
                }
            }
        };
    }
}
