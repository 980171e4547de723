//! `weft trace` without a program: a running controller is asked.

use weft_client::pb;

use objects::ObjectKey;
use packet_trace::Change;

use super::{ConnectionState, PacketArguments, TraceCommand, capture, change};
use crate::client::failed;
use crate::exit::Failure;

impl TraceCommand {
    /// Asks the controller for the way of each packet.
    pub(super) fn ask(&self, from: &str) -> Result<(), Failure> {
        let is_past = !self.source.is_empty() || self.at.is_some() || self.state.is_some();
        if is_past {
            let why = "-i, --objects, --state and --at need a program, such as: builtin blue-1; without one, the running controller is asked";
            return Err(Failure::Usage(why.to_owned()));
        }
        if !self.rules.is_empty() {
            let why = "--rules needs a program to compare with, such as: builtin blue-1 --rules FOLDER; a running controller has one program";
            return Err(Failure::Usage(why.to_owned()));
        }
        let is_change = self.diff.is_some() || !self.without.is_empty();
        if is_change && self.live {
            let why = "--live compares with what switches have, and none has the flows of a change that is not applied: leave out --live";
            return Err(Failure::Usage(why.to_owned()));
        }
        let change = is_change.then(|| self.tried_change()).transpose()?;
        let form = match (self.json, self.verbose) {
            (true, _) => pb::TraceForm::Json,
            (_, true) => pb::TraceForm::Verbose,
            _ => pb::TraceForm::Unspecified,
        };
        let request = |packet| pb::TraceRequest {
            from: from.to_owned(),
            packet: Some(packet),
            form: form.into(),
            live: self.live,
            connection: self.packet.ct.message().into(),
            change: change.clone(),
        };
        let frames = self.packet.pcap.as_deref().map(capture::frames).transpose()?;
        let is_capture = frames.is_some();
        let requests: Vec<pb::TraceRequest> = match frames {
            None => vec![request(self.packet.message())],
            Some(frames) => {
                frames.into_iter().map(|bytes| request(pb::trace_request::Packet::Frame(bytes))).collect()
            }
        };
        let (all_arrive, in_force) = self.address.with(|mut client| async move {
            let (mut all_arrive, mut in_force) = (true, true);
            for (number, request) in (1..).zip(requests) {
                let answer = client.trace(request).await.map_err(failed)?;
                all_arrive &= answer.delivered;
                in_force &= answer.not_in_force.is_empty();
                self.print(is_capture.then_some(number), &answer.text, &answer.verdict, &answer.packet)?;
            }
            Ok((all_arrive, in_force))
        })?;
        match (all_arrive, in_force) {
            (true, true) => Ok(()),
            (true, false) => Err(Failure::NotInForce),
            (false, _) => Err(Failure::Reported),
        }
    }
}

impl TraceCommand {
    /// The change of a request.
    fn tried_change(&self) -> Result<pb::TriedChange, Failure> {
        let Change { documents, without } = change::read(self.diff.as_ref(), &self.without)?;
        let document = |(name, text)| pb::Document { name, text, object: None };
        let object = |key: ObjectKey| pb::ObjectRef { kind: key.kind.to_string(), id: key.id.to_string() };
        Ok(pb::TriedChange {
            documents: documents.into_iter().map(document).collect(),
            without: without.into_iter().map(object).collect(),
        })
    }
}

/// A field of a request: empty if it is not given.
fn text<T: ToString>(value: Option<&T>) -> String {
    value.map(T::to_string).unwrap_or_default()
}

impl ConnectionState {
    /// The state in a request.
    fn message(self) -> pb::ConnectionState {
        match self {
            ConnectionState::New => pb::ConnectionState::Unspecified,
            ConnectionState::Est => pb::ConnectionState::Established,
            ConnectionState::Rpl => pb::ConnectionState::Reply,
            ConnectionState::Rel => pb::ConnectionState::Related,
        }
    }
}

impl PacketArguments {
    /// The packet of a request.
    fn message(&self) -> pb::trace_request::Packet {
        if let Some(flow) = &self.flow {
            return pb::trace_request::Packet::Flow(flow.clone());
        }
        pb::trace_request::Packet::Words(pb::PacketInWords {
            to: self.to.clone().unwrap_or_default(),
            ip: text(self.ip.as_ref()),
            from_ip: text(self.from_ip.as_ref()),
            from_mac: text(self.from_mac.as_ref()),
            to_mac: text(self.to_mac.as_ref()),
            tcp: self.tcp.map(u32::from),
            udp: self.udp.map(u32::from),
            ttl: self.ttl.map(u32::from),
            size: self.size.map(u32::from),
        })
    }
}
