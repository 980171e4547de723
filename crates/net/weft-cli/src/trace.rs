//! `weft trace`: the way of a packet through the network, and why it ends where it ends.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Parser, ValueEnum};

use nlog::Program;
use objects::ObjectKey;
use packet_trace::{Connection, MacAddr, Network, Payload, Trace, Words, compare, json, text};

mod capture;
mod change;
mod running;

use crate::client::Address;
use crate::eval::{Begin, Source};
use crate::exit::{Failure, print_as};
use crate::explain::{input_rows, input_rows_after};
use crate::help::MORE;
use crate::program::compile;

/// The options that compare two states.
const CHANGE: &str = "Compare";

/// The end of `--help`.
const READING: &str = "\
Examples:
  weft trace web-1 --to db-1 --tcp 5432              can web-1 connect to the database?
  weft trace web-1 --ip 198.51.100.7                 where does a ping go?
  weft trace web-1 --to db-1 --diff change.yaml      what would this change do?

The packet goes through the flows that the rules derive; only --live asks switches. The answer is a
verdict with its reasons, then the packet's path, host by host. The exit status is 0 if the packet
arrives (with --to: at that port; after a change), 1 if it is dropped, and 4 if a switch on its path
is not connected or refuses flows.";

/// Arguments of `weft trace`.
#[derive(Args)]
#[command(
    override_usage = "weft trace [OPTIONS] [PROGRAM]... <FROM>",
    after_help = READING,
    mut_arg("input", |input| input.required_unless_present_any(["objects", "programs"])),
)]
pub(crate) struct TraceCommand {
    /// Rules (without any, the running controller is asked), then the sending port
    // One list, since options may stand between programs and port.
    #[arg(required = true, value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
    /// Trace in the network as it was after this transaction
    #[arg(long, help_heading = CHANGE, value_name = "TXN")]
    at: Option<u64>,
    /// Compare with these objects applied (nothing is really applied)
    #[arg(long, help_heading = CHANGE, value_name = "FILE", conflicts_with_all = ["pcap", "verbose"])]
    diff: Option<PathBuf>,
    /// Compare with this object deleted: `acl/no-ssh`
    #[arg(long, help_heading = CHANGE, value_name = "KIND/ID", value_parser = change::key, conflicts_with_all = ["pcap", "verbose"])]
    without: Vec<ObjectKey>,
    /// Compare with these rules; given several times, they form one program
    #[arg(long, help_heading = CHANGE, value_name = "PROGRAM", conflicts_with_all = ["pcap", "verbose", "state"])]
    rules: Vec<PathBuf>,
    #[command(flatten)]
    packet: PacketArguments,
    #[command(flatten)]
    source: Source,
    /// Start from a state that `weft eval --save-state` has saved
    #[arg(long, help_heading = MORE, value_name = "FILE", conflicts_with = "objects")]
    state: Option<PathBuf>,
    /// Show every table, flow and action, and complete objects
    #[arg(long)]
    verbose: bool,
    /// Print one JSON object for each packet
    #[arg(long)]
    json: bool,
    /// Compare these flows with those of the switches, and show counters
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    address: Address,
}

/// What the packet is.
#[derive(Args)]
struct PacketArguments {
    /// Logical port of the destination
    #[arg(long, value_name = "PORT")]
    to: Option<String>,
    /// Destination address [default: that of --to]
    #[arg(long, value_name = "ADDRESS")]
    ip: Option<IpAddr>,
    /// Open a TCP connection to this port
    #[arg(long, value_name = "PORT", group = "payload")]
    tcp: Option<u16>,
    /// Send a UDP datagram to this port
    #[arg(long, value_name = "PORT", group = "payload")]
    udp: Option<u16>,
    /// Send an echo request [the default]
    #[arg(long, group = "payload")]
    icmp: bool,
    /// Source address [default: the first of the sending port]
    #[arg(long, help_heading = MORE, value_name = "ADDRESS")]
    from_ip: Option<IpAddr>,
    /// Source MAC address [default: that of the source address]
    #[arg(long, help_heading = MORE, value_name = "MAC")]
    from_mac: Option<MacAddr>,
    /// Destination MAC address [default: that of the destination or router]
    #[arg(long, help_heading = MORE, value_name = "MAC")]
    to_mac: Option<MacAddr>,
    /// TTL or hop limit
    #[arg(long, help_heading = MORE, value_name = "HOPS")]
    ttl: Option<u8>,
    /// Length of the IP packet
    #[arg(long, help_heading = MORE, value_name = "BYTES")]
    size: Option<u16>,
    /// First packet (new), later (est), reply (rpl), error (rel)
    #[arg(long, help_heading = MORE, value_name = "STATE", default_value = "new", hide_possible_values = true, conflicts_with_all = ["flow", "pcap"])]
    ct: ConnectionState,
    /// The packet as Open vSwitch writes it: `tcp,nw_dst=10.0.0.2,tp_dst=80`
    #[arg(long, help_heading = MORE, value_name = "FLOW", conflicts_with_all = ["to", "ip", "payload", "from_ip", "from_mac", "to_mac", "ttl", "size"])]
    flow: Option<String>,
    /// Trace each packet of a capture (pcap or pcapng); prints a line for each
    #[arg(long, help_heading = MORE, value_name = "FILE", conflicts_with_all = ["flow", "to", "ip", "payload", "from_ip", "from_mac", "to_mac", "ttl", "size"])]
    pcap: Option<PathBuf>,
}

