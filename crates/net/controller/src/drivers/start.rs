//! The present start of the controller, as its switches know it.

use std::time::SystemTime;

use ovs_driver::Owner;
use weft_core::times::rfc3339;

/// The present start of the controller.
#[derive(Debug, Clone)]
pub(crate) struct Start {
    epoch: u64,
    host: String,
    at: SystemTime,
    take_over: bool,
}

impl Start {
    /// A start with this number, at this time. `take_over`: whether it takes the switches of other controllers.
    pub(crate) fn new(epoch: u64, at: SystemTime, take_over: bool) -> Start {
        Start { epoch, host: host(), at, take_over }
    }

    /// The controller of this journal, as switches know it.
    pub(super) fn owner(&self, journal: &str) -> Owner {
        let Start { epoch, host, at, take_over } = self;
        Owner::new(journal, *epoch, host, rfc3339(*at)).taking_over(*take_over)
    }
}

/// The name of this machine, for people.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() { "unknown".to_owned() } else { name.to_owned() }
}
