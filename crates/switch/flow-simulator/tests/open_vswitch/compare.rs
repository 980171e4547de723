//! Processes one frame in both, and compares.

use std::fmt;

use flow_simulator::{FlowKey, Outcome, Packet};
use openflow_rs::{Field, Match, PortNo};

use crate::open_vswitch::Setting;
use crate::open_vswitch::tables::Case;
use ovs_testing::{DummySwitch, hex};

/// A frame that the switch processed differently.
pub(crate) struct Failure {
    /// With one frame.
    pub(crate) case: Case,
    pub(crate) what: String,
    pub(crate) switch_says: String,
    pub(crate) outcome: Outcome,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\nframe {} on port {}", self.what, hex(&self.case.frames[0]), self.case.port)?;
        self.case.groups.iter().try_for_each(|group| writeln!(f, "  {group}"))?;
        self.case.flows.iter().try_for_each(|flow| writeln!(f, "  {flow}"))?;
        writeln!(f, "Open vSwitch:\n{}\nhere:", self.switch_says)?;
        self.outcome.steps.iter().try_for_each(|step| write!(f, "{step}"))?;
        for emitted in &self.outcome.emitted {
            writeln!(f, "port {}: {}", emitted.port, hex(&emitted.bytes))?;
        }
        Ok(())
    }
}

/// Loads the cases together and sends their frames. Returns the first that the switch, which has these settings,
/// processes differently.
///
/// # Errors
/// The switch refuses the flows.
pub(crate) fn first_difference(
    switch: &mut DummySwitch,
    setting: &Setting,
    cases: &[Case],
) -> Result<Option<Failure>, String> {
    let flows: Vec<String> =
        cases.iter().flat_map(|case| case.flows.iter().map(ToString::to_string)).collect();
    let groups: Vec<String> =
        cases.iter().flat_map(|case| case.groups.iter().map(ToString::to_string)).collect();
    switch.load(&groups, &flows)?;
    for case in cases {
        let mut bridge = setting.bridge();
        for group in &case.groups {
            bridge.add_group(group.clone()).map_err(|error| error.to_string())?;
        }
        for flow in &case.flows {
            bridge.add_flow(flow.clone()).map_err(|error| error.to_string())?;
        }
        for frame in &case.frames {
            let packet = Packet::new(frame.clone(), PortNo(case.port)).with_vlan_limit(setting.vlan_limit);
            let outcome = bridge.trace(&packet);
            let switch_says = switch.trace(case.port, frame);
            let sent = switch.receive(case.port, frame);
            if let Err(what) = compare(&packet, &outcome, &switch_says, sent) {
                let case = Case { frames: vec![frame.clone()], ..case.clone() };
                return Ok(Some(Failure { case, what, switch_says, outcome }));
            }
        }
    }
    Ok(None)
}

fn compare(
    packet: &Packet,
    outcome: &Outcome,
    says: &str,
    mut sent: Vec<(u16, Vec<u8>)>,
) -> Result<(), String> {
    let line = |name: &str| says.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let before = line("Flow:").ok_or("no `Flow:` line")?;
    same_fields("read", before, packet.key())?;
    if outcome.stopped.is_none() {
        let after = line("Final flow:").ok_or("no `Final flow:` line")?;
        same_fields("final", if after == "unchanged" { before } else { after }, &outcome.key)?;
    }
    let captured = |port: u16| (1..=crate::open_vswitch::PORTS).contains(&port);
    let mut ours: Vec<(u16, Vec<u8>)> =
        outcome.emitted.iter().map(|one| (one.port.0, one.bytes.clone())).collect();
    ours.retain(|(port, _)| captured(*port));
    ours.sort();
    sent.sort();
    if ours == sent {
        return Ok(());
    }
    let print = |frames: &[(u16, Vec<u8>)]| {
        let lines: Vec<_> =
            frames.iter().map(|(port, frame)| format!("  port {port}: {}", hex(frame))).collect();
        lines.join("\n")
    };
    Err(format!("sent:\n{}\nhere:\n{}", print(&sent), print(&ours)))
}

/// Compares fields with a line of `ofproto/trace`, which omits metadata that is zero.
fn same_fields(which: &str, line: &str, key: &FlowKey) -> Result<(), String> {
    // Fields that are not supported here, or not parsed from a packet.
    let unknown = |item: &str| {
        let name = item.split('=').next().unwrap_or("");
        matches!(name, "recirc_id" | "eth" | "tun_tos" | "tun_ttl" | "igmp" | "tun_erspan_ver")
            || name.starts_with("gtpu_")
            || (name == "tun_flags" || name.ends_with("tci1") || name.ends_with("vlan1") || name.ends_with("pcp1"))
            // Ports are also printed for protocols without ports.
            || matches!(name, "tp_src" | "tp_dst")
    };
    let keyword = line.split(',').find_map(|item| match item {
        "igmp" => Some("ip,nw_proto=2"),
        _ => None,
    });
    let known: Vec<&str> = keyword.into_iter().chain(line.split(',').filter(|item| !unknown(item))).collect();
    let text = known.join(",");
    let theirs: Match = text.parse().map_err(|error| format!("cannot read `{text}`: {error}"))?;
    for (name, field) in [("tp_src=", Field::TcpSrc), ("tp_dst=", Field::TcpDst)] {
        let theirs = line.split(',').find_map(|item| item.strip_prefix(name)?.parse::<u128>().ok());
        if theirs.is_some_and(|theirs| theirs != key.get(field)) {
            return Err(format!("{which}: {name}{theirs:?}, here {}", key.get(field)));
        }
    }
    for demand in theirs.iter() {
        let ours = key.get(demand.field) & demand.mask;
        if ours != demand.value {
            return Err(format!("{which}: {} is {:#x}, here {ours:#x}", demand.field, demand.value));
        }
    }
    for field in Field::all().filter(|field| *field <= Field::Metadata) {
        let of_packet = [Field::EthType, Field::IpProto, Field::ActsetOutput].contains(&field);
        // Nothing of a tunnel is printed without its remote end.
        let tunnelled = key.get(Field::TunDst) != 0 || key.get(Field::TunIpv6Dst) != 0;
        let unsaid = !tunnelled && (Field::TunId..=Field::TunFlags).contains(&field);
        let canonical = !unsaid && !(Field::Xreg0..=Field::Xxreg3).contains(&field) && !of_packet;
        if canonical && theirs.get(field).is_none() && key.get(field) != 0 {
            return Err(format!("{which}: {field} is not there, here {:#x}", key.get(field)));
        }
    }
    Ok(())
}
