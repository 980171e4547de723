//! One check of an address, from its first packet to its result. No I/O and no clock here.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use packet_answers::{Check, Conversation, Probe, Returned};
use smoltcp::socket::tcp::State;

use super::stream::Stream;

/// What is read of an answer of HTTP behind its first line, so that the other side can end the connection in order.
const IGNORED_MAX: usize = 64 << 10;
/// `HTTP/1.1 200 `: the part of an answer that counts.
const STATUS_LEN: usize = 13;

/// Why a check has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Nothing, or not enough, has come in time.
    Timeout,
    /// The connection was refused.
    Refused,
    /// The connection ended before there was an answer.
    Closed,
    /// The answer is none of HTTP.
    NoHttp,
    /// The answer has this status.
    Status(u16),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Timeout => f.write_str("timeout"),
            Cause::Refused => f.write_str("refused"),
            Cause::Closed => f.write_str("closed"),
            Cause::NoHttp => f.write_str("no-http"),
            Cause::Status(status) => write!(f, "http-{status}"),
        }
    }
}

/// A check that is under way.
pub(super) struct Attempt {
    /// The end of it, whatever happens.
    deadline: Duration,
    has_result: bool,
    way: Way,
}

enum Way {
    /// An echo request was sent, and this is the message that answers it.
    Echo { reply: Vec<u8> },
    /// A connection.
    Stream(Box<Connecting>),
}

struct Connecting {
    stream: Stream,
    /// What is asked once the connection is there; none if the connection is all that counts.
    request: Option<Vec<u8>>,
    is_asked: bool,
    was_connected: bool,
    /// The beginning of the answer.
    answer: Vec<u8>,
    ignored: usize,
}

/// What a step of a check leads to.
#[derive(Default)]
pub(super) struct Step {
    /// Packets to send, from the IP header on.
    pub(super) packets: Vec<Vec<u8>>,
    /// The result, once.
    pub(super) result: Option<Result<(), Cause>>,
    /// Whether the check is over: nothing has to be sent any more.
    pub(super) is_over: bool,
}

impl Attempt {
    /// Begins. `random` gives numbers that nobody can guess, and `round` is the number of the check. Returns the first packets too.
    pub(super) fn begin(
        probe: &Probe,
        ends: &Conversation,
        round: u16,
        random: impl Fn(u8) -> u64,
        now: Duration,
    ) -> Option<(Attempt, Step)> {
        let deadline = now + Duration::from_secs(probe.timeout.into());
        let request = match &probe.check {
            Check::Icmp => {
                // Only who has seen the request can answer it.
                let data = [random(0).to_be_bytes(), random(1).to_be_bytes()].concat();
                let (packet, reply) = probe.echo(ends.own, round, &data);
                let attempt = Attempt { deadline, has_result: false, way: Way::Echo { reply } };
                return Some((attempt, Step { packets: vec![packet], ..Step::default() }));
            }
            Check::Tcp(_) => None,
            Check::Http { port, path } => Some(request(probe.to, *port, path)),
        };
        let sends = request.as_ref().map_or(1, Vec::len);
        let connecting = Connecting {
            stream: Stream::connect(ends, sends, random(0), now)?,
            request,
            is_asked: false,
            was_connected: false,
            answer: Vec::new(),
            ignored: 0,
        };
        let mut attempt = Attempt { deadline, has_result: false, way: Way::Stream(Box::new(connecting)) };
        let step = attempt.step(None, now);
        Some((attempt, step))
    }

    /// Goes on, with a packet if one has come.
    pub(super) fn step(&mut self, returned: Option<&Returned<'_>>, now: Duration) -> Step {
        let is_late = now >= self.deadline;
        let mut step = Step::default();
        match &mut self.way {
            Way::Echo { reply } => {
                let is_answer = returned.is_some_and(|returned| returned.payload == reply);
                if is_late {
                    step.result = Some(Err(Cause::Timeout));
                } else if is_answer {
                    step.result = Some(Ok(()));
                }
                step.is_over = step.result.is_some();
            }
            Way::Stream(connecting) => {
                let packet = returned.map(|returned| returned.packet);
                step = connecting.step(packet, self.has_result, is_late, now);
            }
        }
        self.has_result |= step.result.is_some();
        step
    }

    /// When it has to go on without a packet.
    pub(super) fn next(&mut self, now: Duration) -> Duration {
        let next = match &mut self.way {
            Way::Echo { .. } => None,
            Way::Stream(connecting) => connecting.stream.next(now),
        };
        next.map_or(self.deadline, |next| next.min(self.deadline))
    }
}

