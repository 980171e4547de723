//! Messages as `ovs-ofctl ofp-print` prints them (Open vSwitch, `lib/ofp-print.c`).

use std::fmt::Write;

use super::{Body, ErrorMessage, Message, VERSION, names};
use crate::frame::HEADER_LEN;

/// Errors quote messages, which may be errors; deeper quotes stay bytes.
const DEPTH_MAX: u8 = 3;

/// The whole text of a message, without the last line end.
pub(super) fn message(message: &Message) -> String {
    let mut text = body(message.xid, &message.body, 0);
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

/// The text of a message; `depth` is 0 for the outermost.
pub(super) fn body(xid: u32, body: &Body, depth: u8) -> String {
    let text = match body {
        Body::FeaturesRequest
        | Body::GetConfigRequest
        | Body::BarrierRequest
        | Body::BarrierReply
        | Body::TlvTableRequest => String::new(),
        Body::Hello(hello) => hello.print(),
        Body::Error(error) => error_text(error, depth),
        Body::EchoRequest(data) | Body::EchoReply(data) => {
            let dump = if depth == 0 { hex_dump(data) } else { String::new() };
            format!(" {} bytes of payload\n{dump}", data.len())
        }
        Body::FeaturesReply(features) => features.print(),
        Body::GetConfigReply(config) | Body::SetConfig(config) => config.print(),
        Body::FlowRemoved(removed) => removed.to_string(),
        Body::PortStatus(status) => status.print(),
        Body::FlowMod(flow) => Printed(flow).to_string(),
        Body::GroupMod(group) => format!("\n {group}"),
        Body::PacketOut(packet) => packet.print(),
        Body::FlowMonitorRequest(request) => request.print(),
        Body::FlowMonitorReply(reply) => more(reply.more) + &reply.print(),
        Body::GroupDescRequest(request) => request.print(),
        Body::GroupDescReply(reply) => more(reply.more) + &reply.print(),
        Body::MeterMod(change) => format!(" {change}\n"),
        Body::MeterDescRequest(meter) | Body::MeterStatsRequest(meter) => {
            format!(" {}", crate::meter::show_id(*meter, '='))
        }
        Body::MeterDescReply(reply) => more(reply.more) + &reply.print(),
        Body::MeterStatsReply(reply) => more(reply.more) + &reply.print(),
        Body::TlvTableMod(change) => change.print(),
        Body::TlvTableReply(reply) => reply.print(),
        Body::CtFlushZone(zone) => super::ct_flush::print(*zone),
        Body::PacketIn(packet) | Body::Resume(packet) => packet.print(),
        Body::SetPacketInFormat(format) => format.print(),
        Body::SetControllerId(id) => format!(" id={id}"),
        Body::FlowDescRequest(request) => request.print(),
        Body::FlowDescReply(reply) => more(reply.more) + &reply.print(),
        Body::PortDescRequest(port) => format!(" port={port}"),
        Body::PortDescReply(reply) => more(reply.more) + &reply.print(),
        Body::RoleRequest(role) => role.print(true),
        Body::RoleReply(role) => role.print(false),
        Body::RoleStatus(status) => status.print(),
        Body::BundleControl(control) => control.print(),
        Body::BundleAdd(add) => add.print(xid, depth),
        Body::Experimenter { experimenter, subtype, data } => {
            format!(" experimenter={experimenter:#x} type={subtype} {} bytes not interpreted", data.len())
        }
        Body::Unknown { data, .. } => format!(" {} bytes not interpreted", data.len()),
    };
    let version = if let Body::Hello(hello) = body { hello.version() } else { VERSION };
    let bytes: &[u8] = match body {
        Body::Unknown { data, .. } => data,
        Body::FlowDescRequest(_) | Body::FlowDescReply(_) => &[0, 1, 0, 0, 0, 0, 0, 0],
        Body::GroupDescRequest(_) | Body::GroupDescReply(_) => &[0, 7, 0, 0, 0, 0, 0, 0],
        Body::MeterStatsRequest(_) | Body::MeterStatsReply(_) => &[0, 9, 0, 0, 0, 0, 0, 0],
        Body::MeterDescRequest(_) | Body::MeterDescReply(_) => &[0, 10, 0, 0, 0, 0, 0, 0],
        Body::SetPacketInFormat(_) => &[0, 0, 0x23, 0x20, 0, 0, 0, 16],
        Body::SetControllerId(_) => &[0, 0, 0x23, 0x20, 0, 0, 0, 20],
        Body::Resume(_) => &[0, 0, 0x23, 0x20, 0, 0, 0, 28],
        Body::PacketIn(_) => &[0, 0, 0x23, 0x20, 0, 0, 0, 30],
        Body::TlvTableMod(_) => &[0, 0, 0x23, 0x20, 0, 0, 0, 24],
        Body::TlvTableRequest => &[0, 0, 0x23, 0x20, 0, 0, 0, 25],
        Body::TlvTableReply(_) => &[0, 0, 0x23, 0x20, 0, 0, 0, 26],
        Body::CtFlushZone(_) => &[0, 0, 0x23, 0x20, 0, 0, 0, 29],
        Body::PortDescRequest(_) | Body::PortDescReply(_) => &[0, 13, 0, 0, 0, 0, 0, 0],
        Body::FlowMonitorRequest(_) | Body::FlowMonitorReply(_) => &[0, 16, 0, 0, 0, 0, 0, 0],
        _ => &[],
    };
    header(version, body.kind(), xid, bytes) + &text
}

struct Printed<'a>(&'a crate::FlowMod);

