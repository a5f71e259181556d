import java.time.Duration;

/**
 * A query as Flink CEP is asked it.
 *
 * @param query the name of its pattern
 * @param window how long a match may take, its bound left out
 * @param delay how late events may come
 * @param types the letters of the events that can matter; empty where all do
 * @param needsV whether it reads v
 * @param longKeys whether keys are texts, not numbers
 */
record CepForm(String query, Duration window, Duration delay, String types, boolean needsV, boolean longKeys) {}
