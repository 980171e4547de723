//! Ports: descriptions and changes.

use std::fmt::Write;

use super::print::bit_names;
use crate::error::Fault;
use crate::wire::{Reader, patch_len};
use crate::{DecodeError, MacAddr, PortNo};

/// Bytes of a port without its properties.
const PORT_LEN: usize = 40;
/// `OFPPDPT_ETHERNET`.
const ETHERNET: u16 = 0;
const ETHERNET_LEN: usize = 32;
const NAME_LEN: usize = 16;

/// The configuration of a port, as bits on the wire (`OFPPC_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortConfig(pub u32);

const CONFIG: [(u32, &str); 4] = [(0, "PORT_DOWN"), (2, "NO_RECV"), (5, "NO_FWD"), (6, "NO_PACKET_IN")];

/// A port's state, as bits on the wire (`OFPPS_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortState(pub u32);

impl PortState {
    /// Live for fast-failover groups; cleared when BFD or the carrier fails.
    pub const LIVE: PortState = PortState(4);

    /// Whether all bits of `state` are set.
    pub fn contains(self, state: PortState) -> bool {
        self.0 & state.0 == state.0
    }
}

const STATE: [(u32, &str); 3] = [(0, "LINK_DOWN"), (1, "BLOCKED"), (2, "LIVE")];

const LINK_FEATURES: [(u32, &str); 16] = [
    (0, "10MB-HD"),
    (1, "10MB-FD"),
    (2, "100MB-HD"),
    (3, "100MB-FD"),
    (4, "1GB-HD"),
    (5, "1GB-FD"),
    (6, "10GB-FD"),
    (7, "40GB-FD"),
    (8, "100GB-FD"),
    (9, "1TB-FD"),
    (10, "OTHER"),
    (11, "COPPER"),
    (12, "FIBER"),
    (13, "AUTO_NEG"),
    (14, "AUTO_PAUSE"),
    (15, "AUTO_PAUSE_ASYM"),
];

/// A port of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Its number.
    pub number: PortNo,
    /// Its Ethernet address.
    pub mac: MacAddr,
    /// The interface's name; invalid UTF-8 is replaced.
    pub name: String,
    /// Its configuration.
    pub config: PortConfig,
    /// Its state.
    pub state: PortState,
    /// Link modes (`OFPPF_*`): current, advertised, supported, advertised by the peer.
    pub link: [u32; 4],
    /// Current bit rate, kbit/s.
    pub current_kbps: u32,
    /// Highest bit rate, kbit/s.
    pub max_kbps: u32,
}

