//! One connection to a switch.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use openflow_connection::{Frame, Malformed, OpenFlowCodec, VERSION, kind};
use openflow_rs::message::{
    FlowDescReply, FlowDescRequest, FlowMonitor, FlowMonitorFlags, FlowMonitorReply, FlowMonitorRequest,
    Hello, PacketInFormat, SwitchConfig,
};
use openflow_rs::{Body, Message, PortNo};
use packet_answers::{Instruction, Silence};
use peer_connection::{Connection, ConnectionError, Dial, MemoryBudget, Timeouts};
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::Config;
use crate::advertising::{Advertising, READ_EVERY};
use crate::announcing::{Announcing, TICK};
use crate::answering::{Answering, NoAnswer};
use crate::counts::Counts;
use crate::holding::Switch;
use crate::probing::{Probing, Remembered, Results};
use crate::watching::{TABLE, Watching};

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

/// The number of the monitor of flows on this connection.
const MONITOR: u32 = 1;

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
    advertising: Advertising,
    announcing: Announcing,
    probing: Probing,
    watching: Watching,
    /// The request for reports of flows, until it is answered.
    monitor: Option<u32>,
}

/// What a connection tells those who write to the database, and hears from them.
#[derive(Clone)]
pub(crate) struct Holders<'a> {
    /// What is known of the flows of the switch.
    pub(crate) switch: &'a watch::Sender<Switch>,
    /// Counts how often tunnel ports were let go.
    pub(crate) released: watch::Receiver<u64>,
    /// What probes have found.
    pub(crate) results: &'a watch::Sender<Results>,
    /// What the database says of them, once that is known.
    pub(crate) remembered: watch::Receiver<Option<Arc<Remembered>>>,
}

