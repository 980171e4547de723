//! OpenFlow messages: a header and one of many bodies.
//!
//! To add a message: write its type with `decode`, `encode` and `print` in a file under `message/`,
//! a variant in [`Body`], and its arm in each of the four functions below; the compiler finds those.

mod bundle;
mod ct_flush;
mod error;
mod error_names;
mod flow_monitor;
mod flows;
mod groups;
mod hello;
mod meters;
mod names;
mod packet_in;
mod packet_out;
mod ports;
mod print;
mod session;
mod tlv;

use std::fmt;

pub use bundle::{BundleAdd, BundleControl, BundleFlags, BundleOp};
pub use error::{ErrorCode, ErrorMessage};
pub use flow_monitor::{
    FlowEvent, FlowMonitor, FlowMonitorCommand, FlowMonitorFlags, FlowMonitorReply, FlowMonitorRequest,
    FlowUpdate,
};
pub use flows::{FlowDescReply, FlowDescRequest, UnreadableFlow};
pub use groups::{GroupDescReply, GroupDescRequest, UnreadableGroup};
pub use hello::Hello;
pub use meters::{MeterDescReply, MeterStatsReply};
pub use packet_in::{PacketIn, PacketInFormat, PacketInReason};
pub use packet_out::PacketOut;
pub use ports::{Port, PortConfig, PortDescReply, PortReason, PortState, PortStatus};
pub use session::{
    Capabilities, Features, FragmentHandling, Role, RoleReason, RoleRequest, RoleStatus, SwitchConfig,
};
pub use tlv::{TlvCommand, TlvMapping, TlvTableMod, TlvTableReply};

use crate::error::Fault;
use crate::flow::FlowRemoved;
use crate::frame::HEADER_LEN;
use crate::wire::Reader;
use crate::{DecodeError, EncodeError, FlowMod, GroupMod, MeterMod};
use names::{NICIRA, kind, multipart, nicira};

/// The version byte of OpenFlow 1.5.
pub const VERSION: u8 = 6;

/// A message and the transaction id that ties replies and errors to requests.
///
/// ```
/// use openflow_rs::{Body, Message};
/// let barrier = Message { xid: 1, body: Body::BarrierRequest };
/// let bytes = barrier.encode()?;
/// assert_eq!(bytes, [6, 20, 0, 8, 0, 0, 0, 1]);
/// assert_eq!(Message::decode(&bytes).as_ref(), Ok(&barrier));
/// assert_eq!(barrier.to_string(), "OFPT_BARRIER_REQUEST (OF1.5) (xid=0x1):");
/// # Ok::<(), openflow_rs::EncodeError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Transaction id.
    pub xid: u32,
    /// The rest.
    pub body: Body,
}

