//! Meters: the limits that the desired state asks for, as a switch holds them.
//!
//! A switch refuses changes of meters inside bundles, so new meters are sent before the bundle whose flows use them, and
//! deleted ones after it: a switch deletes the flows of a deleted meter.

use std::fmt;

use openflow_rs::MeterEntry;
use switch_model::Meter;

/// The meter with this number, as a switch describes it.
pub(crate) fn entry(id: u32, meter: Meter) -> MeterEntry {
    MeterEntry::packets_per_second(id, meter.rate, meter.burst)
}

/// Writes a meter on one line.
pub(crate) fn show(f: &mut fmt::Formatter<'_>, id: u32, meter: Option<&MeterEntry>) -> fmt::Result {
    match meter {
        Some(meter) => f.write_str(&meter.to_string().replace('\n', "")),
        None => write!(f, "meter={id},deleted"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_is_shown_on_one_line() {
        let entry = entry(7, Meter { rate: 100, burst: 10 });
        let text = |entry| fmt::from_fn(move |f| show(f, 7, entry)).to_string();
        assert_eq!(text(Some(&entry)), "meter=7 pktps burst stats bands=type=drop rate=100 burst_size=10");
        assert_eq!(text(None), "meter=7,deleted");
    }
}
