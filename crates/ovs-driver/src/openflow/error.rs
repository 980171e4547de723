//! Errors of the switch, as text for people.

use openflow_rs::{Body, Message};

use super::codec::Frame;

/// The longest text of the switch's own that is shown.
const TEXT_MAX: usize = 200;

/// The error's name, with the switch's explanation where there is one.
pub(crate) fn describe(frame: &Frame) -> String {
    match Message::decode(&frame.bytes).map(|message| message.body) {
        Ok(Body::Error(error)) => {
            // Only an error about the version has text for data, the others the refused message.
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
        Ok(_) => "a message that is no error".to_owned(),
        Err(error) => error.to_string(),
    }
}