/// The body of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// Hello: opens a connection.
    Hello(Hello),
    /// Error: rejects a request.
    Error(ErrorMessage),
    /// Asks whether the peer is there; the reply has the same bytes.
    EchoRequest(Vec<u8>),
    /// Answers an echo request.
    EchoReply(Vec<u8>),
    /// Asks for the switch's features.
    FeaturesRequest,
    /// Reports the switch's features.
    FeaturesReply(Features),
    /// Asks for the switch's configuration.
    GetConfigRequest,
    /// Reports the switch's configuration.
    GetConfigReply(SwitchConfig),
    /// Changes the switch's configuration.
    SetConfig(SwitchConfig),
    /// Notification that a flow entry was removed.
    FlowRemoved(FlowRemoved),
    /// Notification that a port was added, removed or changed.
    PortStatus(PortStatus),
    /// Hands a packet to the switch.
    PacketOut(PacketOut),
    /// Changes flow entries.
    FlowMod(FlowMod),
    /// Changes a group.
    GroupMod(GroupMod),
    /// Asks for groups.
    GroupDescRequest(GroupDescRequest),
    /// A part of the requested groups.
    GroupDescReply(GroupDescReply),
    /// Changes a meter.
    MeterMod(MeterMod),
    /// Asks for meters: one, or [`crate::MeterEntry::ALL`].
    MeterDescRequest(u32),
    /// A part of the requested meters.
    MeterDescReply(MeterDescReply),
    /// Asks for the counters of a meter, or of [`crate::MeterEntry::ALL`].
    MeterStatsRequest(u32),
    /// A part of the requested counters.
    MeterStatsReply(MeterStatsReply),
    /// Asks for flow entries.
    FlowDescRequest(FlowDescRequest),
    /// A part of the requested flow entries.
    FlowDescReply(FlowDescReply),
    /// Asks for ports: one, or [`crate::PortNo::ANY`].
    PortDescRequest(crate::PortNo),
    /// A part of the requested ports.
    PortDescReply(PortDescReply),
    /// Starts and ends monitors of flow entries.
    FlowMonitorRequest(FlowMonitorRequest),
    /// Reports of such monitors.
    FlowMonitorReply(FlowMonitorReply),
    /// Requests that all earlier messages be processed first.
    BarrierRequest,
    /// All messages before the request have been processed.
    BarrierReply,
    /// Requests a role, or the current one.
    RoleRequest(RoleRequest),
    /// Reports the role.
    RoleReply(RoleRequest),
    /// Notification that the switch changed the role.
    RoleStatus(RoleStatus),
    /// Opens, closes, commits or discards a bundle, and the replies.
    BundleControl(BundleControl),
    /// Adds a message to a bundle.
    BundleAdd(BundleAdd),
    /// Changes the mapping of tunnel options to fields.
    TlvTableMod(TlvTableMod),
    /// Requests the mapping of tunnel options.
    TlvTableRequest,
    /// Reports the mapping of tunnel options.
    TlvTableReply(TlvTableReply),
    /// Forgets the connections of a conntrack zone.
    CtFlushZone(u16),
    /// Asks for a format of the messages that hand packets to the controller.
    SetPacketInFormat(PacketInFormat),
    /// Gives this connection a number, by which actions [`Controller`](crate::action::Controller) name it; 0 at first. Several
    /// connections may have the same.
    SetControllerId(u16),
    /// Hands a packet to the controller, in the format [`PacketInFormat::Properties`].
    PacketIn(PacketIn),
    /// Lets a packet go on that an action paused.
    Resume(PacketIn),
    /// An uninterpreted extension.
    Experimenter {
        /// The experimenter id.
        experimenter: u32,
        /// The message type within the extension.
        subtype: u32,
        /// The rest.
        data: Vec<u8>,
    },
    /// A message of a type that this crate does not support, or a multipart message of such a kind.
    Unknown {
        /// The type byte.
        kind: u8,
        /// The bytes after the header.
        data: Vec<u8>,
    },
}

impl Message {
    /// The message as bytes.
    ///
    /// # Errors
    /// It would be longer than the 65,535 bytes that OpenFlow allows.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        let mut out = Vec::with_capacity(128);
        self.encode_into(&mut out)?;
        Ok(out)
    }

    /// Appends the message to `out`, which is unchanged on failure.
    ///
    /// # Errors
    /// As [`Message::encode`].
    pub fn encode_into(&self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let start = out.len();
        let version = if let Body::Hello(hello) = &self.body { hello.version() } else { VERSION };
        out.extend_from_slice(&[version, self.body.kind(), 0, 0]);
        out.extend_from_slice(&self.xid.to_be_bytes());
        let done = self.body.encode(out, self.xid).and_then(|()| {
            let len = out.len() - start;
            u16::try_from(len).map_err(|_| EncodeError::TooLong { len })
        });
        match done {
            Ok(len) => {
                out[start + 2..start + 4].copy_from_slice(&len.to_be_bytes());
                Ok(())
            }
            Err(error) => {
                out.truncate(start);
                Err(error)
            }
        }
    }

    /// Reads one message, which must fill `bytes` ([`crate::frame`] finds its end).
    ///
    /// Unknown types come back as [`Body::Unknown`]. Nothing is allocated beyond the size of the
    /// input, and no input makes this panic.
    ///
    /// # Errors
    /// A known type with a malformed body, or a version other than 1.5 (except in hello and error).
    pub fn decode(bytes: &[u8]) -> Result<Message, DecodeError> {
        let mut reader = Reader::new("message header", bytes);
        let message = Message::decode_from(&mut reader, true)?;
        reader.end()?;
        Ok(message)
    }

    /// Reads a message. A message inside a bundle must not contain another one.
    fn decode_from(reader: &mut Reader<'_>, outer: bool) -> Result<Message, DecodeError> {
        let at = reader.clone();
        let (version, kind, len) = (reader.u8()?, reader.u8()?, usize::from(reader.u16()?));
        let xid = reader.u32()?;
        let Some(body) = len.checked_sub(HEADER_LEN) else { return Err(at.fault(Fault::Length(len))) };
        if version != VERSION && !matches!(kind, kind::HELLO | kind::ERROR) {
            return Err(at.fault(Fault::Version(version)));
        }
        let mut body = reader.sub("message", body)?;
        let body = if outer {
            Body::decode(&mut body, version, kind, xid)?
        } else {
            Body::decode_bundled(&mut body, kind)?
        };
        Ok(Message { xid, body })
    }
}