impl std::fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.print(f)
    }
}

fn more(more: bool) -> String {
    (if more { " flags=[more]" } else { "" }).to_owned()
}

/// `OFPT_HELLO (OF1.5) (xid=0x1):`.
fn header(version: u8, kind: u8, xid: u32, body: &[u8]) -> String {
    let name = names::name(kind, body).unwrap_or_else(|| format!("message type {kind}"));
    let version = match version {
        1 => String::new(),
        2..=6 => format!(" (OF1.{})", version - 1),
        _ => format!(" (OF {version:#04x})"),
    };
    format!("{name}{version} (xid={xid:#x}):")
}

fn error_text(error: &ErrorMessage, depth: u8) -> String {
    let quoted = if error.code.is_hello_failed() {
        printable(&error.data)
    } else if depth < DEPTH_MAX {
        quoted(&error.data, depth + 1)
    } else {
        hex_dump(&error.data)
    };
    format!(" {}\n{quoted}", error.code)
}

/// The text of the message, or its beginning, that an error quotes.
fn quoted(bytes: &[u8], depth: u8) -> String {
    let dump = hex_dump(bytes);
    let Some((&[version, kind, high, low, a, b, c, d], rest)) = bytes.split_first_chunk::<HEADER_LEN>()
    else {
        return match bytes.len() {
            0 => "OpenFlow message is empty\n".to_owned(),
            n => format!("OpenFlow packet too short (only {n} bytes):\n{dump}"),
        };
    };
    let len = usize::from(u16::from_be_bytes([high, low]));
    if len < bytes.len() {
        return format!("(***only uses {len} bytes out of {}***)\n{dump}", bytes.len());
    }
    if len > bytes.len() {
        let head = header(version, kind, u32::from_be_bytes([a, b, c, d]), rest);
        return format!("{head}\n(***truncated to {} bytes from {len}***)\n{dump}", bytes.len());
    }
    match Message::decode(bytes) {
        Ok(message) => body(message.xid, &message.body, depth),
        Err(error) => format!("***decode error: {error}***\n{dump}"),
    }
}

/// Text with everything but printable ASCII escaped in octal.
fn printable(bytes: &[u8]) -> String {
    let escaped = |byte: &u8| match *byte {
        byte @ (b'\\' | b'"') => format!("\\{byte:03o}"),
        byte @ 0x20..=0x7e => char::from(byte).to_string(),
        byte => format!("\\{byte:03o}"),
    };
    bytes.iter().map(escaped).collect()
}

/// Sixteen bytes a line: offset, hexadecimal, ASCII.
pub(super) fn hex_dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (line, chunk) in bytes.chunks(16).enumerate() {
        let _ = write!(text, "{:08x}  ", line * 16);
        for place in 0..16 {
            let separator = if place == 7 { '-' } else { ' ' };
            let _ = match chunk.get(place) {
                Some(byte) => write!(text, "{byte:02x}{separator}"),
                None => write!(text, "   "),
            };
        }
        let ascii = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' };
        let shown: String = chunk.iter().map(ascii).collect();
        let _ = writeln!(text, "|{shown:<16}|");
    }
    text
}

/// The names of set bits, in bit order; those without a name in hexadecimal; `0` for none.
pub(super) fn bit_names(bits: u32, names: &[(u32, &str)]) -> String {
    if bits == 0 {
        return "0".to_owned();
    }
    let named = names.iter().filter(|(bit, _)| bits >> bit & 1 == 1);
    let rest = named.clone().fold(bits, |rest, (bit, _)| rest & !(1 << bit));
    let mut words: Vec<String> = named.map(|(_, name)| (*name).to_owned()).collect();
    if rest != 0 {
        words.push(format!("{rest:#x}"));
    }
    words.join(" ")
}

/// The text without one trailing space.
pub(super) fn trim_end(mut text: String) -> String {
    if text.ends_with(' ') {
        text.pop();
    }
    text
}