impl Session {
    /// Connects, and asks for packets.
    pub(crate) async fn open(
        config: &Config,
        dialler: &dyn Dial,
        counts: &Arc<Counts>,
        holders: &Holders<'_>,
    ) -> Result<Session, SessionError> {
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
        let mut session = Session {
            connection,
            next_xid: 1,
            began: Instant::now(),
            named: BTreeSet::new(),
            advertising: Advertising::new(counts.clone()),
            announcing: Announcing::new(counts.clone()),
            probing: Probing::new(counts.clone(), secret(), holders.remembered.borrow().clone()),
            watching: Watching::default(),
            monitor: None,
        };
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

    /// Asks for the ports, and for the flows that say what to do without a packet, as they are and whenever they change.
    fn ask_for_changes(&mut self) -> Result<(), SessionError> {
        self.send(Body::PortDescRequest(PortNo::ANY))?;
        let flags = FlowMonitorFlags::INITIAL
            | FlowMonitorFlags::ADD
            | FlowMonitorFlags::REMOVED
            | FlowMonitorFlags::MODIFY
            | FlowMonitorFlags::INSTRUCTIONS;
        let monitor =
            FlowMonitor { table: TABLE, out_port: PortNo::CONTROLLER, ..FlowMonitor::all(MONITOR, flags) };
        self.monitor = Some(self.next_xid);
        self.send(Body::FlowMonitorRequest(FlowMonitorRequest { monitors: vec![monitor] }))
    }

    /// Answers packets, and sends what nobody asks for, until the connection ends.
    pub(crate) async fn serve(
        mut self,
        answering: &mut Answering,
        mut holders: Holders<'_>,
    ) -> Result<Infallible, SessionError> {
        self.ask_for_changes()?;
        let (mut next_reading, mut is_reading) = (Instant::now(), false);
        loop {
            // Asked before each step: packets that never stop coming must not keep the flows from being read.
            if Instant::now() >= next_reading {
                if !is_reading {
                    self.advertising.begin();
                    let from_flows =
                        FlowDescRequest { out_port: PortNo::CONTROLLER, ..FlowDescRequest::all() };
                    self.send(Body::FlowDescRequest(from_flows))?;
                }
                (next_reading, is_reading) = (Instant::now() + READ_EVERY, true);
            }
            self.send_due()?;
            let known = self.probing.results(self.began.elapsed());
            known.map(|known| holders.results.send_replace(known));
            let until = self.next_due().map_or(next_reading, |next| next_reading.min(next));
            let step = tokio::select! {
                // A tunnel port that was let go makes this switch lead again, and no port of its own changes by that.
                Ok(()) = holders.released.changed() => {
                    self.announcing.all_again();
                    continue;
                }
                Ok(()) = holders.remembered.changed() => {
                    let known = holders.remembered.borrow_and_update().clone();
                    if let Some(known) = known {
                        self.probing.remember(known);
                    }
                    continue;
                }
                step = self.connection.step() => step?,
                () = tokio::time::sleep_until(until) => continue,
            };
            let Some(frame) = step else { continue };
            match frame.header.kind {
                kind::MULTIPART_REPLY => self.told(&frame, &mut is_reading, holders.switch)?,
                kind::EXPERIMENTER => self.handed_over(&frame, answering)?,
                kind::PORT_STATUS => self.port(&frame),
                kind::ERROR => self.refused(&frame, answering),
                // Flows that end: others' business.
                _ => {}
            }
        }
    }

    /// When announcements or probes are due again. A switch that takes none is asked again after a moment.
    fn next_due(&self) -> Option<Instant> {
        let probes = self.probing.next(self.began.elapsed());
        let next = self.began + self.announcing.next().into_iter().chain(probes).min()?;
        let is_slow = self.connection.unsent() > UNSENT_MAX;
        Some(if is_slow { next.max(Instant::now() + TICK) } else { next })
    }

    /// Sends the announcements and probes that are due, unless the switch takes none.
    fn send_due(&mut self) -> Result<(), SessionError> {
        if self.connection.unsent() > UNSENT_MAX {
            return Ok(());
        }
        let now = self.began.elapsed();
        let mut due = self.announcing.due(now).into_iter().chain(self.probing.due(now));
        due.try_for_each(|message| self.send(Body::PacketOut(message)))
    }

    /// Takes up a part of what the switch was asked for.
    fn told(
        &mut self,
        frame: &Frame,
        is_reading: &mut bool,
        switch: &watch::Sender<Switch>,
    ) -> Result<(), SessionError> {
        let message = match Message::decode(&frame.bytes) {
            Ok(message) => message,
            Err(error) => {
                warn!(%error, "the switch described flows that cannot be read; what they say is as before");
                *is_reading = false;
                return Ok(());
            }
        };
        match message.body {
            Body::FlowDescReply(reply) => *is_reading = self.read(&reply)?,
            Body::FlowMonitorReply(reply) => self.changed(reply, message.xid, switch),
            Body::PortDescReply(reply) => self.announcing.describe(&reply.ports),
            _ => {}
        }
        Ok(())
    }

    /// Takes up changes of flows, and says whether the switch is ready.
    fn changed(&mut self, reply: FlowMonitorReply, xid: u32, switch: &watch::Sender<Switch>) {
        let was_full = self.watching.is_full;
        self.announcing.change(self.watching.apply(reply.updates));
        let (probes, had_all) = (std::mem::take(&mut self.watching.probes), self.probing.is_full);
        self.probing.change(probes, self.began.elapsed());
        if self.probing.is_full && !had_all {
            warn!("the switch has more probes than a responder runs; some addresses are not checked");
        }
        if self.watching.is_full && !was_full {
            warn!(
                "the switch has more flows that announce addresses than a responder keeps; some are not announced"
            );
        }
        if self.monitor == Some(xid) && !reply.more {
            self.monitor = None;
        }
        // Before all flows are known, nothing follows from one that is missing.
        if self.monitor.is_none() {
            if self.watching.has_flows {
                self.probing.knows_all(self.began.elapsed());
            }
            let readiness = self.watching.readiness();
            let now = readiness.map_or(Switch::NotReady, |readiness| Switch::Ready(readiness.into()));
            switch.send_if_modified(|known| {
                let is_new = *known != now;
                *known = now;
                is_new
            });
        }
    }

    fn port(&mut self, frame: &Frame) {
        match Message::decode(&frame.bytes) {
            Ok(Message { body: Body::PortStatus(status), .. }) => self.announcing.port(&status),
            Ok(_) => {}
            Err(error) => warn!(%error, "the switch reported a port that cannot be read"),
        }
    }

    fn refused(&mut self, frame: &Frame, answering: &Answering) {
        let error = described(frame);
        if self.monitor == Some(frame.header.xid) {
            warn!(
                error,
                "the switch does not report its flows, so it announces nothing and is never ready: update Open vSwitch"
            );
            return;
        }
        answering.counts().refused();
        warn!(error, "the switch refused an answer");
    }

    /// Reads a part of the flows, and sends what is due after the last. Whether more will come.
    fn read(&mut self, reply: &FlowDescReply) -> Result<bool, SessionError> {
        self.advertising.read(&reply.flows);
        if !reply.more {
            for message in self.advertising.due(self.began.elapsed()) {
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
        if Instruction::is_of_probed(&packet.userdata) {
            let received = self.probing.received(&packet.packet, self.began.elapsed());
            let _ = received.map_err(|silence| answering.counts().silent(&NoAnswer::Silence(silence)));
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

/// A number that nobody else knows.
fn secret() -> u64 {
    RandomState::new().hash_one(())
}

/// The error of a switch, in words.
fn described(frame: &Frame) -> String {
    match Message::decode(&frame.bytes) {
        Ok(message) => message.to_string(),
        Err(error) => format!("an error that cannot be read: {error}"),
    }
}
