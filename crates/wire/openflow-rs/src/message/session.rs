//! Features, configuration and roles.

use std::fmt::Write;

use super::print::bit_names;
use crate::DecodeError;
use crate::error::Fault;
use crate::wire::Reader;

/// The capabilities of a switch, as bits on the wire (`OFPC_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u32);

const CAPABILITIES: [(u32, &str); 9] = [
    (0, "FLOW_STATS"),
    (1, "TABLE_STATS"),
    (2, "PORT_STATS"),
    (3, "GROUP_STATS"),
    (5, "IP_REASM"),
    (6, "QUEUE_STATS"),
    (8, "PORT_BLOCKED"),
    (9, "BUNDLES"),
    (10, "FLOW_MONITORING"),
];

/// The features of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// The datapath id of the switch (in Open vSwitch, of the bridge).
    pub datapath_id: u64,
    /// The number of packets that it can buffer for the controller.
    pub n_buffers: u32,
    /// The number of flow tables.
    pub n_tables: u8,
    /// The id of an auxiliary connection; 0 for the main connection.
    pub auxiliary_id: u8,
    /// Its capabilities.
    pub capabilities: Capabilities,
}

impl Features {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.datapath_id.to_be_bytes());
        out.extend_from_slice(&self.n_buffers.to_be_bytes());
        out.extend_from_slice(&[self.n_tables, self.auxiliary_id, 0, 0]);
        out.extend_from_slice(&self.capabilities.0.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<Features, DecodeError> {
        let (datapath_id, n_buffers) = (reader.u64()?, reader.u32()?);
        let (n_tables, auxiliary_id) = (reader.u8()?, reader.u8()?);
        reader.skip(2)?;
        let capabilities = Capabilities(reader.u32()?);
        reader.skip(4)?;
        Ok(Features { datapath_id, n_buffers, n_tables, auxiliary_id, capabilities })
    }

    pub(super) fn print(self) -> String {
        let mut text = format!(" dpid:{:016x}\n", self.datapath_id);
        let _ = write!(text, "n_tables:{}, n_buffers:{}", self.n_tables, self.n_buffers);
        if self.auxiliary_id != 0 {
            let _ = write!(text, ", auxiliary_id:{}", self.auxiliary_id);
        }
        let known = CAPABILITIES.iter().fold(0, |bits, (bit, _)| bits | 1 << bit);
        let capabilities = bit_names(self.capabilities.0 & known, &CAPABILITIES);
        let _ = write!(text, "\ncapabilities: {capabilities}\n");
        text
    }
}

/// The treatment of IP fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FragmentHandling {
    /// Matches them with ports zero.
    Normal,
    /// Drops them.
    Drop,
    /// Reassembles them.
    Reassemble,
    /// Lets flows match on `nw_frag`.
    NxMatch,
}

/// A switch's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchConfig {
    /// IP fragments.
    pub fragments: FragmentHandling,
    /// Bytes of a packet without a matching flow to send to the controller. On a service connection
    /// (`BRIDGE.mgmt`), Open vSwitch sends no asynchronous message at all until this is not zero.
    pub miss_send_len: u16,
}

impl SwitchConfig {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.fragments as u16).to_be_bytes());
        out.extend_from_slice(&self.miss_send_len.to_be_bytes());
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<SwitchConfig, DecodeError> {
        let at = reader.clone();
        let fragments = match reader.u16()? {
            0 => FragmentHandling::Normal,
            1 => FragmentHandling::Drop,
            2 => FragmentHandling::Reassemble,
            3 => FragmentHandling::NxMatch,
            flags => return Err(at.fault(Fault::Unknown(flags.into()))),
        };
        Ok(SwitchConfig { fragments, miss_send_len: reader.u16()? })
    }

    pub(super) fn print(self) -> String {
        let fragments = ["normal", "drop", "reassemble", "nx-match"][self.fragments as usize];
        format!(" frags={fragments} miss_send_len={}\n", self.miss_send_len)
    }
}

/// A controller's role at a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Only requests the current role.
    NoChange,
    /// Full access, shared with other controllers.
    Equal,
    /// Full access; a new primary makes the previous one secondary.
    Primary,
    /// Read-only access.
    Secondary,
}

impl Role {
    const ALL: [Role; 4] = [Role::NoChange, Role::Equal, Role::Primary, Role::Secondary];

    fn decode(reader: &mut Reader<'_>) -> Result<Role, DecodeError> {
        let at = reader.clone();
        let n = reader.u32()?;
        Role::ALL.get(n as usize).copied().ok_or_else(|| at.fault(Fault::Unknown(n.into())))
    }

    fn print(self) -> &'static str {
        ["nochange", "equal", "primary", "secondary"][self as usize]
    }
}

/// A request for a role, or the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleRequest {
    /// The role.
    pub role: Role,
    /// The controller's number (bits 0 to 15 of the short id), 0xffffffff for none.
    pub short_id: u32,
    /// Increases with each change of the primary, so that the switch can reject a stale one. All ones
    /// in a reply if there has been none.
    pub generation_id: u64,
}

impl RoleRequest {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.role as u32).to_be_bytes());
        out.extend_from_slice(&self.short_id.to_be_bytes());
        out.extend_from_slice(&self.generation_id.to_be_bytes());
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<RoleRequest, DecodeError> {
        Ok(RoleRequest { role: Role::decode(reader)?, short_id: reader.u32()?, generation_id: reader.u64()? })
    }

    /// In a request that changes nothing, the generation has no meaning.
    pub(super) fn print(self, request: bool) -> String {
        let silent = if request { self.role == Role::NoChange } else { self.generation_id == u64::MAX };
        let generation = if silent { String::new() } else { generation(self.generation_id) };
        format!(" role={}{generation}", self.role.print())
    }
}

fn generation(id: u64) -> String {
    if id == u64::MAX { String::new() } else { format!(" generation_id={id}") }
}

/// The reason for a change of role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleReason {
    /// Another controller became primary.
    PrimaryRequest,
    /// The switch's configuration changed.
    Config,
    /// An extension's reason.
    Experimenter,
}

/// Notification that the controller's role changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleStatus {
    /// The new role.
    pub role: Role,
    /// The reason.
    pub reason: RoleReason,
    /// The switch's generation, all ones for none.
    pub generation_id: u64,
}

impl RoleStatus {
    pub(super) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.role as u32).to_be_bytes());
        out.extend_from_slice(&[self.reason as u8, 0, 0, 0]);
        out.extend_from_slice(&self.generation_id.to_be_bytes());
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<RoleStatus, DecodeError> {
        let role = Role::decode(reader)?;
        let at = reader.clone();
        let reason = match reader.u8()? {
            0 => RoleReason::PrimaryRequest,
            1 => RoleReason::Config,
            2 => RoleReason::Experimenter,
            n => return Err(at.fault(Fault::Unknown(n.into()))),
        };
        reader.skip(3)?;
        Ok(RoleStatus { role, reason, generation_id: reader.u64()? })
    }

    pub(super) fn print(self) -> String {
        let reason =
            ["primary_request", "configuration_changed", "experimenter_data_changed"][self.reason as usize];
        format!(" role={}{} reason={reason}", self.role.print(), generation(self.generation_id))
    }
}
