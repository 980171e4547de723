//! Error messages of the switch, as text.

use openflow_rs::{Body, Message};

use openflow_connection::Frame;

/// The longest explanation from a switch that is shown.
const TEXT_MAX: usize = 200;

/// The error's name, with the switch's explanation if there is one.
pub(crate) fn describe(frame: &Frame) -> String {
    match Message::decode(&frame.bytes).map(|message| message.body) {
        Ok(Body::Error(error)) => {
            // A version error carries text; other errors carry the refused message.
            let text: String = std::str::from_utf8(&error.data)
                .map(|text| text.chars().filter(|c| !c.is_control()).take(TEXT_MAX).collect())
                .unwrap_or_default();
            let is_about_version = error.code == openflow_rs::message::ErrorCode::INCOMPATIBLE;
            if is_about_version && !text.is_empty() {
                format!("{}: {text}", error.code)
            } else {
                error.code.to_string()
            }
        }
        Ok(_) => "not an error message".to_owned(),
        Err(error) => error.to_string(),
    }
}
