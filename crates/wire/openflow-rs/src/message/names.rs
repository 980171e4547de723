//! Numbers of message types, and the names `ovs-ofctl` prints for them.

/// Message types (`OFPT_*`).
pub(super) mod kind {
    pub(in super::super) const HELLO: u8 = 0;
    pub(in super::super) const ERROR: u8 = 1;
    pub(in super::super) const ECHO_REQUEST: u8 = 2;
    pub(in super::super) const ECHO_REPLY: u8 = 3;
    pub(in super::super) const EXPERIMENTER: u8 = 4;
    pub(in super::super) const FEATURES_REQUEST: u8 = 5;
    pub(in super::super) const FEATURES_REPLY: u8 = 6;
    pub(in super::super) const GET_CONFIG_REQUEST: u8 = 7;
    pub(in super::super) const GET_CONFIG_REPLY: u8 = 8;
    pub(in super::super) const SET_CONFIG: u8 = 9;
    pub(in super::super) const FLOW_REMOVED: u8 = 11;
    pub(in super::super) const PORT_STATUS: u8 = 12;
    pub(in super::super) const PACKET_OUT: u8 = 13;
    pub(in super::super) const FLOW_MOD: u8 = 14;
    pub(in super::super) const GROUP_MOD: u8 = 15;
    pub(in super::super) const MULTIPART_REQUEST: u8 = 18;
    pub(in super::super) const MULTIPART_REPLY: u8 = 19;
    pub(in super::super) const BARRIER_REQUEST: u8 = 20;
    pub(in super::super) const BARRIER_REPLY: u8 = 21;
    pub(in super::super) const ROLE_REQUEST: u8 = 24;
    pub(in super::super) const ROLE_REPLY: u8 = 25;
    pub(in super::super) const METER_MOD: u8 = 29;
    pub(in super::super) const ROLE_STATUS: u8 = 30;
    pub(in super::super) const BUNDLE_CONTROL: u8 = 33;
    pub(in super::super) const BUNDLE_ADD: u8 = 34;
}

/// Multipart types (`OFPMP_*`).
pub(super) mod multipart {
    pub(in super::super) const FLOW_DESC: u16 = 1;
    pub(in super::super) const GROUP_DESC: u16 = 7;
    pub(in super::super) const METER: u16 = 9;
    pub(in super::super) const METER_DESC: u16 = 10;
    pub(in super::super) const PORT_DESC: u16 = 13;
    pub(in super::super) const FLOW_MONITOR: u16 = 16;
}

/// Nicira's experimenter id.
pub(super) const NICIRA: u32 = 0x0000_2320;

/// Types of Nicira's messages (`NXT_*`).
pub(super) mod nicira {
    pub(in super::super) const SET_PACKET_IN_FORMAT: u32 = 16;
    pub(in super::super) const SET_CONTROLLER_ID: u32 = 20;
    pub(in super::super) const TLV_TABLE_MOD: u32 = 24;
    pub(in super::super) const TLV_TABLE_REQUEST: u32 = 25;
    pub(in super::super) const TLV_TABLE_REPLY: u32 = 26;
    pub(in super::super) const RESUME: u32 = 28;
    pub(in super::super) const CT_FLUSH_ZONE: u32 = 29;
    pub(in super::super) const PACKET_IN2: u32 = 30;
}

/// Names by type; multipart messages and extensions are named by what they hold.
const NAMES: [&str; 36] = [
    "OFPT_HELLO",
    "OFPT_ERROR",
    "OFPT_ECHO_REQUEST",
    "OFPT_ECHO_REPLY",
    "OFPT_EXPERIMENTER",
    "OFPT_FEATURES_REQUEST",
    "OFPT_FEATURES_REPLY",
    "OFPT_GET_CONFIG_REQUEST",
    "OFPT_GET_CONFIG_REPLY",
    "OFPT_SET_CONFIG",
    "OFPT_PACKET_IN",
    "OFPT_FLOW_REMOVED",
    "OFPT_PORT_STATUS",
    "OFPT_PACKET_OUT",
    "OFPT_FLOW_MOD",
    "OFPT_GROUP_MOD",
    "OFPT_PORT_MOD",
    "OFPT_TABLE_MOD",
    "OFPT_MULTIPART_REQUEST",
    "OFPT_MULTIPART_REPLY",
    "OFPT_BARRIER_REQUEST",
    "OFPT_BARRIER_REPLY",
    "OFPT_QUEUE_GET_CONFIG_REQUEST",
    "OFPT_QUEUE_GET_CONFIG_REPLY",
    "OFPT_ROLE_REQUEST",
    "OFPT_ROLE_REPLY",
    "OFPT_GET_ASYNC_REQUEST",
    "OFPT_GET_ASYNC_REPLY",
    "OFPT_SET_ASYNC",
    "OFPT_METER_MOD",
    "OFPT_ROLE_STATUS",
    "OFPT_TABLE_STATUS",
    "OFPT_REQUESTFORWARD",
    "OFPT_BUNDLE_CONTROL",
    "OFPT_BUNDLE_ADD_MESSAGE",
    "OFPT_CONTROLLER_STATUS",
];

/// Names of multipart messages by type.
const MULTIPARTS: [&str; 17] = [
    "DESC",
    "FLOW",
    "AGGREGATE",
    "TABLE",
    "PORT",
    "QUEUE",
    "GROUP",
    "GROUP_DESC",
    "GROUP_FEATURES",
    "METER",
    "METER_CONFIG",
    "METER_FEATURES",
    "TABLE_FEATURES",
    "PORT_DESC",
    "TABLE_DESC",
    "QUEUE_DESC",
    "FLOW_MONITOR",
];

/// The name of a message type; `body` tells multipart messages apart.
pub(super) fn name(kind: u8, body: &[u8]) -> Option<String> {
    if kind == kind::EXPERIMENTER
        && let Some((&[a, b, c, d, e, f, g, h], _)) = body.split_first_chunk::<8>()
        && u32::from_be_bytes([a, b, c, d]) == NICIRA
    {
        match u32::from_be_bytes([e, f, g, h]) {
            nicira::SET_PACKET_IN_FORMAT => return Some("NXT_SET_PACKET_IN_FORMAT".to_owned()),
            nicira::SET_CONTROLLER_ID => return Some("NXT_SET_CONTROLLER_ID".to_owned()),
            nicira::RESUME => return Some("NXT_RESUME".to_owned()),
            nicira::PACKET_IN2 => return Some("NXT_PACKET_IN2".to_owned()),
            nicira::TLV_TABLE_MOD => return Some("NXT_TLV_TABLE_MOD".to_owned()),
            nicira::TLV_TABLE_REQUEST => return Some("NXT_TLV_TABLE_REQUEST".to_owned()),
            nicira::TLV_TABLE_REPLY => return Some("NXT_TLV_TABLE_REPLY".to_owned()),
            nicira::CT_FLUSH_ZONE => return Some("NXT_CT_FLUSH_ZONE".to_owned()),
            _ => {}
        }
    }
    let direction = match kind {
        kind::MULTIPART_REQUEST => "request",
        kind::MULTIPART_REPLY => "reply",
        _ => return NAMES.get(usize::from(kind)).map(ToString::to_string),
    };
    let (part, _) = body.split_first_chunk::<8>()?.0.split_first_chunk::<2>()?;
    let part = MULTIPARTS.get(usize::from(u16::from_be_bytes(*part)))?;
    Some(format!("OFPST_{part} {direction}"))
}