impl Body {
    /// The type byte.
    fn kind(&self) -> u8 {
        match self {
            Body::Hello(_) => kind::HELLO,
            Body::Error(_) => kind::ERROR,
            Body::EchoRequest(_) => kind::ECHO_REQUEST,
            Body::EchoReply(_) => kind::ECHO_REPLY,
            Body::FeaturesRequest => kind::FEATURES_REQUEST,
            Body::FeaturesReply(_) => kind::FEATURES_REPLY,
            Body::GetConfigRequest => kind::GET_CONFIG_REQUEST,
            Body::GetConfigReply(_) => kind::GET_CONFIG_REPLY,
            Body::SetConfig(_) => kind::SET_CONFIG,
            Body::FlowRemoved(_) => kind::FLOW_REMOVED,
            Body::PortStatus(_) => kind::PORT_STATUS,
            Body::PacketOut(_) => kind::PACKET_OUT,
            Body::FlowMod(_) => kind::FLOW_MOD,
            Body::GroupMod(_) => kind::GROUP_MOD,
            Body::MeterMod(_) => kind::METER_MOD,
            Body::FlowDescRequest(_)
            | Body::GroupDescRequest(_)
            | Body::MeterDescRequest(_)
            | Body::MeterStatsRequest(_)
            | Body::PortDescRequest(_)
            | Body::FlowMonitorRequest(_) => kind::MULTIPART_REQUEST,
            Body::FlowDescReply(_)
            | Body::GroupDescReply(_)
            | Body::MeterDescReply(_)
            | Body::MeterStatsReply(_)
            | Body::PortDescReply(_)
            | Body::FlowMonitorReply(_) => kind::MULTIPART_REPLY,
            Body::BarrierRequest => kind::BARRIER_REQUEST,
            Body::BarrierReply => kind::BARRIER_REPLY,
            Body::RoleRequest(_) => kind::ROLE_REQUEST,
            Body::RoleReply(_) => kind::ROLE_REPLY,
            Body::RoleStatus(_) => kind::ROLE_STATUS,
            Body::BundleControl(_) => kind::BUNDLE_CONTROL,
            Body::BundleAdd(_) => kind::BUNDLE_ADD,
            Body::TlvTableMod(_)
            | Body::TlvTableRequest
            | Body::TlvTableReply(_)
            | Body::CtFlushZone(_)
            | Body::SetPacketInFormat(_)
            | Body::SetControllerId(_)
            | Body::PacketIn(_)
            | Body::Resume(_)
            | Body::Experimenter { .. } => kind::EXPERIMENTER,
            Body::Unknown { kind, .. } => *kind,
        }
    }

