package dev.messagestore.spark;

import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.IOException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * The keys of the objects that a walk is inside of, to refuse repeated keys. Jackson's own check creates a set for each
 * object; most objects have so few keys that comparing them one by one is far cheaper.
 */
final class Keys {
  private static final int FEW = 16;

  /** A key takes far more memory than its bytes. */
  private static final int MOST = 100_000;

  private String[] names = new String[2 * FEW];
  private int top;
  private int held;
  private Map<Integer, Set<String>> many;

  /** Enters an object; the result identifies it among the objects around it. */
  int enter() {
    return top;
  }

  /** Leaves an object and all objects in it. */
  void leave(int object) {
    Set<String> seen = many == null ? null : many.remove(object);
    held -= seen == null ? top - object : seen.size();
    top = object;
  }

  /** Adds a key of the innermost object. */
  void add(int object, String name) throws IOException {
    int count = top - object;
    if (count < FEW ? among(object, name) : !seen(object).add(name)) {
      throw new IOException("key '" + name + "' comes twice in one object");
    }
    if (++held > MOST) {
      throw new IOException("there are more than " + MOST + " keys in objects within one another");
    }
    if (count < FEW) {
      if (top == names.length) {
        names = Arrays.copyOf(names, 2 * top);
      }
      names[top++] = name;
    }
  }

  private boolean among(int object, String name) {
    for (int i = object; i < top; i++) {
      if (names[i].equals(name)) {
        return true;
      }
    }
    return false;
  }

  private Set<String> seen(int object) {
    many = many == null ? new HashMap<>() : many;
    return many.computeIfAbsent(object, o -> new HashSet<>(Arrays.asList(names).subList(o, top)));
  }

  /** Skips the parser's current value. */
  void skip(JsonParser parser) throws IOException {
    JsonToken token = parser.currentToken();
    if (token == JsonToken.START_OBJECT) {
      int object = enter();
      for (String name = parser.nextFieldName(); name != null; name = parser.nextFieldName()) {
        add(object, name);
        parser.nextToken();
        skip(parser);
      }
      leave(object);
    } else if (token == JsonToken.START_ARRAY) {
      while (parser.nextToken() != JsonToken.END_ARRAY) {
        skip(parser);
      }
    }
  }
}
