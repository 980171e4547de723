//! Waits for frames in flight, so that "it did not arrive" is an observation and not impatience.
//!
//! The userspace datapath runs in the daemon's main loop: each round reads what the ports have received, forwards it, and
//! then answers control requests. So a switch that has answered two requests, one after the other, has forwarded
//! everything that it had received before the first.

use crate::cleanup::vswitches;
use crate::command::in_parallel;
use crate::{Error, Lab, Vswitch};

/// The maximum number of switches on the path of a frame: one in a VM with VLAN interfaces, that of its host, that of the
/// peer's host or of a physical network, and one in another such VM.
const HOPS: usize = 4;

/// Switches asked at a time.
const AT_A_TIME: usize = 4;

impl Lab {
    /// Waits until every frame that has been sent has been delivered or dropped.
    pub fn drain(&self) -> Result<(), Error> {
        drain(&vswitches(&self.state()?))
    }
}

/// Waits until these switches have forwarded all frames that they had received, and all that they then sent to each
/// other. A switch whose daemon does not run, or ends meanwhile, forwards nothing.
pub(crate) fn drain(switches: &[Vswitch]) -> Result<(), Error> {
    for _ in 0..2 * HOPS {
        let answered = in_parallel(switches, AT_A_TIME, |switch| {
            if switch.vswitchd_pid().is_none() {
                return Ok(());
            }
            match switch.appctl(&["version"]) {
                Err(_) if switch.vswitchd_pid().is_none() => Ok(()),
                answer => answer.map(drop),
            }
        });
        answered.into_iter().collect::<Result<(), Error>>()?;
    }
    Ok(())
}
