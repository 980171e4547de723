//! `weft trace` without a program: a running controller is asked.

use controller::pb;

use super::{ConnectionState, PacketArguments, TraceCommand, capture};
use crate::client::failed;
use crate::exit::Failure;

impl TraceCommand {
    /// Asks the controller for the way of each packet.
    pub(super) fn ask(&self, from: &str) -> Result<(), Failure> {
        let is_past = !self.source.is_empty() || self.at.is_some() || self.state.is_some();
        let is_change = self.diff.is_some() || !self.without.is_empty();
        if is_past || is_change || !matches!(self.packet.ct, ConnectionState::New) {
            let why = "-i, --objects, --state, --at, --diff, --without and --ct need a program, such as: builtin blue-1; without one, the running controller is asked";
            return Err(Failure::Usage(why.to_owned()));
        }
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
        };
        let frames = self.packet.pcap.as_deref().map(capture::frames).transpose()?;
        let is_capture = frames.is_some();
        let requests: Vec<pb::TraceRequest> = match frames {
            None => vec![request(self.packet.message())],
            Some(frames) => {
                frames.into_iter().map(|bytes| request(pb::trace_request::Packet::Frame(bytes))).collect()
            }
        };
        let all_arrive = self.address.with(|mut client| async move {
            let mut all_arrive = true;
            for (number, request) in (1..).zip(requests) {
                let answer = client.trace(request).await.map_err(failed)?;
                all_arrive &= answer.delivered;
                self.print(is_capture.then_some(number), &answer.text, &answer.verdict, &answer.packet)?;
            }
            Ok(all_arrive)
        })?;
        if all_arrive { Ok(()) } else { Err(Failure::Reported) }
    }
}

/// A field of a request: empty if it is not given.
fn text<T: ToString>(value: Option<&T>) -> String {
    value.map(T::to_string).unwrap_or_default()
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
