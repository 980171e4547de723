//! Conntrack zones: whose connections each zone holds, and the marks by which a switch remembers that.
//!
//! A zone is flushed before it is used for another owner, and never while it keeps its owner: so the owner must be
//! remembered where a driver that starts anew finds it. The mark of a zone is a flow of a table that no packet reaches, with
//! the zone as its priority and the owner in a note. So it changes in one bundle with the flows that use the zone, comes with
//! the dump of all flows, and costs no transaction of the database, each of which makes ovs-vswitchd look at all its ports.
//!
//! The order, of which a crash may keep any beginning:
//! 1. Zones with new owners are flushed. A crash leaves the old marks, so they are flushed again.
//! 2. The bundle: flows and marks. A zone that others may have used until now (it has another mark, or none is known since a
//!    switch with flows was read) gets its mark with [`UNCLEAN`]: packets may have been tracked in it between the two.
//! 3. When the cache of the datapath has followed, those zones are flushed again, and zones without an owner too. A crash leaves
//!    [`UNCLEAN`], which is no owner's mark.
//! 4. Their marks become those of their owners.
//!
//! A switch that has lost its flows has lost the marks, and all zones are flushed.

use std::fmt;

use nlog_data::{Row, Value};
use openflow_rs::{Action, Actions, DecodeError};

use crate::flow::{Flow, FlowError, FlowKey};
use crate::kind::{Kind, Lasting, Reader, RowError, int, number, text};
use crate::table::{INT, STRING, SwitchTable};

/// The table of the marks. Flows of the desired state must not be in it if there are zones.
pub const ZONE_TABLE: u8 = 253;

/// This table, and why rules have no flows in it.
pub(crate) const RESERVED: (u8, &str) = (ZONE_TABLE, "where the driver notes the owners of conntrack_zone");

/// The cookie of a mark, and that of one whose zone may have connections of others.
const CLEAN: u64 = 0;
const UNCLEAN: u64 = 1;

/// Whose connections a zone holds.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ZoneOwner(Flow);

impl ZoneOwner {
    /// The owner with this name.
    ///
    /// # Errors
    /// The name does not fit into a flow.
    pub fn new(name: &str) -> Result<Self, FlowError> {
        let note = Action::from(openflow_rs::action::Note::new(name.as_bytes()));
        Flow::new(CLEAN, &Actions(vec![note])).map(ZoneOwner)
    }

    /// Its name.
    ///
    /// # Errors
    /// The flow cannot be decoded.
    pub fn name(&self) -> Result<String, DecodeError> {
        let note = self.0.actions()?.0.into_iter().find_map(|action| match action {
            Action::Note(note) => Some(note),
            _ => None,
        });
        let bytes = note.map(|note| note.bytes().to_vec()).unwrap_or_default();
        let name = String::from_utf8_lossy(&bytes);
        // A note fills its action with zeros.
        Ok(name.trim_end_matches('\0').to_owned())
    }

    /// The mark of a zone of this owner.
    pub fn mark(&self) -> Flow {
        self.0.clone()
    }
}

impl fmt::Debug for ZoneOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The owners of the conntrack zones of a switch, by zone.
#[derive(Debug)]
pub enum Zones {}

impl Kind for Zones {
    const TABLE: SwitchTable =
        SwitchTable::output("conntrack_zone", &[("hv", STRING), ("zone", INT), ("owner", STRING)]);
    type Key = u16;
    type Value = ZoneOwner;

    fn read<'r>(row: &'r Row, _: &mut Reader<'_, 'r>) -> Result<(&'r str, u16, ZoneOwner), RowError> {
        let [Value::String(host), Value::Int(zone), Value::String(owner)] = &row[..] else {
            return Err(RowError::misfit(&Self::TABLE, row));
        };
        let zone = number(&Self::TABLE, host, "zone", *zone, (1, u16::MAX.into()))?;
        let owner = ZoneOwner::new(owner).map_err(|error| {
            RowError::range(&Self::TABLE, host, format!("zone {zone} has too long an owner: {error}"))
        })?;
        Ok((host, zone as u16, owner))
    }
}

impl Lasting for Zones {
    fn row(host: &str, zone: &u16, owner: &ZoneOwner) -> Result<Row, DecodeError> {
        Ok(vec![text(host), int(*zone), text(owner.name()?)])
    }
}

/// The key of the mark of a zone.
pub fn key(zone: u16) -> FlowKey {
    FlowKey::of_all_packets(ZONE_TABLE, zone)
}

/// The zone that a flow marks; `None` for other flows.
pub fn marked(key: &FlowKey) -> Option<u16> {
    let zone = key.priority();
    (key.table() == ZONE_TABLE && *key == self::key(zone)).then_some(zone)
}

/// The mark of a zone that may have connections of others.
pub fn unclean(mark: &Flow) -> Flow {
    mark.with_cookie(UNCLEAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_told_from_other_flows_and_from_that_of_another_owner() {
        assert_eq!((marked(&key(1)), marked(&key(u16::MAX))), (Some(1), Some(u16::MAX)));
        assert_eq!(marked(&key(5).at(ZONE_TABLE - 1, 5)), None);
        let narrow = FlowKey::new(ZONE_TABLE, 5, &"in_port=1".parse().expect("a match")).expect("short");
        assert_eq!(marked(&narrow), None);
        let [one, other] = ["blue-1", "blue-2"].map(|name| ZoneOwner::new(name).expect("short"));
        assert_ne!(one, other);
        assert_ne!(one.mark(), unclean(&one.mark()));
        assert!(ZoneOwner::new(&"x".repeat(40_000)).is_err());
        let any = FlowKey::new(ZONE_TABLE, 5, &openflow_rs::Match::any()).expect("short");
        assert_eq!(key(5), any, "as a switch reports it");
    }
}
