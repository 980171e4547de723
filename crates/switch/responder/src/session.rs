//! One connection to a switch.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::time::Duration;

use openflow_connection::{Frame, Malformed, OpenFlowCodec, VERSION, kind};
use openflow_rs::message::{FlowDescRequest, Hello, PacketInFormat, SwitchConfig};
use openflow_rs::{Body, Message, PortNo};
use packet_answers::Silence;
use peer_connection::{Connection, ConnectionError, Dial, MemoryBudget, Timeouts};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::Config;
use crate::advertising::{Advertising, READ_EVERY};
use crate::answering::{Answering, NoAnswer};

/// How long it may take to connect and set the connection up.
const SETUP_MAX: Duration = Duration::from_secs(10);
/// A switch in order answers an echo request, and takes bytes, within this.
const SILENT_MAX: Duration = Duration::from_secs(5);
/// The bytes of answers that may wait for the switch to take them. More would be late.
const UNSENT_MAX: usize = 256 << 10;
/// The most flows that a connection names in the log.
const NAMED_MAX: usize = 100;
/// What messages of the switch may take. A packet is at most 64 KiB, and is answered before the next is read.
const MEMORY_MAX: usize = 4 << 20;
/// Anything but 0: a service connection gets no packets before.
const MISS_SEND_LEN: u16 = u16::MAX;

/// Why a connection has ended.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// It has failed.
    #[error(transparent)]
    Connection(#[from] ConnectionError<Malformed>),
    /// The switch did not answer in time.
    #[error("the switch did not answer {request} within {seconds:.0} s")]
    NoAnswer {
        /// What it was asked.
        request: &'static str,
        /// The limit.
        seconds: f64,
    },
    /// The switch speaks another version.
    #[error(
        "the switch does not speak OpenFlow 1.5 (0x06) but {theirs:#04x}; add OpenFlow15 to the bridge's protocols"
    )]
    Version {
        /// The version of its hello.
        theirs: u8,
    },
    /// The switch refuses a request.
    #[error("the switch answered {request} with {error}")]
    Refused {
        /// What it was asked.
        request: &'static str,
        /// The error.
        error: String,
    },
}

/// A connection over which the switch hands packets over.
pub(crate) struct Session {
    connection: Connection<OpenFlowCodec>,
    next_xid: u32,
    began: Instant,
    /// The flows that are not understood and have been named in the log, by table and cookie.
    named: BTreeSet<(u8, u64)>,
}

impl Session {
    /// Connects, and asks for packets.
    pub(crate) async fn open(config: &Config, dialler: &dyn Dial) -> Result<Session, SessionError> {
        let deadline = Instant::now() + SETUP_MAX;
        let timeouts = Timeouts {
            probe_interval: SILENT_MAX,
            probe_timeout: SILENT_MAX,
            write_timeout: SILENT_MAX,
            message_timeout: Some(SILENT_MAX),
        };
        let account = MemoryBudget::new(MEMORY_MAX).peer("the switch").account();
        let codec = OpenFlowCodec::negotiating();
        let endpoint = &config.endpoint;
        let connection = Connection::open(dialler, endpoint, deadline, codec, timeouts, account).await?;
        let mut session = Session { connection, next_xid: 1, began: Instant::now(), named: BTreeSet::new() };
        session.greet(deadline).await?;
        session.ask_for_packets(config.controller_id, deadline).await?;
        Ok(session)
    }

    async fn greet(&mut self, deadline: Instant) -> Result<(), SessionError> {
        self.send(Body::Hello(Hello::new()))?;
        let hello = self.wait_for("hello", kind::HELLO, deadline).await?;
        // A switch that speaks more says so in an element; the version of the header is the greatest that it speaks.
        if hello.header.version < VERSION {
            return Err(SessionError::Version { theirs: hello.header.version });
        }
        self.connection.protocol_mut().negotiated();
        Ok(())
    }

    /// Asks for packets of flows that name this number, with their userdata.
    async fn ask_for_packets(&mut self, id: u16, deadline: Instant) -> Result<(), SessionError> {
        // Of all connections together, the last one to say so decides how the switch treats fragments. This one does not change it.
        self.send(Body::GetConfigRequest)?;
        let reply =
            self.wait_for("a request for its configuration", kind::GET_CONFIG_REPLY, deadline).await?;
        let Ok(Message { body: Body::GetConfigReply(SwitchConfig { fragments, .. }), .. }) =
            Message::decode(&reply.bytes)
        else {
            let error = "a configuration that cannot be read".to_owned();
            return Err(SessionError::Refused { request: "a request for its configuration", error });
        };
        self.send(Body::SetPacketInFormat(PacketInFormat::Properties))?;
        self.send(Body::SetControllerId(id))?;
        self.send(Body::SetConfig(SwitchConfig { fragments, miss_send_len: MISS_SEND_LEN }))?;
        self.send(Body::BarrierRequest)?;
        self.wait_for("a request for packets", kind::BARRIER_REPLY, deadline).await?;
        Ok(())
    }

