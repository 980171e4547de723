//! Frames that tell the physical network the new place of an address.

use std::sync::Arc;

use nlog_data::{Row, Value};
use openflow_rs::MacAddr;

use crate::kind::{Again, Kind, Reader, RowError};
use crate::rows::PORT_MAX;
use crate::table::{INT, MAC, STRING, SwitchTable};

/// The last VLAN.
const VLAN_MAX: u16 = 4094;

/// A frame that leaves the switch through a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The OpenFlow number of the port.
    pub ofport: u16,
    /// The frame, from its destination address on, with its VLAN tag if it has one.
    pub bytes: Arc<[u8]>,
}

/// The announcements of a switch. A name is that of an address of a port; each row that comes is a frame.
#[derive(Debug)]
pub enum Announcements {}

impl Kind for Announcements {
    const TABLE: SwitchTable = SwitchTable::output(
        "announcement",
        &[("hv", STRING), ("port", STRING), ("mac", MAC), ("ofport", INT), ("tag", INT)],
    );
    // What only leaves by another port or VLAN is where it was.
    const AGAIN: Again = Again::IsNoNews;
    type Key = String;
    type Value = Frame;

    fn read<'r>(row: &'r Row, _: &mut Reader<'_, 'r>) -> Result<(&'r str, String, Frame), RowError> {
        let [Value::String(host), Value::String(port), Value::Mac(mac), Value::Int(ofport), Value::Int(tag)] =
            &row[..]
        else {
            return Err(RowError::misfit(&Self::TABLE, row));
        };
        let fault = || {
            let why =
                format!("{row:?}: a port has a number from 1 to {PORT_MAX}, a VLAN from 0 to {VLAN_MAX}");
            RowError::Range(format!("{}: {why}", Self::TABLE.name))
        };
        let ofport = u16::try_from(*ofport).ok().filter(|ofport| (1..=PORT_MAX).contains(ofport));
        let tag = u16::try_from(*tag).ok().filter(|tag| *tag <= VLAN_MAX).ok_or_else(fault)?;
        let frame = Frame { ofport: ofport.ok_or_else(fault)?, bytes: rarp(*mac, tag).into() };
        Ok((host, format!("{mac} {port}"), frame))
    }
}

/// The announcement of a MAC address, with a VLAN tag if it is not 0.
fn rarp(MacAddr(mac): MacAddr, tag: u16) -> Vec<u8> {
    let frame = frame_builder::announcement(mac);
    if tag == 0 { frame } else { frame_builder::tagged(&frame, frame_builder::VLAN, tag) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `announce_self_create` writes it.
    const OF_QEMU: &str =
        "ffffffffffff 525400123456 8035 0001 0800 06 04 0003 525400123456 00000000 525400123456 00000000
         000000000000000000000000000000000000";

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("digits");
        digits.chunks(2).map(byte).collect()
    }

    #[test]
    fn the_frame_is_that_of_qemu() {
        let mac = MacAddr([0x52, 0x54, 0, 0x12, 0x34, 0x56]);
        let frame = hex(OF_QEMU);
        assert_eq!((rarp(mac, 0), frame.len()), (frame.clone(), 60));
        let tagged = [&frame[..12], &[0x81, 0, 0x0f, 0xfe], &frame[12..]].concat();
        assert_eq!(rarp(mac, 4094), tagged);
    }
}
