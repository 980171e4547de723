//! The form of lines: text, or JSON.

use std::fmt;
use std::time::SystemTime;

use nlog_data::quotation::{grouped, shown};
use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use weft_core::times::rfc3339;

use super::Log;
use super::limits::Summary;
use crate::config::LogFormat;

/// The members of each line of JSON. An event's own field of such a name gets [`OWN`] before it.
const MEMBERS: [&str; 4] = ["time", "level", "target", "message"];
const OWN: &str = "field_";

/// Where lines go, in which form.
#[derive(Clone)]
pub(super) struct Lines {
    pub(super) log: Log,
    pub(super) format: LogFormat,
}

impl Lines {
    /// Logs how many lines of a message were left out.
    pub(super) fn summary(&self, summary: &Summary) {
        let Summary { metadata, count, during, text } = summary;
        let seconds = during.as_secs_f64();
        let left_out = match count {
            1 => "1 more like this was left out".to_owned(),
            _ => format!(
                "{} more like this were left out",
                grouped(usize::try_from(*count).unwrap_or(usize::MAX))
            ),
        };
        match self.format {
            LogFormat::Json => {
                let mut line = JsonLine::begin(metadata, SystemTime::now());
                line.member("message", &left_out);
                line.member("like", text);
                line.member("left_out", count);
                line.member("seconds", &seconds);
                self.log.add(&line.end());
            }
            LogFormat::Text => {
                let (time, level, target) = (rfc3339(SystemTime::now()), metadata.level(), metadata.target());
                let text = shown(text);
                let line = format!("{time} {level:>5} {target}: {left_out} in {seconds:.1} s: {text}\n");
                self.log.add(line.as_bytes());
            }
        }
    }
}

/// The layer that writes a line of JSON for each event.
pub(super) struct JsonLines(pub(super) Log);

impl<S: Subscriber> Layer<S> for JsonLines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        self.0.add(&json_line(event, SystemTime::now()));
    }
}

fn json_line(event: &Event<'_>, time: SystemTime) -> Vec<u8> {
    let mut line = JsonLine::begin(event.metadata(), time);
    event.record(&mut line);
    line.end()
}

/// A line of JSON, member after member.
struct JsonLine(Vec<u8>);

impl JsonLine {
    fn begin(metadata: &Metadata<'_>, time: SystemTime) -> JsonLine {
        let mut line = JsonLine(Vec::with_capacity(256));
        line.member("time", &rfc3339(time));
        line.member("level", metadata.level().as_str());
        line.member("target", metadata.target());
        line
    }

    /// Adds a member. Texts and numbers can always be written: a number that JSON does not have becomes `null`.
    fn member(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        self.0.push(if self.0.is_empty() { b'{' } else { b',' });
        let _written = serde_json::to_writer(&mut self.0, name);
        self.0.push(b':');
        let _written = serde_json::to_writer(&mut self.0, value);
    }

    fn field(&mut self, field: &Field, value: &(impl Serialize + ?Sized)) {
        let name = field.name();
        if name != "message" && MEMBERS.contains(&name) {
            self.member(&format!("{OWN}{name}"), value);
        } else {
            self.member(name, value);
        }
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend_from_slice(b"}\n");
        self.0
    }
}

impl Visit for JsonLine {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.field(field, &value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.field(field, &value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.field(field, &value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.field(field, &value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.field(field, &format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use serde_json::{Value, json};
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    /// Keeps the lines of events.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl<S: Subscriber> Layer<S> for Kept {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_000_001);
            self.0.lock().unwrap().extend(json_line(event, time));
        }
    }

    #[test]
    fn each_line_is_one_object_whatever_the_fields_are() {
        let kept = Kept::default();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(kept.clone()), || {
            let odd = "\"quoted\"\n\u{0}\u{1b}[31m\u{2028}";
            let error = std::io::Error::other(odd);
            tracing::warn!(switch = odd, %error, debug = ?odd, count = u64::MAX, less = -1, is = true, "a {odd} text");
            tracing::info!(nan = f64::NAN, half = 0.5, big = u128::MAX);
            tracing::info!(target: "elsewhere", target = "a", level = 1, time = 2, "own fields");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let odd = "\"quoted\"\n\u{0}\u{1b}[31m\u{2028}";
        let module = module_path!();
        assert_eq!(
            lines,
            [
                json!({"time": "1970-01-01T00:00:01.000001Z", "level": "WARN", "target": module,
                    "message": format!("a {odd} text"), "switch": odd, "error": odd, "debug": format!("{odd:?}"),
                    "count": u64::MAX, "less": -1, "is": true}),
                json!({"time": "1970-01-01T00:00:01.000001Z", "level": "INFO", "target": module,
                    "nan": null, "half": 0.5, "big": u128::MAX.to_string()}),
                json!({"time": "1970-01-01T00:00:01.000001Z", "level": "INFO", "target": "elsewhere",
                    "message": "own fields", "field_target": "a", "field_level": 1, "field_time": 2}),
            ]
        );
    }
}
