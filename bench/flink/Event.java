import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple4;
import org.apache.flink.api.java.typeutils.TupleTypeInfo;

/** An event on its way to its key: a tuple, whose fields Flink moves without reflection. Its time travels beside it. */
public final class Event<K> extends Tuple4<Long, K, Character, Double> {
    public Event() {}

    public Event(long id, K key, char type, double v) {
        super(id, key, type, v);
    }

    public long id() {
        return f0;
    }

    public K key() {
        return f1;
    }

    public char type() {
        return f2;
    }

    public double v() {
        return f3;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    static <K> TypeInformation<Event<K>> typeInfo(TypeInformation<K> key) {
        return new TupleTypeInfo(Event.class, Types.LONG, key, Types.CHAR, Types.DOUBLE);
    }
}
