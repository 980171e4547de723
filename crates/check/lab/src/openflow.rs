//! Counts the OpenFlow messages that a switch received.
//!
//! Open vSwitch 3.1 offers three other counts of flow-mods, none of them exact. Its log line `N flow_mods in the last M s`
//! counts only those that succeeded, and appears up to a minute late while the connection lasts. A flow monitor reports
//! changes of tables, not requests. Coverage counters (`ofproto_recv_openflow`, `vconn_received`) do not distinguish kinds
//! and lag by seconds. Debug logging of the `vconn` module without a rate limit is exact: one record for every message
//! received, also in bundles, whether it changes something, changes nothing or is refused.
//!
//! Logging costs the daemon about 16 us and 230 bytes per flow-mod (50,000 in one bundle take 1.4 s instead of 0.6 s, and
//! 11 MB of log, on two shared cores). It is therefore on only between [`Host::mark_openflow`] and
//! [`Host::unmark_openflow`]; do not use it while measuring speed.

use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::command::wait_for;
use crate::{Error, Host};

/// A point in a switch's life from which messages are counted.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct OpenflowMark {
    log: PathBuf,
    offset: u64,
    pid: u32,
}

/// Messages that a switch received, on all bridges and from all controllers and tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenflowCount {
    /// `FLOW_MOD`, alone or in a bundle, with any outcome.
    pub flow_mods: u64,
    /// `GROUP_MOD`, likewise.
    pub group_mods: u64,
    /// `METER_MOD`.
    pub meter_mods: u64,
    /// Everything else except bundle control: hello, echo, barriers, requests for statistics.
    pub others: u64,
}

impl OpenflowCount {
    /// Messages that can change tables.
    pub fn modifications(&self) -> u64 {
        self.flow_mods + self.group_mods + self.meter_mods
    }
}

impl Host {
    /// Starts counting now.
    pub fn mark_openflow(&self) -> Result<OpenflowMark, Error> {
        let pid = self.vswitchd_pid().unwrap_or(0);
        self.appctl(&["vlog/set", "vconn:file:dbg", "unixctl:file:dbg"])?;
        self.appctl(&["vlog/disable-rate-limit", "vconn", "unixctl"])?;
        Ok(OpenflowMark { log: self.vswitchd_log(), offset: self.fence_log()?, pid })
    }

    /// Counts messages that the daemon has received since the mark. A sender whose messages should be counted waits for a
    /// barrier reply first. A restart of the daemon in between is an error.
    pub fn openflow_since(&self, mark: &OpenflowMark) -> Result<OpenflowCount, Error> {
        let now = self.vswitchd_pid();
        if now != Some(mark.pid) {
            return Err(Error::Restarted { host: self.name.clone(), then: mark.pid, now });
        }
        let length = self.fence_log()?.saturating_sub(mark.offset);
        let open = || {
            let mut file = std::fs::File::open(&mark.log)?;
            file.seek(SeekFrom::Start(mark.offset))?;
            count(BufReader::new(file.take(length)))
        };
        open().map_err(Error::io("read", &mark.log))
    }

    /// Flow-mods since the mark; see [`Host::openflow_since`].
    pub fn flow_mod_count(&self, mark: &OpenflowMark) -> Result<u64, Error> {
        Ok(self.openflow_since(mark)?.flow_mods)
    }

    /// Ends the logging that counting needs.
    pub fn unmark_openflow(&self) -> Result<(), Error> {
        self.appctl(&["vlog/set", "vconn:file:info", "unixctl:file:info"])?;
        self.appctl(&["vlog/enable-rate-limit", "vconn", "unixctl"]).map(drop)
    }

    /// The position in the log that corresponds to now. The daemon writes its log in order but in the background, and
    /// `vlog/reopen` does not wait for it. So this sends a request that the log will show, and waits for it there.
    fn fence_log(&self) -> Result<u64, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let token = format!("fence-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let log = self.vswitchd_log();
        let from = std::fs::metadata(&log).map_err(Error::io("read", &log))?.len();
        match self.appctl(&["coverage/read-counter", &token]) {
            // There is no such counter; only the daemon's answer matters.
            Ok(_) | Err(Error::Command { .. }) => {}
            Err(error) => return Err(error),
        }
        let written = || {
            let mut bytes = Vec::new();
            let mut file = std::fs::File::open(&log)?;
            file.seek(SeekFrom::Start(from))?;
            file.read_to_end(&mut bytes)?;
            let at = bytes.windows(token.len()).position(|window| window == token.as_bytes());
            Ok(at.map(|at| from + (at + token.len()) as u64))
        };
        wait_for(&self.name, "a record in the log of ovs-vswitchd", Duration::from_mins(1), || {
            written().map_err(Error::io("read", &log))
        })
    }
}