    fn encode(&self, out: &mut Vec<u8>, xid: u32) -> Result<(), EncodeError> {
        match self {
            Body::FeaturesRequest | Body::GetConfigRequest | Body::BarrierRequest | Body::BarrierReply => {}
            Body::Hello(hello) => hello.encode(out),
            Body::Error(error) => error.encode(out),
            Body::EchoRequest(data) | Body::EchoReply(data) | Body::Unknown { data, .. } => {
                out.extend_from_slice(data);
            }
            Body::FeaturesReply(features) => features.encode(out),
            Body::GetConfigReply(config) | Body::SetConfig(config) => config.encode(out),
            Body::FlowRemoved(removed) => removed.encode(out),
            Body::PortStatus(status) => status.encode(out),
            Body::PacketOut(packet) => packet.encode(out)?,
            Body::FlowMod(flow) => flow.encode(out),
            Body::GroupMod(group) => group.encode(out)?,
            Body::GroupDescRequest(request) => {
                multipart_header(out, multipart::GROUP_DESC, false);
                request.encode(out);
            }
            Body::GroupDescReply(reply) => {
                multipart_header(out, multipart::GROUP_DESC, reply.more);
                reply.encode(out)?;
            }
            Body::MeterMod(meter) => meter.encode(out),
            Body::MeterDescRequest(meter) => {
                multipart_header(out, multipart::METER_DESC, false);
                meters::encode_request(*meter, out);
            }
            Body::MeterDescReply(reply) => {
                multipart_header(out, multipart::METER_DESC, reply.more);
                reply.encode(out);
            }
            Body::MeterStatsRequest(meter) => {
                multipart_header(out, multipart::METER, false);
                meters::encode_request(*meter, out);
            }
            Body::MeterStatsReply(reply) => {
                multipart_header(out, multipart::METER, reply.more);
                reply.encode(out);
            }
            Body::FlowDescRequest(request) => {
                multipart_header(out, multipart::FLOW_DESC, false);
                request.encode(out);
            }
            Body::FlowDescReply(reply) => {
                multipart_header(out, multipart::FLOW_DESC, reply.more);
                reply.encode(out)?;
            }
            Body::PortDescRequest(port) => {
                multipart_header(out, multipart::PORT_DESC, false);
                out.extend_from_slice(&port.to_wire().to_be_bytes());
                out.extend_from_slice(&[0; 4]);
            }
            Body::PortDescReply(reply) => {
                multipart_header(out, multipart::PORT_DESC, reply.more);
                reply.encode(out);
            }
            Body::FlowMonitorRequest(request) => {
                multipart_header(out, multipart::FLOW_MONITOR, false);
                request.encode(out);
            }
            Body::FlowMonitorReply(reply) => {
                multipart_header(out, multipart::FLOW_MONITOR, reply.more);
                reply.encode(out)?;
            }
            Body::RoleRequest(role) | Body::RoleReply(role) => role.encode(out),
            Body::RoleStatus(status) => status.encode(out),
            Body::BundleControl(control) => control.encode(out),
            Body::BundleAdd(add) => add.encode(out, xid)?,
            Body::TlvTableMod(change) => {
                nicira_header(out, nicira::TLV_TABLE_MOD);
                change.encode(out);
            }
            Body::TlvTableRequest => nicira_header(out, nicira::TLV_TABLE_REQUEST),
            Body::TlvTableReply(reply) => {
                nicira_header(out, nicira::TLV_TABLE_REPLY);
                reply.encode(out);
            }
            Body::CtFlushZone(zone) => {
                nicira_header(out, nicira::CT_FLUSH_ZONE);
                ct_flush::encode(*zone, out);
            }
            Body::SetPacketInFormat(format) => {
                nicira_header(out, nicira::SET_PACKET_IN_FORMAT);
                format.encode(out);
            }
            Body::SetControllerId(id) => {
                nicira_header(out, nicira::SET_CONTROLLER_ID);
                packet_in::encode_controller_id(*id, out);
            }
            Body::PacketIn(packet) => {
                nicira_header(out, nicira::PACKET_IN2);
                packet.encode(out);
            }
            Body::Resume(packet) => {
                nicira_header(out, nicira::RESUME);
                packet.encode(out);
            }
            Body::Experimenter { experimenter, subtype, data } => {
                out.extend_from_slice(&experimenter.to_be_bytes());
                out.extend_from_slice(&subtype.to_be_bytes());
                out.extend_from_slice(data);
            }
        }
        Ok(())
    }