impl Connecting {
    fn step(&mut self, packet: Option<&[u8]>, has_result: bool, is_late: bool, now: Duration) -> Step {
        // What comes too late does not count, and nothing is asked again.
        let packets = if is_late { Vec::new() } else { self.stream.poll(packet, now) };
        let mut step = Step { packets, ..Step::default() };
        if !has_result {
            step.result = if is_late { Some(Err(Cause::Timeout)) } else { self.result() };
        }
        if has_result || step.result.is_some() {
            self.end(is_late);
        }
        // What was written or ended just now is sent at once.
        step.packets.extend(self.stream.poll(None, now));
        step.is_over = self.stream.is_over();
        step
    }

    /// The result, once it is there.
    fn result(&mut self) -> Option<Result<(), Cause>> {
        let socket = self.stream.socket();
        if !socket.is_open() {
            return Some(Err(if self.was_connected { Cause::Closed } else { Cause::Refused }));
        }
        if matches!(socket.state(), State::SynSent | State::SynReceived) {
            return None;
        }
        self.was_connected = true;
        let Some(request) = &self.request else { return Some(Ok(())) };
        if !self.is_asked {
            self.is_asked = socket.send_slice(request).is_ok_and(|sent| sent == request.len());
        }
        while self.answer.len() < STATUS_LEN && socket.can_recv() {
            let mut bytes = [0; STATUS_LEN];
            let wanted = bytes.get_mut(self.answer.len()..).unwrap_or_default();
            let read = socket.recv_slice(wanted).unwrap_or(0);
            let read = wanted.get(..read).unwrap_or_default();
            self.answer.extend_from_slice(read);
        }
        match status(&self.answer) {
            Some(Ok(200..=399)) => Some(Ok(())),
            Some(Ok(status)) => Some(Err(Cause::Status(status))),
            Some(Err(cause)) => Some(Err(cause)),
            None => (!socket.may_recv()).then_some(Err(Cause::Closed)),
        }
    }

    /// Ends the connection in order, or at once if the other side goes on and on, or does not end it in time.
    fn end(&mut self, is_late: bool) {
        let socket = self.stream.socket();
        while let Ok(read @ 1..) = socket.recv(|bytes| (bytes.len(), bytes.len())) {
            self.ignored = self.ignored.saturating_add(read);
        }
        if is_late || self.ignored > IGNORED_MAX {
            socket.abort();
        } else {
            socket.close();
        }
    }
}

fn request(to: IpAddr, port: u16, path: &str) -> Vec<u8> {
    const DEFAULT: u16 = 80;
    let host = if to.is_ipv6() { format!("[{to}]") } else { to.to_string() };
    let port = if port == DEFAULT { String::new() } else { format!(":{port}") };
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}{port}\r\nUser-Agent: weft-probe\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )
    .into_bytes()
}

/// The status that the beginning of an answer has; none if more has to come, and an error if it is no answer of HTTP (RFC 9112, 4).
fn status(answer: &[u8]) -> Option<Result<u16, Cause>> {
    const BEGINS: &[u8] = b"HTTP/1.";
    if answer.iter().zip(BEGINS).any(|(is, begins)| is != begins) {
        return Some(Err(Cause::NoHttp));
    }
    let behind = answer.get(BEGINS.len()..)?.first_chunk::<6>()?;
    let [minor, b' ', digits @ .., b' ' | b'\r' | b'\n'] = behind else {
        return Some(Err(Cause::NoHttp));
    };
    let is_number = minor.is_ascii_digit() && digits.iter().all(u8::is_ascii_digit);
    let number = digits.iter().fold(0, |number, digit| number * 10 + u16::from(digit.wrapping_sub(b'0')));
    Some(if is_number && number >= 100 { Ok(number) } else { Err(Cause::NoHttp) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_an_answer_has_the_status() {
        for (answer, wanted) in [
            ("HTTP/1.1 200 OK", Some(Ok(200))),
            ("HTTP/1.0 503\r\n", Some(Ok(503))),
            ("HTTP/1.1 200", None),
            ("HTT", None),
            ("", None),
            ("HTTP/2 200 OK\r\n", Some(Err(Cause::NoHttp))),
            ("SSH-2.0", Some(Err(Cause::NoHttp))),
            ("HTTP/1.1 20x OK", Some(Err(Cause::NoHttp))),
            ("HTTP/1.1  200 ", Some(Err(Cause::NoHttp))),
            ("HTTP/1.1 2000 ", Some(Err(Cause::NoHttp))),
            ("HTTP/1.1 099 x", Some(Err(Cause::NoHttp))),
        ] {
            assert_eq!(status(answer.as_bytes()), wanted, "{answer}");
        }
    }

    #[test]
    fn a_request_has_the_host_that_is_asked() {
        let text = |to: &str, port| String::from_utf8(request(to.parse().unwrap(), port, "/h")).unwrap();
        assert!(text("10.0.0.9", 80).starts_with("GET /h HTTP/1.1\r\nHost: 10.0.0.9\r\n"));
        assert!(text("fd00::9", 8080).contains("\r\nHost: [fd00::9]:8080\r\n"));
        assert!(text("fd00::9", 8080).ends_with("\r\n\r\n"));
    }
}
