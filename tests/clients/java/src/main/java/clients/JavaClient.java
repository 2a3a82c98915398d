package clients;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.pinot.client.Connection;
import org.apache.pinot.client.ConnectionFactory;
import org.apache.pinot.client.ExecutionStats;
import org.apache.pinot.client.PinotClientException;
import org.apache.pinot.client.PreparedStatement;
import org.apache.pinot.client.ResultSet;
import org.apache.pinot.client.ResultSetGroup;

/** Asks the table trips in one way to find brokers and prints what it got, one JSON object a line: {"name": …, "found": …}. */
public final class JavaClient {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final Connection _connection;

  private JavaClient(Connection connection) {
    _connection = connection;
  }

  /** args: zookeeper | controller | brokers, then the address. */
  public static void main(String[] args) throws Exception {
    Connection connection = switch (args[0]) {
      case "zookeeper" -> ConnectionFactory.fromZookeeper(args[1]);
      case "controller" -> ConnectionFactory.fromController(args[1]);
      default -> ConnectionFactory.fromHostList(args[1]);
    };
    new JavaClient(connection).askAll();
    connection.close();
    System.exit(0); // ZooKeeper's and the HTTP client's threads are no daemons
  }

  private void askAll() throws Exception {
    print("count", texts("SELECT COUNT(*) FROM trips"));
    print("columns", columns("SELECT * FROM trips ORDER BY tripId LIMIT 1"));
    print("all", texts("SELECT * FROM trips ORDER BY tripId LIMIT 1000"));
    print("groups", texts("SELECT \"order\", SUM(distance), MAX(price), COUNT(*) FROM trips GROUP BY \"order\" ORDER BY \"order\""));
    print("numbers", numbers());
    print("prepared", prepared());
    print("async", _connection.executeAsync("SELECT MIN(tripId) FROM trips").get().getResultSet(0).getDouble(0, 0));
    print("no rows", texts("SELECT tripId FROM trips WHERE tripId < 0"));
    print("named table", _connection.execute("trips", "SELECT COUNT(*) FROM trips").getResultSet(0).getInt(0, 0));
    print("statistics", statistics());
    for (String query : List.of("SELEC 1", "SELECT nosuch FROM trips", "SELECT COUNT(*) FROM no_such_table")) {
      print("error of " + query, errorOf(query));
    }
  }

  private List<List<String>> texts(String query) {
    ResultSet found = _connection.execute(query).getResultSet(0);
    List<List<String>> rows = new ArrayList<>();
    for (int row = 0; row < found.getRowCount(); row++) {
      List<String> cells = new ArrayList<>();
      for (int column = 0; column < found.getColumnCount(); column++) {
        cells.add(found.getString(row, column));
      }
      rows.add(cells);
    }
    return rows;
  }

  private List<List<String>> columns(String query) {
    ResultSet found = _connection.execute(query).getResultSet(0);
    List<List<String>> names = new ArrayList<>();
    for (int column = 0; column < found.getColumnCount(); column++) {
      names.add(List.of(found.getColumnName(column), found.getColumnDataType(column)));
    }
    return names;
  }

  private List<Object> numbers() {
    ResultSet found = _connection.execute("SELECT tripId, distance, fare, share, atMillis FROM trips WHERE tripId = 7").getResultSet(0);
    return List.of(found.getInt(0, 0), found.getLong(0, 1), found.getDouble(0, 2), found.getFloat(0, 3), found.getLong(0, 4));
  }

  private List<Object> prepared() {
    List<Object> counts = new ArrayList<>();
    PreparedStatement statement =
        _connection.prepareStatement("SELECT COUNT(*) FROM trips WHERE city = ? AND tripId < ? AND distance >= ? AND fare < ? AND share <= ?");
    for (String city : List.of("Oslo", "O'Hare", "say \"hi\"", "Größe 🙂")) {
      statement.setString(0, city);
      statement.setInt(1, 200);
      statement.setLong(2, 9007199254740992L);
      statement.setDouble(3, 200.5);
      statement.setFloat(4, 0.75f);
      counts.add(statement.execute().getResultSet(0).getInt(0, 0));
    }
    return counts;
  }

  private Map<String, Object> statistics() {
    ExecutionStats stats = _connection.execute("SELECT MAX(fare) FROM trips WHERE \"order\" = 1").getExecutionStats();
    Map<String, Object> found = new LinkedHashMap<>();
    found.put("totalDocs", stats.getTotalDocs());
    found.put("numDocsScanned", stats.getNumDocsScanned());
    found.put("numServersQueried", stats.getNumServersQueried());
    found.put("numServersResponded", stats.getNumServersResponded());
    found.put("numSegmentsQueried", stats.getNumSegmentsQueried());
    found.put("groupsLimit", stats.isNumGroupsLimitReached());
    found.put("tookSomeTime", stats.getTimeUsedMs() >= 0);
    return found;
  }

  private String errorOf(String query) {
    try {
      ResultSetGroup found = _connection.execute(query);
      return "no error: " + found;
    } catch (PinotClientException error) {
      return error.getMessage();
    }
  }

  private static void print(String name, Object found) throws Exception {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("name", name);
    line.put("found", found);
    System.out.println(JSON.writeValueAsString(line));
  }
}
