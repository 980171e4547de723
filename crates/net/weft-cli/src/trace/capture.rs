//! The frames of a capture, as tcpdump writes one.

use std::fs::File;
use std::path::Path;

use frame_builder::captured;

use crate::exit::Failure;

/// The frames of a file in the format pcap or pcapng.
pub(super) fn frames(file: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let name = file.display();
    let opened = File::open(file).map_err(|error| Failure::outside(format!("cannot read {name}"), error))?;
    captured(opened).map_err(|why| Failure::Rejected(format!("{name} is no capture that can be read: {why}")))
}
