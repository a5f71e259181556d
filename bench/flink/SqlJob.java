import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.DataTypes;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.types.DataType;

/** A table over Parquet files, a query over the table, its rows. */
final class SqlJob {
    private SqlJob() {}

    static void build(StreamExecutionEnvironment env, String table, String query) {
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.getConfig().set("table.local-time-zone", "UTC");
        tables.executeSql(table);
        // As Flink has them inside: nothing is converted only to be counted.
        DataType row = DataTypes.ROW(DataTypes.FIELD("aid", DataTypes.BIGINT())).notNull().bridgedTo(RowData.class);
        tables.<RowData>toDataStream(tables.sqlQuery(query), row).sinkTo(new Found<>(match -> match.getLong(0)));
    }
}
