//! Times as texts: RFC 3339, in UTC.

use std::time::SystemTime;

/// A time in the journal's form: RFC 3339, UTC, microseconds.
pub fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_micros(time).to_string()
}

/// A time as people read it: RFC 3339 in UTC, to the second.
pub fn to_the_second(time: SystemTime) -> String {
    humantime::format_rfc3339_seconds(time).to_string()
}

/// The time that [`rfc3339`] wrote.
///
/// # Errors
/// It is no time.
pub(crate) fn time_of(at: &str) -> Result<SystemTime, String> {
    humantime::parse_rfc3339(at).map_err(|error| format!("the time {at}: {error}"))
}