    fn decode(reader: &mut Reader<'_>, version: u8, kind: u8, xid: u32) -> Result<Body, DecodeError> {
        let body = match kind {
            kind::HELLO => Body::Hello(Hello::decode(reader, version)),
            kind::ERROR => Body::Error(ErrorMessage::decode(&mut reader.clone().named("error"))?),
            kind::ECHO_REQUEST => Body::EchoRequest(reader.rest().to_vec()),
            kind::ECHO_REPLY => Body::EchoReply(reader.rest().to_vec()),
            kind::MULTIPART_REQUEST | kind::MULTIPART_REPLY => return Body::decode_multipart(reader, kind),
            kind::ROLE_REQUEST => Body::RoleRequest(whole(reader, "role request", RoleRequest::decode)?),
            kind::ROLE_REPLY => Body::RoleReply(whole(reader, "role reply", RoleRequest::decode)?),
            kind::ROLE_STATUS => {
                Body::RoleStatus(RoleStatus::decode(&mut reader.clone().named("role status"))?)
            }
            kind::FEATURES_REQUEST => whole(reader, "features request", |_| Ok(Body::FeaturesRequest))?,
            kind::FEATURES_REPLY => Body::FeaturesReply(whole(reader, "features reply", Features::decode)?),
            kind::GET_CONFIG_REQUEST => whole(reader, "config request", |_| Ok(Body::GetConfigRequest))?,
            kind::GET_CONFIG_REPLY => {
                Body::GetConfigReply(whole(reader, "config reply", SwitchConfig::decode)?)
            }
            kind::SET_CONFIG => Body::SetConfig(whole(reader, "set config", SwitchConfig::decode)?),
            kind::FLOW_REMOVED => Body::FlowRemoved(whole(reader, "flow removed", FlowRemoved::decode)?),
            kind::PORT_STATUS => Body::PortStatus(whole(reader, "port status", PortStatus::decode)?),
            kind::METER_MOD => Body::MeterMod(whole(reader, "meter mod", MeterMod::decode)?),
            kind::BARRIER_REQUEST => whole(reader, "barrier request", |_| Ok(Body::BarrierRequest))?,
            kind::BARRIER_REPLY => whole(reader, "barrier reply", |_| Ok(Body::BarrierReply))?,
            kind::BUNDLE_CONTROL => {
                Body::BundleControl(BundleControl::decode(&mut reader.clone().named("bundle control"))?)
            }
            kind::BUNDLE_ADD => {
                Body::BundleAdd(BundleAdd::decode(&mut reader.clone().named("bundle add"), xid)?)
            }
            kind::EXPERIMENTER => return Body::decode_extension(reader),
            _ => return Body::decode_bundled(reader, kind),
        };
        Ok(body)
    }

    fn decode_extension(reader: &mut Reader<'_>) -> Result<Body, DecodeError> {
        let (experimenter, subtype) = (reader.u32()?, reader.u32()?);
        Ok(match (experimenter, subtype) {
            (NICIRA, nicira::TLV_TABLE_MOD) => {
                Body::TlvTableMod(whole(reader, "option map change", TlvTableMod::decode)?)
            }
            (NICIRA, nicira::TLV_TABLE_REQUEST) => {
                whole(reader, "option map request", |_| Ok(Body::TlvTableRequest))?
            }
            (NICIRA, nicira::TLV_TABLE_REPLY) => {
                Body::TlvTableReply(whole(reader, "option map", TlvTableReply::decode)?)
            }
            (NICIRA, nicira::CT_FLUSH_ZONE) => {
                Body::CtFlushZone(whole(reader, "flush of a zone", ct_flush::decode)?)
            }
            (NICIRA, nicira::SET_PACKET_IN_FORMAT) => {
                Body::SetPacketInFormat(whole(reader, "packet-in format", PacketInFormat::decode)?)
            }
            (NICIRA, nicira::SET_CONTROLLER_ID) => {
                Body::SetControllerId(whole(reader, "controller id", packet_in::decode_controller_id)?)
            }
            (NICIRA, nicira::PACKET_IN2) => Body::PacketIn(whole(reader, "packet-in", PacketIn::decode)?),
            (NICIRA, nicira::RESUME) => Body::Resume(whole(reader, "resumption", PacketIn::decode)?),
            _ => Body::Experimenter { experimenter, subtype, data: reader.rest().to_vec() },
        })
    }

