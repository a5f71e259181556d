import java.time.Duration;
import org.apache.flink.cep.nfa.aftermatch.AfterMatchSkipStrategy;
import org.apache.flink.cep.pattern.Pattern;
import org.apache.flink.cep.pattern.conditions.IterativeCondition;
import org.apache.flink.cep.pattern.conditions.SimpleCondition;

/** What Flink CEP is asked. Its {@code within} leaves its bound out, so 60 s means less than 60 s. */
final class Patterns {
    private Patterns() {}

    static <K> Pattern<Event<K>, ?> of(String query, Duration window) {
        AfterMatchSkipStrategy everyStart = AfterMatchSkipStrategy.noSkip();
        switch (query) {
            case "Q1":
            case "Q1w":
                return Patterns.<K>rising(AfterMatchSkipStrategy.skipPastLastEvent()).within(window);
            case "Q1n":
                return Patterns.<K>rising(everyStart).within(window);
            case "Q2":
                return Pattern.<Event<K>>begin("a", everyStart)
                        .where(type('A'))
                        .next("b")
                        .where(new Above<>())
                        .next("c")
                        .where(type('C'))
                        .within(window);
            case "Q3":
                return Pattern.<Event<K>>begin("a", everyStart)
                        .where(type('A'))
                        .next("b")
                        .where(type('B'))
                        .oneOrMore()
                        .consecutive()
                        .greedy()
                        .next("c")
                        .where(new Heavy<>())
                        .within(window);
            case "Q4":
                return Pattern.<Event<K>>begin("a", everyStart)
                        .where(type('A'))
                        .notFollowedBy("b")
                        .where(type('B'))
                        .within(window);
            case "Q5":
                // Only A come this far, so the next event is the next A.
                return Pattern.<Event<K>>begin("a", everyStart)
                        .where(type('A'))
                        .next("b")
                        .where(type('A'))
                        .within(window);
            default:
                throw new IllegalArgumentException(query);
        }
    }

    private static <K> Pattern<Event<K>, ?> rising(AfterMatchSkipStrategy skip) {
        return Pattern.<Event<K>>begin("a", skip)
                .where(type('A'))
                .followedBy("b")
                .where(new Above<>())
                .followedBy("c")
                .where(type('C'));
    }

    private static <K> SimpleCondition<Event<K>> type(char type) {
        return SimpleCondition.of(event -> event.type() == type);
    }

    /** A B with a greater v than its A. */
    private static final class Above<K> extends IterativeCondition<Event<K>> {
        @Override
        public boolean filter(Event<K> b, Context<Event<K>> context) throws Exception {
            return b.type() == 'B' && b.v() > context.getEventsForPattern("a").iterator().next().v();
        }
    }

    /** A C after B whose v are above 100 in sum. */
    private static final class Heavy<K> extends IterativeCondition<Event<K>> {
        @Override
        public boolean filter(Event<K> c, Context<Event<K>> context) throws Exception {
            if (c.type() != 'C') {
                return false;
            }
            double sum = 0;
            for (Event<K> b : context.getEventsForPattern("b")) {
                sum += b.v();
            }
            return sum > 100;
        }
    }
}