/// A packet as the words after `weft trace` describe it: the sending port, and its options.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub(crate) struct TracedPacket {
    from: String,
    #[command(flatten)]
    packet: PacketArguments,
}

impl TracedPacket {
    /// The packet of these words, which blanks separate.
    pub(crate) fn parse(words: &str) -> Result<Self, Failure> {
        let example = "write the packet as after `weft trace`: packet web-1 --to db-1 --tcp 5432";
        let parsed = Self::try_parse_from(words.split_whitespace());
        let packet = parsed.map_err(|error| {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            Failure::Usage(format!("{line}; {example}"))
        })?;
        match packet.packet.pcap {
            Some(_) => Err(Failure::Usage(format!("--pcap has many packets; {example}"))),
            None => Ok(packet),
        }
    }

    /// The trace of the packet.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the network has no such port or address.
    pub(crate) fn trace(&self, network: &mut Network) -> Result<Trace, Failure> {
        self.packet.trace(network, &self.from)
    }
}

/// Where a packet is in its connection.
#[derive(Clone, Copy, ValueEnum)]
enum ConnectionState {
    New,
    Est,
    Rpl,
    Rel,
}

impl From<ConnectionState> for Connection {
    fn from(state: ConnectionState) -> Self {
        match state {
            ConnectionState::New => Connection::New,
            ConnectionState::Est => Connection::Established,
            ConnectionState::Rpl => Connection::Reply,
            ConnectionState::Rel => Connection::Related,
        }
    }
}

impl PacketArguments {
    /// The trace of the packet.
    fn trace(&self, network: &mut Network, from: &str) -> Result<Trace, Failure> {
        if let Some(flow) = &self.flow {
            let sent = network.packet_of_flow(from, flow).map_err(Failure::Usage)?;
            return network.trace(&sent).map_err(Failure::Rejected);
        }
        let words = self.words();
        // What is wrong with the words themselves is the user's affair.
        network.packet(from, &words).map_err(Failure::Usage)?;
        let traced = network.trace_within(from, &words, self.ct.into());
        traced.map_err(|error| Failure::Rejected(error.to_string()))
    }

    fn words(&self) -> Words {
        let payload = match (self.tcp, self.udp) {
            (Some(port), _) => Payload::Tcp(port),
            (_, Some(port)) => Payload::Udp(port),
            (None, None) => Payload::Echo,
        };
        let Self { ip, from_ip, from_mac, to_mac, ttl, size, .. } = *self;
        Words { to: self.to.clone(), ip, from_ip, from_mac, to_mac, payload, ttl, size }
    }
}

/// What to write instead if the last program is none, and so seems to be the port that sends the packet.
fn two_ports(programs: &[PathBuf], to: &str) -> Option<String> {
    let (from, programs) = programs.split_last()?;
    let name = from.to_str()?;
    let is_program = name == "builtin" || name.contains(['/', '.']) || from.exists();
    let before: Vec<String> = programs.iter().map(|program| program.display().to_string()).collect();
    let words = [&before[..], &[name.to_owned()]].concat().join(" ");
    (!is_program).then(|| {
        format!(
            "there is no file or folder {name} with rules; to trace a packet from port {name} to port {to}: weft trace {words} --to {to}"
        )
    })
}

