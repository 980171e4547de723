//! `ovs-ofctl` prints many messages in one process.

use std::io::Write;

use openflow_rs::{Body, Message};
use ovs_testing::ofctl;

/// The transaction id of the messages that separate others in a batch.
const MARK: u32 = 0x4d41_524b;

/// The text that `ovs-ofctl` prints for each message, without last line ends.
pub(crate) fn print_all(messages: &[Vec<u8>]) -> Vec<String> {
    let mark = Message { xid: MARK, body: Body::BarrierRequest };
    let marker = mark.to_string() + "\n";
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    for message in messages {
        file.write_all(message).expect("written");
        file.write_all(&mark.encode().expect("a short message")).expect("written");
    }
    let printed = ofctl(&["ofp-parse", file.path().to_str().expect("an ASCII path")]);
    let mut texts: Vec<String> =
        printed.split(&marker).map(|text| text.strip_suffix('\n').unwrap_or(text).to_owned()).collect();
    assert_eq!(texts.pop().as_deref(), Some(""), "ovs-ofctl stopped early:\n{printed}");
    assert_eq!(texts.len(), messages.len());
    texts
}

/// Requires that `ovs-ofctl` prints each message as this crate does.
pub(crate) fn check_printed(messages: &[Message]) {
    let bytes: Vec<Vec<u8>> =
        messages.iter().map(|message| message.encode().expect("a short message")).collect();
    for ((message, bytes), printed) in messages.iter().zip(&bytes).zip(print_all(&bytes)) {
        check_lines(&message.to_string(), &printed);
        assert_eq!(Message::decode(bytes).as_ref(), Ok(message));
    }
}

/// Requires that our text equals that of Open vSwitch; shows the first line that differs.
pub(crate) fn check_lines(ours: &str, printed: &str) {
    for (ours, printed) in ours.lines().zip(printed.lines()) {
        assert_eq!(ours, printed);
    }
    assert_eq!(ours.len(), printed.len(), "one is longer:\n{ours}\n{printed}");
}
