import io.holunda.camunda.bpm.correlate.correlation.BatchCorrelationMode;
import io.holunda.camunda.bpm.correlate.correlation.BatchCorrelationProcessor;
import io.holunda.camunda.bpm.correlate.correlation.CorrelationMessage;
import io.holunda.camunda.bpm.correlate.correlation.CorrelationMetrics;
import io.holunda.camunda.bpm.correlate.correlation.SingleMessageCorrelationStrategy;
import io.holunda.camunda.bpm.correlate.correlation.impl.CamundaBpmBatchCorrelationService;
import io.holunda.camunda.bpm.correlate.correlation.impl.MessageTimestampCorrelationMessageComparator;
import io.holunda.camunda.bpm.correlate.correlation.metadata.MessageMetaData;
import io.holunda.camunda.bpm.correlate.correlation.metadata.TypeInfo;
import io.holunda.camunda.bpm.correlate.event.CamundaCorrelationEvent;
import io.holunda.camunda.bpm.correlate.event.CamundaCorrelationEventFactory;
import io.holunda.camunda.bpm.correlate.event.CamundaCorrelationEventFactoryRegistry;
import io.holunda.camunda.bpm.correlate.event.CorrelationHint;
import io.holunda.camunda.bpm.correlate.event.CorrelationScope;
import io.holunda.camunda.bpm.correlate.event.CorrelationType;
import io.holunda.camunda.bpm.correlate.event.TenantHint;
import io.holunda.camunda.bpm.correlate.persist.CountByStatus;
import io.holunda.camunda.bpm.correlate.persist.MessageEntity;
import io.holunda.camunda.bpm.correlate.persist.encoding.PayloadDecoder;
import io.holunda.camunda.bpm.correlate.persist.error.RetryingErrorHandlingConfig;
import io.holunda.camunda.bpm.correlate.persist.error.RetryingSingleMessageErrorHandlingStrategy;
import io.holunda.camunda.bpm.correlate.persist.impl.DefaultMessagePersistenceService;
import io.holunda.camunda.bpm.correlate.persist.impl.InMemMessageRepository;
import io.holunda.camunda.bpm.correlate.persist.impl.MessageManagementService;
import io.holunda.camunda.bpm.correlate.persist.impl.MessagePersistenceConfig;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import kotlin.jvm.functions.Function1;
import org.camunda.bpm.engine.RuntimeService;
import org.camunda.bpm.engine.runtime.MessageCorrelationBuilder;
import org.camunda.bpm.engine.variable.Variables;

/**
 * An inbox of bpm-correlate, with the library's own classes, its repository in memory, and a clock that tests set.
 *
 * <p>Only the process engine is simulated: it accepts a message or fails, as set. Commands come on standard input,
 * a line of words each, "-" for none; each is answered by a line.
 */
final class Inbox {
  private final Moment clock = new Moment();
  private final InMemMessageRepository repository = new InMemMessageRepository();
  private final Map<String, String> groups = new HashMap<>();
  private final List<String> sent = new ArrayList<>();
  private final Set<String> failing = new TreeSet<>();
  private final Settings settings;
  private final BatchCorrelationProcessor processor;
  private final MessageManagementService management;

  Inbox(Settings settings) {
    this.settings = settings;
    var persistence =
        new DefaultMessagePersistenceService(
            settings,
            repository,
            List.of(new Undecoded()),
            clock,
            new ByGroup(),
            new RetryingSingleMessageErrorHandlingStrategy(clock, settings));
    var engine =
        new CamundaBpmBatchCorrelationService(
            new CamundaCorrelationEventFactoryRegistry(List.of(new NamedById())),
            engine(),
            BatchCorrelationMode.FAIL_FIRST);
    processor =
        new BatchCorrelationProcessor(persistence, engine, new CorrelationMetrics(new SimpleMeterRegistry()));
    management = new MessageManagementService(repository, settings, clock);
  }

  public static void main(String[] arguments) throws IOException {
    var commands = new BufferedReader(new InputStreamReader(System.in));
    Inbox inbox = null;
    for (String line; (line = commands.readLine()) != null; ) {
      var words = List.of(line.split(" "));
      var given = words.subList(1, words.size());
      if (words.get(0).equals("inbox")) {
        inbox = new Inbox(Settings.of(given));
        System.out.println();
      } else {
        System.out.println(inbox.answer(words.get(0), given));
      }
    }
  }

  private String answer(String command, List<String> given) {
    return switch (command) {
      case "message" -> add(given);
      case "correlate" -> correlate(Instant.parse(given.get(0)), given.subList(1, given.size()));
      case "clean" -> clean(Instant.parse(given.get(0)));
      case "state" -> state(given.get(0));
      default -> throw new IllegalArgumentException(command);
    };
  }