    /// Reads a message that is allowed in a bundle; others stay bytes.
    fn decode_bundled(reader: &mut Reader<'_>, kind: u8) -> Result<Body, DecodeError> {
        Ok(match kind {
            kind::PACKET_OUT => Body::PacketOut(whole(reader, "packet-out", PacketOut::decode)?),
            kind::FLOW_MOD => Body::FlowMod(whole(reader, "flow mod", FlowMod::decode)?),
            kind::GROUP_MOD => Body::GroupMod(whole(reader, "group mod", GroupMod::decode)?),
            _ => Body::Unknown { kind, data: reader.rest().to_vec() },
        })
    }

    fn decode_multipart(reader: &mut Reader<'_>, kind: u8) -> Result<Body, DecodeError> {
        let data = reader.clone().rest();
        let (part, flags) = (reader.u16()?, reader.u16()?);
        reader.skip(4)?;
        let more = flags & 1 != 0;
        Ok(match (kind, part) {
            (kind::MULTIPART_REQUEST, multipart::FLOW_DESC) => {
                Body::FlowDescRequest(whole(reader, "flow request", FlowDescRequest::decode)?)
            }
            (kind::MULTIPART_REPLY, multipart::FLOW_DESC) => {
                Body::FlowDescReply(whole(reader, "flow reply", |r| FlowDescReply::decode(r, more))?)
            }
            (kind::MULTIPART_REQUEST, multipart::GROUP_DESC) => {
                Body::GroupDescRequest(whole(reader, "group request", GroupDescRequest::decode)?)
            }
            (kind::MULTIPART_REPLY, multipart::GROUP_DESC) => {
                Body::GroupDescReply(whole(reader, "group reply", |r| GroupDescReply::decode(r, more))?)
            }
            (kind::MULTIPART_REQUEST, multipart::METER_DESC) => {
                Body::MeterDescRequest(whole(reader, "meter request", meters::decode_request)?)
            }
            (kind::MULTIPART_REPLY, multipart::METER_DESC) => {
                Body::MeterDescReply(whole(reader, "meter reply", |r| MeterDescReply::decode(r, more))?)
            }
            (kind::MULTIPART_REQUEST, multipart::METER) => {
                Body::MeterStatsRequest(whole(reader, "meter request", meters::decode_request)?)
            }
            (kind::MULTIPART_REPLY, multipart::METER) => {
                Body::MeterStatsReply(whole(reader, "meter reply", |r| MeterStatsReply::decode(r, more))?)
            }
            (kind::MULTIPART_REQUEST, multipart::PORT_DESC) => {
                Body::PortDescRequest(whole(reader, "port request", ports::decode_request)?)
            }
            (kind::MULTIPART_REPLY, multipart::PORT_DESC) => {
                Body::PortDescReply(whole(reader, "port reply", |r| PortDescReply::decode(r, more))?)
            }
            (kind::MULTIPART_REQUEST, multipart::FLOW_MONITOR) => {
                Body::FlowMonitorRequest(whole(reader, "flow monitor request", FlowMonitorRequest::decode)?)
            }
            (kind::MULTIPART_REPLY, multipart::FLOW_MONITOR) => {
                Body::FlowMonitorReply(whole(reader, "flow monitor reply", |r| {
                    FlowMonitorReply::decode(r, more)
                })?)
            }
            _ => Body::Unknown { kind, data: data.to_vec() },
        })
    }
}

/// Runs `decode` and requires that it used up the reader.
fn whole<T>(
    reader: &mut Reader<'_>,
    what: &'static str,
    decode: impl FnOnce(&mut Reader<'_>) -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    let mut reader = reader.clone().named(what);
    let value = decode(&mut reader)?;
    reader.end()?;
    Ok(value)
}

fn nicira_header(out: &mut Vec<u8>, subtype: u32) {
    out.extend_from_slice(&NICIRA.to_be_bytes());
    out.extend_from_slice(&subtype.to_be_bytes());
}

fn multipart_header(out: &mut Vec<u8>, part: u16, more: bool) {
    out.extend_from_slice(&part.to_be_bytes());
    out.extend_from_slice(&u16::from(more).to_be_bytes());
    out.extend_from_slice(&[0; 4]);
}

impl fmt::Display for Message {
    /// Writes the text that `ovs-ofctl ofp-print` prints for the message's bytes, without the last
    /// line end. Types that this crate does not interpret print their name and size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&print::message(self))
    }
}

#[cfg(test)]
mod tests;
