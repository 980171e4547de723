//! `weft trace`: the way of a packet through the network, and why it ends where it ends.

use std::io::Write as _;
use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use packet_trace::{MacAddr, Network, Payload, Sent, Words, json, text};

mod capture;
mod running;

use crate::client::Address;
use crate::eval::{Begin, Source};
use crate::exit::Failure;
use crate::explain::input_rows_after;
use crate::program::compile;

/// The end of `--help`.
const READING: &str = "\
Without a program, the running controller is asked, and the packet runs through the flows that its switches are to have now. With a \
program, it runs through the flow tables that the rules derive for the hosts on its way from transactions and objects. No switch is asked. First comes the verdict: \
where the packet arrives and what has changed in it, or what drops it, with the rule and the objects and transactions behind it. \
Then comes the way, host by host: stages whose flows say no more than that the packet passes are left out.

What the words leave open, the objects say: addresses are those of the ports, and the MAC address is that of the destination \
on the same switch, or of the router there. Without --tcp or --udp the packet is an echo request.

The exit status is 0 if the packet arrives (with --to: at that port), and 1 if it is dropped, or one of a capture is.";

/// Arguments of `weft trace`.
#[derive(Args)]
#[command(
    override_usage = "weft trace [OPTIONS] [PROGRAM]... <FROM>",
    after_help = READING,
    mut_arg("input", |input| input.required_unless_present_any(["objects", "programs"])),
)]
pub(crate) struct TraceCommand {
    /// `.nlog` files or folders, which form one program (`builtin` is the built-in rules), and then the port that sends the
    /// packet. Without a program, the running controller is asked
    // One list, since options may stand between programs and port.
    #[arg(required = true, value_name = "PROGRAM")]
    programs: Vec<PathBuf>,
    #[command(flatten)]
    source: Source,
    /// Start from a state that `weft eval --save-state` has saved
    #[arg(long, value_name = "FILE", conflicts_with = "objects")]
    state: Option<PathBuf>,
    /// Trace in the network as it was after this transaction
    #[arg(long, value_name = "TXN")]
    at: Option<u64>,
    #[command(flatten)]
    packet: PacketArguments,
    /// Show every table, flow and action, and the objects in full
    #[arg(long)]
    verbose: bool,
    /// Print a JSON object for each packet
    #[arg(long)]
    json: bool,
    /// Compare the flows that the packet meets with those that the switches have, and show what is missing, stale or foreign,
    /// and what they have counted. For a running controller
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    address: Address,
}

/// What the packet is.
#[derive(Args)]
struct PacketArguments {
    /// The port that the packet is for
    #[arg(long, value_name = "PORT")]
    to: Option<String>,
    /// The address that the packet is for
    #[arg(long, value_name = "ADDRESS")]
    ip: Option<IpAddr>,
    /// Open a TCP connection to this port
    #[arg(long, value_name = "PORT", group = "payload")]
    tcp: Option<u16>,
    /// Send a UDP datagram to this port
    #[arg(long, value_name = "PORT", group = "payload")]
    udp: Option<u16>,
    /// Send an echo request
    #[arg(long, group = "payload")]
    icmp: bool,
    /// The source address, if it is not the first one of the port
    #[arg(long, value_name = "ADDRESS")]
    from_ip: Option<IpAddr>,
    /// The source MAC address, if it is not that of the source address
    #[arg(long, value_name = "MAC")]
    from_mac: Option<MacAddr>,
    /// The destination MAC address, if it is not that of the destination or of the router
    #[arg(long, value_name = "MAC")]
    to_mac: Option<MacAddr>,
    /// The hop limit
    #[arg(long, value_name = "HOPS")]
    ttl: Option<u8>,
    /// The length of the IP packet in bytes
    #[arg(long, value_name = "BYTES")]
    size: Option<u16>,
    /// The packet as a flow expression of Open vSwitch: `tcp,dl_dst=02:00:00:00:00:02,nw_dst=10.0.0.2,tp_dst=80`
    #[arg(long, value_name = "FLOW", conflicts_with_all = ["to", "ip", "payload", "from_ip", "from_mac", "to_mac", "ttl", "size"])]
    flow: Option<String>,
    /// The packets of a capture (pcap or pcapng), as the port sends them: a line for each
    #[arg(long, value_name = "FILE", conflicts_with_all = ["flow", "to", "ip", "payload", "from_ip", "from_mac", "to_mac", "ttl", "size"])]
    pcap: Option<PathBuf>,
}

impl PacketArguments {
    fn sent(&self, network: &Network, from: &str) -> Result<Sent, Failure> {
        if let Some(flow) = &self.flow {
            return network.packet_of_flow(from, flow).map_err(Failure::Usage);
        }
        let payload = match (self.tcp, self.udp) {
            (Some(port), _) => Payload::Tcp(port),
            (_, Some(port)) => Payload::Udp(port),
            (None, None) => Payload::Echo,
        };
        let Self { ip, from_ip, from_mac, to_mac, ttl, size, .. } = *self;
        let words = Words { to: self.to.clone(), ip, from_ip, from_mac, to_mac, payload, ttl, size };
        network.packet(from, &words).map_err(Failure::Usage)
    }
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
        if self.live {
            return Err(Failure::Usage("--live asks a running controller: leave out the program".to_owned()));
        }
        if self.source.is_empty() && self.state.is_none() {
            let why = "say what the network is: -i TXNS, --objects FILE or --state FILE; without a program, the running controller is asked";
            return Err(Failure::Usage(why.to_owned()));
        }
        let program = compile(programs)?;
        let frames = self.packet.pcap.as_deref().map(capture::frames).transpose()?;
        let begin = self.state.as_ref().map(|file| Begin::read(file, &program)).transpose()?;
        let (rows, refused) = input_rows_after(begin, &program, &self.source, self.at)?;
        let mut network = Network::new(&program, rows).map_err(Failure::Rejected)?;
        let all_arrive = match frames {
            None => {
                let sent = self.packet.sent(&network, &from)?;
                self.trace(&mut network, &sent, None)?
            }
            Some(frames) => {
                let mut all_arrive = true;
                for (number, bytes) in (1..).zip(frames) {
                    let sent = network.packet_of_bytes(&from, bytes).map_err(Failure::Usage)?;
                    all_arrive &= self.trace(&mut network, &sent, Some(number))?;
                }
                all_arrive
            }
        };
        refused?;
        if all_arrive { Ok(()) } else { Err(Failure::Reported) }
    }

    /// Traces a packet, of a capture with its number there, and prints the trace. Returns whether the packet arrives.
    fn trace(&self, network: &mut Network, sent: &Sent, number: Option<usize>) -> Result<bool, Failure> {
        let trace = network.trace(sent).map_err(Failure::Rejected)?;
        let out = match number {
            _ if self.json => format!("{}\n", json::json(&trace)),
            Some(number) if self.verbose => format!("{number}: {}", text::text(&trace, true)),
            Some(number) => format!("{number}: {}: {}\n", text::verdict(&trace), trace.packet),
            None => text::text(&trace, self.verbose),
        };
        std::io::stdout().write_all(out.as_bytes()).map_err(Failure::output)?;
        Ok(trace.is_delivered())
    }
}
