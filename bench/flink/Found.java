import java.util.concurrent.atomic.LongAdder;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.util.function.SerializableFunction;

/** Where matches go: they are counted and the ids of their first events added up. Tasks are threads of one process. */
public final class Found<T> implements Sink<T> {
    static final LongAdder COUNT = new LongAdder();
    static final LongAdder ID_SUM = new LongAdder();

    private final SerializableFunction<T, Long> id;

    Found(SerializableFunction<T, Long> id) {
        this.id = id;
    }

    static void forget() {
        COUNT.reset();
        ID_SUM.reset();
    }

    @Override
    public SinkWriter<T> createWriter(WriterInitContext context) {
        return new SinkWriter<>() {
            @Override
            public void write(T match, Context context) {
                COUNT.increment();
                ID_SUM.add(id.apply(match));
            }

            @Override
            public void flush(boolean endOfInput) {}

            @Override
            public void close() {}
        };
    }
}
