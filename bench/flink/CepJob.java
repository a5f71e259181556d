import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.cep.CEP;
import org.apache.flink.cep.functions.PatternProcessFunction;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.connector.file.src.FileSourceSplit;
import org.apache.flink.core.fs.Path;
import org.apache.flink.formats.parquet.ParquetColumnarRowInputFormat;
import org.apache.flink.streaming.api.datastream.KeyedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.BigIntType;
import org.apache.flink.table.types.logical.DoubleType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.table.types.logical.RowType;
import org.apache.flink.table.types.logical.VarCharType;
import org.apache.flink.util.Collector;
import org.apache.hadoop.conf.Configuration;

/** Parquet files, those events that can matter, by key, a pattern of Flink CEP, its matches. */
final class CepJob {
    private static final int ID = 0;
    private static final int TS = 1;
    private static final int KEY = 2;
    private static final int TYPE = 3;
    private static final int V = 4;
    private static final int MICROS = 1000;
    /** Rows that are read at a time. */
    private static final int BATCH = 2048;

    private CepJob() {}

    static void build(StreamExecutionEnvironment env, String folder, CepForm form) {
        if (form.longKeys()) {
            detect(env, folder, form, Types.STRING, row -> row.getString(KEY).toString());
        } else {
            detect(env, folder, form, Types.INT, row -> row.getInt(KEY));
        }
    }

    private static <K> void detect(
            StreamExecutionEnvironment env, String folder, CepForm form, TypeInformation<K> keyType, KeyOf<K> key) {
        FileSource<RowData> source =
                FileSource.forBulkFileFormat(format(form), new Path(folder)).build();
        WatermarkStrategy<RowData> time = WatermarkStrategy.<RowData>forBoundedOutOfOrderness(form.delay())
                .withTimestampAssigner((row, unset) -> row.getLong(TS) / MICROS);
        KeyedStream<Event<K>, K> events = env.fromSource(source, time, "events")
                .flatMap(new Kept<>(form, key))
                .returns(Event.typeInfo(keyType))
                .keyBy(Event::key, keyType);
        CEP.pattern(events, Patterns.<K>of(form.query(), form.window()))
                .process(new FirstId<>(), Types.LONG)
                .sinkTo(new Found<>(id -> id));
    }

    private static ParquetColumnarRowInputFormat<FileSourceSplit> format(CepForm form) {
        List<RowType.RowField> fields = new ArrayList<>();
        fields.add(new RowType.RowField("id", new BigIntType()));
        fields.add(new RowType.RowField("ts", new BigIntType()));
        LogicalType key = form.longKeys() ? new VarCharType(VarCharType.MAX_LENGTH) : new IntType();
        fields.add(new RowType.RowField("key", key));
        fields.add(new RowType.RowField("type", new VarCharType(VarCharType.MAX_LENGTH)));
        if (form.needsV()) {
            fields.add(new RowType.RowField("v", new DoubleType()));
        }
        RowType row = new RowType(fields);
        return new ParquetColumnarRowInputFormat<>(
                new Configuration(), row, InternalTypeInfo.of(row), BATCH, true, true);
    }

    private interface KeyOf<K> extends Serializable {
        K of(RowData row);
    }

    /** Drops events that the pattern does not name, where it may: before they are moved, not after. */
    private static final class Kept<K> implements FlatMapFunction<RowData, Event<K>> {
        private final String types;
        private final boolean needsV;
        private final KeyOf<K> key;

        Kept(CepForm form, KeyOf<K> key) {
            this.types = form.types();
            this.needsV = form.needsV();
            this.key = key;
        }

        @Override
        public void flatMap(RowData row, Collector<Event<K>> out) {
            char type = (char) row.getString(TYPE).toBytes()[0];
            if (types.isEmpty() || types.indexOf(type) >= 0) {
                out.collect(new Event<>(row.getLong(ID), key.of(row), type, needsV ? row.getDouble(V) : 0));
            }
        }
    }

    private static final class FirstId<K> extends PatternProcessFunction<Event<K>, Long> {
        @Override
        public void processMatch(Map<String, List<Event<K>>> match, Context context, Collector<Long> out) {
            out.collect(match.get("a").get(0).id());
        }
    }
}
