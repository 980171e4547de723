//! Meters (OpenFlow 1.5, sections 7.3.4.5, 7.3.5.13 and 7.3.5.15).
//!
//! A switch refuses changes of meters inside bundles, so new meters are sent before the bundle whose flows use them, and
//! deleted ones after it: a switch deletes the flows of a deleted meter.

use std::borrow::Cow;
use std::fmt;

use bytes::BytesMut;
use openflow_rs::message::{MeterDescReply, MeterStatsReply};
use openflow_rs::{Body, Message, MeterEntry, MeterMod};
use switch_model::{Changes, Desired, Flow, Meter, MeterCount};

use super::{Batch, ChangeOf, Dump, InOpenFlow, Things, When};
use crate::wire::{self, BadDesc, TooLong};

/// What a switch says if a flow uses a meter that it does not have, or if its datapath has no such meter.
const INVALID: &str = "OFPMMFC_INVALID_METER";

/// The meters of a switch, by number.
#[derive(Debug)]
pub(crate) enum Meters {}

impl InOpenFlow for Meters {
    type Key = u32;
    type Value = MeterEntry;
    type Source = ();
    type Act = ();

    const ALONE: &'static str = "meter-mods";
    /// Open vSwitch has at most 200,000, and the kernel fewer.
    const DUMP: Dump = Dump { request: "the meter dump", what: "meters", max: 1_000_000 };
    /// A datapath may have no meters.
    const IS_OPTIONAL: bool = true;
    const IS_USED: bool = true;
    const CONTRADICTIONS: &'static [&'static str] =
        &["OFPMMFC_METER_EXISTS", "OFPMMFC_UNKNOWN_METER", INVALID];

    fn set<'d>((): &mut (), desired: &'d Desired) -> Cow<'d, Things<Self>> {
        Cow::Owned(desired.meters.iter().map(|(id, meter)| (*id, entry(*id, *meter))).collect())
    }

    fn push((): &mut (), changes: &Changes, mut push: impl FnMut(u32, Option<MeterEntry>)) {
        changes.meters.each().for_each(|(id, meter)| push(*id, meter.map(|meter| entry(*id, *meter))));
    }

    fn is_used(flow: &Flow, which: impl Fn(&u32) -> bool) -> bool {
        flow.uses_meter(|meter| which(&meter))
    }

    fn is_incapable(reason: &str) -> bool {
        reason == INVALID
    }

    fn acts(_: &Batch, change: &ChangeOf<Self>, when: When) -> impl Iterator<Item = ()> {
        let time = if change.value.is_some() { When::Before } else { When::After };
        (when == time).then_some(()).into_iter()
    }

    fn put(out: &mut BytesMut, xid: u32, change: &ChangeOf<Self>, (): ()) -> Result<(), TooLong> {
        let change = match (&change.value, &change.installed) {
            (Some(meter), None) => MeterMod::add(meter.clone()),
            (Some(meter), Some(_)) => MeterMod::modify(meter.clone()),
            (None, _) => MeterMod::delete(change.key),
        };
        wire::put_typed(out, xid, Body::MeterMod(change))
    }

    fn request() -> Body {
        Body::MeterDescRequest(MeterEntry::ALL)
    }

    fn read(message: &[u8], mut take: impl FnMut(u32, MeterEntry)) -> Result<Option<bool>, BadDesc> {
        match decode(message)? {
            Body::MeterDescReply(MeterDescReply { more, meters }) => {
                // Virtual meters limit what the switch sends to controllers and are not the driver's.
                let ours = meters.into_iter().filter(|meter| meter.id <= MeterEntry::ID_MAX);
                ours.for_each(|meter| take(meter.id, meter));
                Ok(Some(more))
            }
            _ => Ok(None),
        }
    }

    fn show(f: &mut fmt::Formatter<'_>, id: &u32, meter: Option<&MeterEntry>) -> fmt::Result {
        match meter {
            Some(meter) => f.write_str(&meter.to_string().replace('\n', "")),
            None => write!(f, "meter={id},deleted"),
        }
    }
}

/// The meter with this number, as a switch describes it.
pub(crate) fn entry(id: u32, meter: Meter) -> MeterEntry {
    MeterEntry::packets_per_second(id, meter.rate, meter.burst)
}

/// Reads one part of the reply to a request for the counters of meters, as [`InOpenFlow::read`].
pub(crate) fn counts(message: &[u8], counts: &mut Vec<MeterCount>) -> Result<Option<bool>, BadDesc> {
    match decode(message)? {
        Body::MeterStatsReply(MeterStatsReply { more, meters }) => {
            counts.extend(meters.iter().map(MeterCount::from));
            Ok(Some(more))
        }
        _ => Ok(None),
    }
}

fn decode(message: &[u8]) -> Result<Body, BadDesc> {
    Message::decode(message).map(|message| message.body).map_err(|error| BadDesc { offset: error.offset })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_is_shown_on_one_line() {
        let entry = entry(7, Meter { rate: 100, burst: 10 });
        let text = |entry| fmt::from_fn(move |f| Meters::show(f, &7, entry)).to_string();
        assert_eq!(text(Some(&entry)), "meter=7 pktps burst stats bands=type=drop rate=100 burst_size=10");
        assert_eq!(text(None), "meter=7,deleted");
    }
}