/// Counts the records of a log. A message in a bundle has a separate line below the record of the `BUNDLE_ADD_MESSAGE`
/// that contains it.
fn count(log: impl BufRead) -> std::io::Result<OpenflowCount> {
    let mut counted = OpenflowCount::default();
    let mut in_bundle = false;
    for line in log.split(b'\n') {
        let line = line?;
        let line = String::from_utf8_lossy(&line);
        let message = match received(&line) {
            Some(message) if message.starts_with("OFPT_BUNDLE_ADD_MESSAGE ") => {
                in_bundle = true;
                continue;
            }
            Some(message) => {
                in_bundle = false;
                message
            }
            None if is_record(&line) => {
                in_bundle = false;
                continue;
            }
            None if in_bundle && line.starts_with("OFP") => &line,
            None => continue,
        };
        match message.split(' ').next() {
            Some("OFPT_FLOW_MOD") => counted.flow_mods += 1,
            Some("OFPT_GROUP_MOD") => counted.group_mods += 1,
            Some("OFPT_METER_MOD") => counted.meter_mods += 1,
            _ => counted.others += 1,
        }
    }
    Ok(counted)
}

/// The message of a record like `2026-01-01T00:00:00.000Z|00042|vconn|DBG|unix#4: received: OFPT_HELLO ...`.
fn received(line: &str) -> Option<&str> {
    let mut fields = line.splitn(5, '|').skip(2);
    let (module, level, text) = (fields.next()?, fields.next()?, fields.next()?);
    (module == "vconn" && level == "DBG").then(|| text.split_once(": received: ")).flatten().map(|(_, m)| m)
}

fn is_record(line: &str) -> bool {
    let mut fields = line.split('|');
    fields.next().is_some_and(|time| time.ends_with('Z') && time.contains('T'))
        && fields
            .next()
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_messages_alone_and_in_bundles_and_not_what_was_sent() {
        let log = "\
2026-01-01T00:00:00.000Z|1|vconn|DBG|unix#1: received: OFPT_HELLO (OF1.5) (xid=0x5):
 version bitmap: 0x06
2026-01-01T00:00:00.000Z|2|vconn|DBG|unix#1: received: OFPT_BUNDLE_ADD_MESSAGE (OF1.5) (xid=0x6):
 bundle_id=0 flags=atomic ordered
OFPT_FLOW_MOD (OF1.5) (xid=0x6): ADD table:2 priority=5,tcp,tp_dst=1 actions=drop
2026-01-01T00:00:00.000Z|3|vconn|DBG|unix#1: received: OFPT_BUNDLE_ADD_MESSAGE (OF1.5) (xid=0x7):
 bundle_id=0 flags=atomic ordered
OFPT_GROUP_MOD (OF1.5) (xid=0x7):
 ADD group_id=4,type=all
2026-01-01T00:00:00.000Z|4|vconn|DBG|unix#1: received: OFPT_FLOW_MOD (OF1.5) (xid=0x8): DEL table:2 actions=drop
2026-01-01T00:00:00.000Z|5|vconn|DBG|unix#1: sent (Success): OFPT_ERROR (OF1.5) (xid=0x8): OFPFMFC_OVERLAP
OFPT_FLOW_MOD (OF1.5) (xid=0x8): DEL table:2 actions=drop
2026-01-01T00:00:00.000Z|6|connmgr|INFO|br-int<->unix#1: 2 flow_mods in the last 0 s (2 adds)
";
        let expected = OpenflowCount { flow_mods: 2, group_mods: 1, meter_mods: 0, others: 1 };
        assert_eq!(count(log.as_bytes()).unwrap(), expected);
    }
}
