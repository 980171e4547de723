//! Constants as text.

use nlog_data::Value;

/// From here on, numbers are written in hexadecimal: they are bit patterns or reserved ranges.
const HEXADECIMAL: i64 = 0x1000;

/// A constant within a match or an action.
pub(crate) fn constant(value: &Value) -> String {
    match value {
        Value::Int(number) if *number >= HEXADECIMAL => format!("{number:#x}"),
        Value::Int(number) => number.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::String(text) => text.to_string(),
        Value::Mac(mac) => mac.to_string(),
        Value::Ip(ip) => ip.to_string(),
        Value::Net(net) => net.to_string(),
        other => other.to_string(),
    }
}
