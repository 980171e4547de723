//! What somebody who helps needs to know of the daemon itself: the configuration in force, and the last lines of the log.

use std::sync::{Arc, Mutex, PoisonError};

use weft_client::pb;

use crate::last_lines::LastLines;

/// The bytes of log lines in a message.
const PART: usize = 256 << 10;

/// What is known of the daemon. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Diagnostics {
    configuration: Arc<Mutex<String>>,
    log: LastLines,
}

impl Diagnostics {
    /// Those of a daemon with this log.
    pub(crate) fn new(log: LastLines) -> Self {
        Diagnostics { log, ..Diagnostics::default() }
    }

    /// This configuration is in force from now on.
    pub(crate) fn configured(&self, configuration: &str) {
        *self.configuration.lock().unwrap_or_else(PoisonError::into_inner) = without_passwords(configuration);
    }

    /// All of it, in messages. The first one has the configuration.
    pub(crate) fn messages(&self) -> Vec<pb::ReadDiagnosticsResponse> {
        let configuration = self.configuration.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut messages = vec![pb::ReadDiagnosticsResponse { configuration, log: Vec::new() }];
        let mut bytes = 0;
        for line in self.log.read() {
            bytes += line.len() + 1;
            if bytes > PART {
                bytes = line.len() + 1;
                messages.push(pb::ReadDiagnosticsResponse::default());
            }
            messages.last_mut().into_iter().for_each(|message| message.log.push(line.clone()));
        }
        messages
    }
}

/// A configuration has no secrets, only the names of files with them. But the address of something outside can have a user and a password:
/// `https://NAME:PASSWORD@HOST`.
fn without_passwords(text: &str) -> String {
    let mut parts = text.split("://");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let authority = part.find(['/', '"', '\'', ' ', '\n']).map_or(part, |end| &part[..end]);
        let host = authority.rfind('@').map_or(0, |at| at + 1);
        kept += "://";
        kept += if host == 0 { "" } else { "(left out)@" };
        kept += &part[host..];
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_addresses_are_left_out() {
        let text = "a = \"https://alice:p@ss@example.net/x@y\" # default\nb = \"unix:/a@b\"\nc = \"http://host:1\"\n";
        let expected = "a = \"https://(left out)@example.net/x@y\" # default\nb = \"unix:/a@b\"\nc = \"http://host:1\"\n";
        assert_eq!(without_passwords(text), expected);
    }

    #[test]
    fn a_long_log_comes_in_several_messages() {
        let log = LastLines::default();
        let diagnostics = Diagnostics::new(log.clone());
        diagnostics.configured("workers = 1\n");
        assert_eq!(diagnostics.messages().len(), 1);
        for number in 0..1000 {
            log.add(format!("{number:0>1000}").as_bytes());
        }
        let messages = diagnostics.messages();
        assert!(messages.len() > 3 && messages[1..].iter().all(|message| message.configuration.is_empty()));
        assert_eq!(messages[0].configuration, "workers = 1\n");
        assert_eq!(messages.iter().flat_map(|message| &message.log).count(), 1000);
        assert!(
            messages
                .iter()
                .all(|message| message.log.iter().map(|line| line.len() + 1).sum::<usize>() <= PART)
        );
    }
}