  /** ID GROUP INSERTED TTL EXPIRATION RETRIES NEXT: adds a message, new or with earlier failures. */
  private String add(List<String> given) {
    var id = given.get(0);
    groups.put(id, given.get(1));
    var retries = Integer.parseInt(given.get(5));
    repository.insert(
        new MessageEntity(
            id,
            "none",
            "none",
            "none",
            null,
            new byte[0],
            Instant.parse(given.get(2)),
            text(given.get(3)),
            instant(given.get(4)),
            retries,
            instant(given.get(6)),
            retries > 0 ? "failed before" : null));
    return "";
  }

  /** AT FAILING...: one round of correlation at a time; answers the ids that it sent to the engine, in order. */
  private String correlate(Instant at, List<String> failingIds) {
    clock.at = at;
    settings.pageSize = (int) counts().getTotal();
    sent.clear();
    failing.clear();
    failing.addAll(failingIds);
    processor.correlate();
    return String.join(" ", sent);
  }

  /** AT: removes expired messages. */
  private String clean(Instant at) {
    clock.at = at;
    settings.pageSize = (int) counts().getError();
    management.cleanupExpired();
    return "";
  }

  /** ID: answers retries, next retry and status of a message; nothing once it is gone. */
  private String state(String id) {
    var message = repository.findByIdOrNull(id);
    if (message == null) {
      return "";
    }
    var next = message.getNextRetry() == null ? "-" : message.getNextRetry().toString();
    return message.getRetries() + " " + next + " " + message.status(settings.maxRetries);
  }

  private CountByStatus counts() {
    return repository.countByStatus(settings.maxRetries, clock.at, MessageEntity.Companion.getFAR_FUTURE());
  }

  private RuntimeService engine() {
    return proxy(
        RuntimeService.class,
        (self, method, arguments) -> {
          var name = (String) arguments[0];
          return proxy(
              MessageCorrelationBuilder.class,
              (builder, called, values) -> {
                if (!called.getName().equals("correlate")) {
                  return builder;
                }
                sent.add(name);
                if (failing.contains(name)) {
                  throw new IllegalStateException("nobody waits for " + name);
                }
                return null;
              });
        });
  }

  private static <T> T proxy(Class<T> type, InvocationHandler handler) {
    return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
  }

  private static String text(String word) {
    return word.equals("-") ? null : word;
  }

  private static Instant instant(String word) {
    return word.equals("-") ? null : Instant.parse(word);
  }

  private CorrelationHint hint(CorrelationMessage message) {
    var group = groups.get(message.getMessageMetaData().getMessageId());
    return new CorrelationHint(Map.of(), null, null, null, null, TenantHint.Companion.getNONE(), false, group);
  }

  /** Messages of one group are tried together, by their time. */
  private final class ByGroup implements SingleMessageCorrelationStrategy {
    @Override
    public Function1<CorrelationMessage, CorrelationHint> correlationSelector() {
      return Inbox.this::hint;
    }

    @Override
    public Comparator<CorrelationMessage> correlationMessageSorter() {
      return new MessageTimestampCorrelationMessageComparator();
    }
  }

  private final class NamedById implements CamundaCorrelationEventFactory {
    @Override
    public CamundaCorrelationEvent create(CorrelationMessage message) {
      var id = message.getMessageMetaData().getMessageId();
      return new CamundaCorrelationEvent(
          id, Variables.createVariables(), CorrelationScope.GLOBAL, CorrelationType.MESSAGE, hint(message));
    }

    @Override
    public boolean supports(MessageMetaData metaData) {
      return true;
    }
  }

  private static final class Undecoded implements PayloadDecoder {
    @Override
    public boolean supports(String payloadEncoding) {
      return true;
    }

    @Override
    @SuppressWarnings("unchecked")
    public <T> T decode(TypeInfo payloadTypeInfo, byte[] payload) {
      return (T) payload;
    }

    @Override
    public <T> byte[] encode(T payload) {
      throw new UnsupportedOperationException();
    }
  }

  /** BASE MAX MAX_RETRIES. A page has all messages: the repository in memory has no other size. */
  private static final class Settings implements RetryingErrorHandlingConfig, MessagePersistenceConfig {
    private double base;
    private long mostMinutes;
    private int maxRetries;
    private int pageSize;

    static Settings of(List<String> given) {
      var settings = new Settings();
      settings.base = Double.parseDouble(given.get(0));
      settings.mostMinutes = Long.parseLong(given.get(1));
      settings.maxRetries = Integer.parseInt(given.get(2));
      return settings;
    }

    @Override
    public double getBackoffExponentBase() {
      return base;
    }

    /** In minutes despite its name: the library's own properties give it minutes. */
    @Override
    public long getMaximumBackOffSeconds() {
      return mostMinutes;
    }

    @Override
    public int getMaxRetries() {
      return maxRetries;
    }

    @Override
    public int getPageSize() {
      return pageSize;
    }

    @Override
    public int batchSizeLimit() {
      return -1;
    }
  }

  private static final class Moment extends Clock {
    private Instant at = Instant.EPOCH;

    @Override
    public Instant instant() {
      return at;
    }

    @Override
    public ZoneId getZone() {
      return ZoneOffset.UTC;
    }

    @Override
    public Clock withZone(ZoneId zone) {
      return this;
    }
  }
}