    fn send(&mut self, body: Body) -> Result<(), SessionError> {
        let xid = self.next_xid;
        // The last number is that of probes, and 0 that of messages of the switch.
        self.next_xid = if xid == u32::MAX - 1 { 1 } else { xid + 1 };
        Ok(self.connection.send(Message { xid, body })?)
    }

    /// Waits for a message of a kind.
    async fn wait_for(
        &mut self,
        request: &'static str,
        wanted: u8,
        deadline: Instant,
    ) -> Result<Frame, SessionError> {
        let late = || SessionError::NoAnswer { request, seconds: SETUP_MAX.as_secs_f64() };
        loop {
            let step = peer_connection::within(deadline, self.connection.step()).await;
            match step.ok_or_else(late)?? {
                Some(frame) if frame.header.kind == wanted => return Ok(frame),
                Some(frame) if frame.header.kind == kind::ERROR => {
                    return Err(SessionError::Refused { request, error: described(&frame) });
                }
                _ => {}
            }
        }
    }

    /// Answers packets until the connection ends.
    pub(crate) async fn serve(mut self, answering: &mut Answering) -> Result<Infallible, SessionError> {
        let mut advertising = Advertising::new(answering.counts().clone());
        let (mut next_reading, mut is_reading) = (Instant::now(), false);
        loop {
            // Asked before each step: packets that never stop coming must not keep the flows from being read.
            if Instant::now() >= next_reading {
                if !is_reading {
                    advertising.begin();
                    let from_flows =
                        FlowDescRequest { out_port: PortNo::CONTROLLER, ..FlowDescRequest::all() };
                    self.send(Body::FlowDescRequest(from_flows))?;
                }
                (next_reading, is_reading) = (Instant::now() + READ_EVERY, true);
            }
            let Some(step) = peer_connection::within(next_reading, self.connection.step()).await else {
                continue;
            };
            let Some(frame) = step? else { continue };
            match frame.header.kind {
                kind::MULTIPART_REPLY => is_reading = self.read(&frame, &mut advertising)?,
                kind::EXPERIMENTER => self.handed_over(&frame, answering)?,
                kind::ERROR => {
                    answering.counts().refused();
                    warn!(error = described(&frame), "the switch refused an answer");
                }
                // Ports that change, flows that end: others' business.
                _ => {}
            }
        }
    }

    /// Reads a part of the flows, and sends what is due after the last. Whether more will come.
    fn read(&mut self, frame: &Frame, advertising: &mut Advertising) -> Result<bool, SessionError> {
        let reply = match Message::decode(&frame.bytes) {
            Ok(Message { body: Body::FlowDescReply(reply), .. }) => reply,
            Ok(_) => return Ok(false),
            Err(error) => {
                warn!(%error, "the switch described flows that cannot be read; advertisements are sent as before");
                return Ok(false);
            }
        };
        advertising.read(&reply.flows);
        if !reply.more {
            for message in advertising.due(self.began.elapsed()) {
                self.send(Body::PacketOut(message))?;
            }
        }
        Ok(reply.more)
    }

    fn handed_over(&mut self, frame: &Frame, answering: &mut Answering) -> Result<(), SessionError> {
        let packet = match Message::decode(&frame.bytes) {
            Ok(Message { body: Body::PacketIn(packet), .. }) => packet,
            Ok(_) => return Ok(()),
            Err(error) => {
                warn!(%error, "the switch handed over a packet that cannot be read");
                return Ok(());
            }
        };
        if self.connection.unsent() > UNSENT_MAX {
            answering.counts().silent(&NoAnswer::Slow);
            return Ok(());
        }
        match answering.respond(&packet, self.began.elapsed()) {
            Ok(answer) => self.send(Body::PacketOut(answer)),
            Err(why) => {
                if matches!(why, NoAnswer::Instruction(_) | NoAnswer::Silence(Silence::UnknownReason)) {
                    self.name(packet.table, packet.cookie, &why);
                }
                debug!(%why, "a packet gets no answer");
                Ok(())
            }
        }
    }

    /// Names a flow in the log, once for a connection.
    fn name(&mut self, table: u8, cookie: u64, why: &NoAnswer) {
        if self.named.len() < NAMED_MAX && self.named.insert((table, cookie)) {
            let cookie = format!("{cookie:#x}");
            warn!(table, cookie, %why, "a flow asks for an answer that is not understood");
        }
    }
}

/// The error of a switch, in words.
fn described(frame: &Frame) -> String {
    match Message::decode(&frame.bytes) {
        Ok(message) => message.to_string(),
        Err(error) => format!("an error that cannot be read: {error}"),
    }
}