impl TraceCommand {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), Failure> {
        let Some((from, programs)) = self.programs.split_last() else {
            return Err(Failure::Usage("give the port that sends the packet".to_owned()));
        };
        let from = from.to_string_lossy();
        if programs.is_empty() {
            return self.ask(&from);
        }
        if let Some(why) = two_ports(programs, &from) {
            return Err(Failure::Usage(why));
        }
        if self.live {
            return Err(Failure::Usage("--live asks a running controller: leave out the program".to_owned()));
        }
        if self.source.is_empty() && self.state.is_none() {
            let why = "say what the network is: -i TXNS, --objects FILE or --state FILE; without a program, the running controller is asked";
            return Err(Failure::Usage(why.to_owned()));
        }
        let program = compile(programs)?;
        let begin = self.state.as_ref().map(|file| Begin::read(file, &program)).transpose()?;
        if self.diff.is_some() || !self.without.is_empty() || !self.rules.is_empty() {
            return self.compare(begin, &program, &from);
        }
        let frames = self.packet.pcap.as_deref().map(capture::frames).transpose()?;
        let (rows, refused) = input_rows_after(begin, &program, &self.source, self.at)?;
        let mut network = Network::new(&program, rows).map_err(Failure::Rejected)?;
        let all_arrive = match frames {
            None => {
                let mut trace = self.packet.trace(&mut network, &from)?;
                self.source.add_calls(&mut trace)?;
                self.show(&trace, None)?
            }
            Some(frames) => {
                let mut all_arrive = true;
                for (number, bytes) in (1..).zip(frames) {
                    let sent = network.packet_of_bytes(&from, bytes).map_err(Failure::Usage)?;
                    let trace = network.trace(&sent).map_err(Failure::Rejected)?;
                    all_arrive &= self.show(&trace, Some(number))?;
                }
                all_arrive
            }
        };
        refused?;
        if all_arrive { Ok(()) } else { Err(Failure::Reported) }
    }

    /// Traces the packet before and after a change, and prints what differs.
    fn compare(&self, begin: Option<Begin>, program: &Arc<Program>, from: &str) -> Result<(), Failure> {
        let change = change::read(self.diff.as_ref(), &self.without)?;
        let others = (!self.rules.is_empty()).then(|| compile(&self.rules)).transpose()?;
        let of_change = others.as_ref().unwrap_or(program);
        let ([mut before, after], refused) = change::rows(&change, begin, of_change, &self.source, self.at)?;
        if others.is_some() {
            (before, _) = input_rows(program, &self.source, self.at)?;
        }
        let mut states = [(program, before), (of_change, after)].into_iter().map(|(program, rows)| {
            let mut network = Network::new(program, rows).map_err(Failure::Rejected)?;
            let trace = self.packet.trace(&mut network, from)?;
            Ok::<_, Failure>((network, trace))
        });
        let (Some(before), Some(after)) = (states.next().transpose()?, states.next().transpose()?) else {
            return Ok(());
        };
        let mut difference = compare((&before.0, &before.1), (&after.0, &after.1));
        self.source.add_calls(&mut difference)?;
        let out = if self.json { format!("{}\n", difference.json()) } else { difference.text() };
        print_as(self.json, &out)?;
        refused?;
        if after.1.is_delivered() { Ok(()) } else { Err(Failure::Reported) }
    }

    /// Prints a trace, of a packet of a capture with its number there. Returns whether the packet arrives.
    fn show(&self, trace: &Trace, number: Option<usize>) -> Result<bool, Failure> {
        let form = if self.json { json::json(trace).to_string() } else { text::text(trace, self.verbose) };
        self.print(number, &form, &text::verdict(trace), &trace.packet)?;
        Ok(trace.is_delivered())
    }

    /// Prints a trace in the form that was asked for, or a line of a capture, which has the packet's number there.
    fn print(&self, number: Option<usize>, form: &str, verdict: &str, packet: &str) -> Result<(), Failure> {
        let out = match number {
            _ if self.json => format!("{form}\n"),
            Some(number) if self.verbose => format!("{number}: {form}"),
            Some(number) => format!("{number}: {verdict}: {packet}\n"),
            None => form.to_owned(),
        };
        print_as(self.json, &out)
    }
}