impl Port {
    fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.number.to_wire().to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.mac.0);
        out.extend_from_slice(&[0; 2]);
        let mut name = [0; NAME_LEN];
        for (to, from) in name.iter_mut().take(NAME_LEN - 1).zip(self.name.bytes()) {
            *to = from;
        }
        out.extend_from_slice(&name);
        out.extend_from_slice(&self.config.0.to_be_bytes());
        out.extend_from_slice(&self.state.0.to_be_bytes());
        out.extend_from_slice(&ETHERNET.to_be_bytes());
        out.extend_from_slice(&(ETHERNET_LEN as u16).to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        for n in self.link.into_iter().chain([self.current_kbps, self.max_kbps]) {
            out.extend_from_slice(&n.to_be_bytes());
        }
        patch_len(out, start, start + 4);
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Port, DecodeError> {
        let at = reader.clone().named("port");
        let mut head = at.clone();
        let number = head.u32()?;
        let len = usize::from(head.u16()?);
        if len < PORT_LEN {
            return Err(at.fault(Fault::Length(len)));
        }
        let mut body = reader.sub("port", len)?;
        body.skip(8)?;
        let number = PortNo::from_wire(number).ok_or_else(|| at.fault(Fault::Unknown(number.into())))?;
        let mac = MacAddr(body.array()?);
        body.skip(2)?;
        let name: [u8; NAME_LEN] = body.array()?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or(&[]);
        let mut port = Port {
            number,
            mac,
            name: String::from_utf8_lossy(name).into_owned(),
            config: PortConfig(body.u32()?),
            state: PortState(body.u32()?),
            link: [0; 4],
            current_kbps: 0,
            max_kbps: 0,
        };
        while !body.is_empty() {
            port.decode_property(&mut body)?;
        }
        Ok(port)
    }

    fn decode_property(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let at = reader.clone().named("port property");
        let mut head = at.clone();
        let (kind, len) = (head.u16()?, usize::from(head.u16()?));
        if len < 4 || (kind == ETHERNET && len != ETHERNET_LEN) {
            return Err(at.fault(Fault::Length(len)));
        }
        let mut body = reader.sub("port property", len.next_multiple_of(8))?;
        if kind == ETHERNET {
            body.skip(8)?;
            for modes in &mut self.link {
                *modes = body.u32()?;
            }
            self.current_kbps = body.u32()?;
            self.max_kbps = body.u32()?;
        }
        Ok(())
    }

    fn print(&self) -> String {
        let mut text = format!(" {}({}): addr:{}\n", self.number, self.name, self.mac);
        let config = CONFIG.iter().fold(0, |bits, (bit, _)| bits | 1 << bit);
        let _ = writeln!(text, "     config:     {}", bit_names(self.config.0 & config, &CONFIG));
        let _ = writeln!(text, "     state:      {}", bit_names(self.state.0 & 7, &STATE));
        let titles = ["current:    ", "advertised: ", "supported:  ", "peer:       "];
        for (title, modes) in titles.iter().zip(self.link) {
            let modes = modes & 0xffff;
            if modes != 0 {
                let _ = writeln!(text, "     {title}{}", bit_names(modes, &LINK_FEATURES));
            }
        }
        let (now, max) = (self.current_kbps / 1000, self.max_kbps / 1000);
        let _ = writeln!(text, "     speed: {now} Mbps now, {max} Mbps max");
        text
    }
}

/// The kind of change to a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortReason {
    /// It was added.
    Add,
    /// It was removed.
    Delete,
    /// It changed.
    Modify,
}

/// Notification that a port was added, removed or changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// The change.
    pub reason: PortReason,
    /// The port, in its last state if it was removed.
    pub port: Port,
}

impl PortStatus {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[self.reason as u8, 0, 0, 0, 0, 0, 0, 0]);
        self.port.encode(out);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<PortStatus, DecodeError> {
        let at = reader.clone();
        let reason = match reader.u8()? {
            0 => PortReason::Add,
            1 => PortReason::Delete,
            2 => PortReason::Modify,
            n => return Err(at.fault(Fault::Unknown(n.into()))),
        };
        reader.skip(7)?;
        Ok(PortStatus { reason, port: Port::decode(reader)? })
    }

    pub(super) fn print(&self) -> String {
        let reason = ["ADD", "DEL", "MOD"][self.reason as usize];
        format!(" {reason}:{}", self.port.print())
    }
}

/// A part of the requested ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortDescReply {
    /// Whether another part follows.
    pub more: bool,
    /// The ports.
    pub ports: Vec<Port>,
}

impl PortDescReply {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        self.ports.iter().for_each(|port| port.encode(out));
    }

    pub(super) fn decode(reader: &mut Reader<'_>, more: bool) -> Result<PortDescReply, DecodeError> {
        let mut ports = Vec::new();
        while !reader.is_empty() {
            ports.push(Port::decode(reader)?);
        }
        Ok(PortDescReply { more, ports })
    }

    pub(super) fn print(&self) -> String {
        // Open vSwitch prints them by number, whatever their order in the message.
        let mut ports: Vec<&Port> = self.ports.iter().collect();
        ports.sort_by_key(|port| port.number);
        ports.into_iter().fold("\n".to_owned(), |text, port| text + &port.print())
    }
}

/// Reads the body of a request for ports.
pub(super) fn decode_request(reader: &mut Reader<'_>) -> Result<PortNo, DecodeError> {
    let at = reader.clone();
    let n = reader.u32()?;
    reader.skip(4)?;
    PortNo::from_wire(n).ok_or_else(|| at.fault(Fault::Unknown(n.into())))
}
