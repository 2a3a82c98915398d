"""What is an instant, as text and in a time zone?

Proleptic Gregorian arithmetic on arrays of milliseconds (`civil_time`), Joda's patterns (`date_patterns`,
`date_parsing`), the tz database (`time_zones`, `zone_files`).

Read first: `civil_time`, then `date_patterns`.
Must not know: functions and queries; it works on arrays.
Background: Hinnant, "chrono-Compatible Low-Level Date Algorithms".
"""
