package clients;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Asks the table trips over JDBC and prints what it got, one JSON object a line: {"name": …, "found": …}. */
public final class JdbcClient {
  private static final ObjectMapper JSON = new ObjectMapper();

  private JdbcClient() {
  }

  /** args: a JDBC URL. */
  public static void main(String[] args) throws Exception {
    DriverManager.registerDriver(new org.apache.pinot.client.PinotDriver());
    try (Connection connection = DriverManager.getConnection(args[0])) {
      print("columns", columns(connection));
      print("rows", rows(connection));
      print("prepared", prepared(connection));
      print("tables", tables(connection));
      print("error", errorOf(connection));
    }
    System.exit(0);
  }

  private static List<List<String>> columns(Connection connection) throws SQLException {
    List<List<String>> names = new ArrayList<>();
    try (ResultSet found = connection.createStatement().executeQuery("SELECT tripId, city, distance, fare, share, paid, \"at\" FROM trips LIMIT 1")) {
      ResultSetMetaData meta = found.getMetaData();
      for (int column = 1; column <= meta.getColumnCount(); column++) {
        names.add(List.of(meta.getColumnName(column), meta.getColumnTypeName(column)));
      }
    }
    return names;
  }

  private static List<Object> rows(Connection connection) throws SQLException {
    List<Object> rows = new ArrayList<>();
    String query = "SELECT tripId, city, distance, fare, share, paid, \"at\" FROM trips ORDER BY tripId LIMIT 1000";
    try (ResultSet found = connection.createStatement().executeQuery(query)) {
      while (found.next()) {
        List<Object> cells = new ArrayList<>(); // the driver reads the text 'null', which stands where a row had no value, as null
        cells.add(found.getInt(1));
        cells.add(found.getString("city"));
        cells.add(found.getLong(3));
        cells.add(found.getDouble(4));
        cells.add(found.getFloat(5));
        cells.add(found.getBoolean(6));
        cells.add(found.getTimestamp(7).toString());
        rows.add(cells);
      }
    }
    return rows;
  }

  private static int prepared(Connection connection) throws SQLException {
    PreparedStatement statement = connection.prepareStatement("SELECT COUNT(*) FROM trips WHERE city = ? AND tripId < ?");
    statement.setString(1, "O'Hare");
    statement.setInt(2, 100);
    try (ResultSet found = statement.executeQuery()) {
      found.next();
      return found.getInt(1);
    }
  }

  private static List<String> tables(Connection connection) throws SQLException {
    List<String> names = new ArrayList<>();
    try (ResultSet found = connection.getMetaData().getTables(null, null, null, null)) {
      while (found.next()) {
        names.add(found.getString("TABLE_NAME"));
      }
    }
    return names;
  }

  private static String errorOf(Connection connection) {
    try {
      connection.createStatement().executeQuery("SELECT nosuch FROM trips");
      return "no error";
    } catch (SQLException error) {
      return String.valueOf(error.getMessage());
    }
  }

  private static void print(String name, Object found) throws Exception {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("name", name);
    line.put("found", found);
    System.out.println(JSON.writeValueAsString(line));
  }
}
