//! The encoding of meters (OpenFlow 1.5, sections 7.3.4.5, 7.3.5.13 and 7.3.5.15).

use std::collections::BTreeMap;

use bytes::BytesMut;
use openflow_rs::message::{MeterDescReply, MeterStatsReply};
use openflow_rs::{Body, Message, MeterEntry, MeterMod};

use super::wire::{self, BadDesc, TooLong};
use crate::forwarding::MeterChange;
use switch_model::MeterCount;

/// The meters of a switch, by number.
pub(crate) type Meters = BTreeMap<u32, MeterEntry>;

/// Appends a meter-mod.
pub(crate) fn put_meter_mod(out: &mut BytesMut, xid: u32, change: &MeterChange) -> Result<(), TooLong> {
    let change = match (&change.value, &change.installed) {
        (Some(meter), None) => MeterMod::add(meter.clone()),
        (Some(meter), Some(_)) => MeterMod::modify(meter.clone()),
        (None, _) => MeterMod::delete(change.key),
    };
    wire::put_typed(out, xid, Body::MeterMod(change))
}

/// Reads one part of the reply to a request for meters from the message, and adds each to `meters`. Returns whether more
/// parts follow; `None` if the message replies to another request.
pub(crate) fn descriptions(message: &[u8], meters: &mut Meters) -> Result<Option<bool>, BadDesc> {
    match decode(message)? {
        Body::MeterDescReply(MeterDescReply { more, meters: part }) => {
            // Virtual meters limit what the switch sends to controllers and are not the driver's.
            let part = part.into_iter().filter(|meter| meter.id <= MeterEntry::ID_MAX);
            meters.extend(part.map(|meter| (meter.id, meter)));
            Ok(Some(more))
        }
        _ => Ok(None),
    }
}

/// Reads one part of the reply to a request for the counters of meters, as [`descriptions`].
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
