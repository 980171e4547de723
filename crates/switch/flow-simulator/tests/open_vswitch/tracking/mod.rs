//! Connection tracking: sequences of packets through tables with `ct`, in both.

mod answers;
mod facts;
mod filters;
mod fragments;
mod nat;
mod packets;
mod random;
mod run;
mod times;
mod translations;

use flow_simulator::{Bridge, Packet};
use openflow_rs::PortNo;
use ovs_testing::{DummySwitch, hex};

/// The port that [`SHOW`] sends to.
const SHOWN: u16 = 4;

/// Tables that write what flows see of a connection into the MAC addresses, and send the packet: state, zone, mark and label
/// into the source; the original direction into the destination, where it is there.
const SHOW: [&str; 5] = [
    "table=90,priority=1,ip,ct_state=+trk-inv actions=resubmit(,91),resubmit(,92)",
    "table=90,priority=1,ipv6,ct_state=+trk-inv actions=resubmit(,91),resubmit(,92)",
    "table=90,priority=0 actions=resubmit(,92)",
    "table=91,priority=1,ip,ct_state=+trk-inv actions=move:NXM_NX_CT_NW_SRC[0..7]->NXM_OF_ETH_DST[40..47],\
     move:NXM_NX_CT_NW_DST[0..7]->NXM_OF_ETH_DST[32..39],move:NXM_NX_CT_NW_PROTO[]->NXM_OF_ETH_DST[24..31],\
     move:NXM_NX_CT_TP_SRC[0..7]->NXM_OF_ETH_DST[16..23],move:NXM_NX_CT_TP_DST[]->NXM_OF_ETH_DST[0..15]",
    "table=91,priority=1,ipv6,ct_state=+trk-inv actions=move:NXM_NX_CT_IPV6_SRC[0..7]->NXM_OF_ETH_DST[40..47],\
     move:NXM_NX_CT_IPV6_DST[0..7]->NXM_OF_ETH_DST[32..39],move:NXM_NX_CT_NW_PROTO[]->NXM_OF_ETH_DST[24..31],\
     move:NXM_NX_CT_TP_SRC[0..7]->NXM_OF_ETH_DST[16..23],move:NXM_NX_CT_TP_DST[]->NXM_OF_ETH_DST[0..15]",
];
const SHOW_STATE: &str = "table=92 actions=move:NXM_NX_CT_STATE[0..7]->NXM_OF_ETH_SRC[40..47],\
     move:NXM_NX_CT_ZONE[0..7]->NXM_OF_ETH_SRC[32..39],move:NXM_NX_CT_MARK[0..15]->NXM_OF_ETH_SRC[16..31],\
     move:NXM_NX_CT_LABEL[0..15]->NXM_OF_ETH_SRC[0..15],output:4";

/// A packet that leaves: port and bytes.
type Sent = (u16, Vec<u8>);

/// A switch and a bridge that must behave the same.
struct Both {
    switch: DummySwitch,
    bridge: Bridge,
}

impl Both {
    fn start() -> Both {
        Both { switch: DummySwitch::start(1..=crate::open_vswitch::PORTS), bridge: Bridge::default() }
    }

    /// Replaces all flows, adds those of [`SHOW`], and forgets all connections.
    fn load(&mut self, flows: &[String]) -> Result<(), String> {
        let shown = SHOW.iter().copied().chain([SHOW_STATE]).map(str::to_owned);
        let flows: Vec<String> = flows.iter().cloned().chain(shown).collect();
        self.switch.load(&[], &flows)?;
        self.switch.call("dpctl/flush-conntrack", &[]);
        self.bridge = Bridge::new((1..=crate::open_vswitch::PORTS).map(PortNo));
        for flow in flows {
            let flow = flow.parse().map_err(|error| format!("{flow}: {error}"))?;
            self.bridge.add_flow(flow).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Lets a port receive a frame on both sides, and returns what they send.
    ///
    /// # Errors
    /// The difference.
    fn receive(&mut self, port: u16, bytes: &[u8]) -> Result<Vec<Sent>, String> {
        let packet = Packet::new(bytes.to_vec(), PortNo(port));
        let outcome = self.bridge.trace(&packet);
        let after = self.bridge.receive(&packet);
        assert_eq!(after.emitted, outcome.emitted, "a trace is what happens");
        let mut here: Vec<Sent> = after.emitted.into_iter().map(|one| (one.port.0, one.bytes)).collect();
        here.retain(|(port, _)| (1..=crate::open_vswitch::PORTS).contains(port));
        let mut there = self.switch.receive(port, bytes);
        here.sort();
        there.sort();
        if here == there {
            return Ok(here);
        }
        let print = |sent: &[Sent]| {
            sent.iter().fold(String::new(), |text, (port, bytes)| {
                text + &format!("  port {port}: {} {}\n", shown(bytes), hex(bytes))
            })
        };
        let steps: String = outcome.steps.iter().map(ToString::to_string).collect();
        Err(format!(
            "port {port}: {}\nOpen vSwitch:\n{}here:\n{}{steps}",
            hex(bytes),
            print(&there),
            print(&here)
        ))
    }

    /// What the packet that is shown says: state, zone, mark, label, and the original direction.
    #[track_caller]
    fn says(&mut self, what: &str, port: u16, bytes: &[u8]) -> String {
        let sent = self.receive(port, bytes).unwrap_or_else(|difference| panic!("{what}: {difference}"));
        let mut shown: Vec<_> =
            sent.iter().filter(|(port, _)| *port == SHOWN).map(|(_, bytes)| shown(bytes)).collect();
        shown.sort();
        shown.join(" | ")
    }
}

/// What [`SHOW`] has written into a frame.
fn shown(bytes: &[u8]) -> String {
    const NAMES: [&str; 8] = ["new", "est", "rel", "rpl", "inv", "trk", "snat", "dnat"];
    let (to, from) = (&bytes[..6], &bytes[6..12]);
    let set = NAMES.iter().enumerate().filter(|(bit, _)| from[0] >> bit & 1 != 0);
    let state: String = set.flat_map(|(_, name)| ["+", name]).collect();
    let number = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]);
    let mut text = format!("{state} zone {}", from[1]);
    if number(&from[2..]) != 0 || number(&from[4..]) != 0 {
        text += &format!(" mark {:x} label {:x}", number(&from[2..]), number(&from[4..]));
    }
    if to != packets::TO {
        text += &format!(" {}>{} protocol {} {}>{}", to[0], to[1], to[2], to[3], number(&to[4..]));
    }
    text
}

fn lines(flows: &[&str]) -> Vec<String> {
    flows.iter().map(|flow| (*flow).to_owned()).collect()
}
