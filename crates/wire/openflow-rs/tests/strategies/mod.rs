//! Random matches, actions and messages that a switch accepts, made from the field table.

mod learn_and_track;

use openflow_rs::action::{
    CheckPktLarger, ClearActions, CloneActions, Conjunction, Controller, CtClear, DecTtl, Exit, Group, Meter,
    Note, Pop, PopQueue, PopVlan, Push, PushVlan, Resubmit, Sample, SampleDirection, SetQueue, SetTtl,
};
use openflow_rs::field::Format;
use openflow_rs::message::{BundleAdd, BundleFlags, PacketInReason};
use openflow_rs::{
    Action, Actions, Body, Field, FlowCommand, FlowEntry, FlowFlags, FlowMod, Match, Message, PortNo,
    Prerequisite, Subfield,
};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

/// Kinds of packets, which decide the other fields that may be matched.
const KINDS: [&str; 19] = [
    "",
    "",
    "dl_type=0x88cc",
    "ip",
    "ip,nw_proto=89",
    "tcp",
    "udp",
    "sctp",
    "icmp",
    "ipv6",
    "tcp6",
    "udp6",
    "icmp6",
    "icmp6,icmp_type=135,icmp_code=0",
    "icmp6,icmp_type=136",
    "arp",
    "rarp",
    "mpls",
    "mplsm",
];

/// Items that come before the rest, so that prerequisites of other fields are met.
const LINK: [&str; 4] = ["", "", "dl_vlan=7", "vlan_tci=0x1000/0x1000"];
const TRACKED: [&str; 4] = ["", "ct_state=+trk", "ct_state=+new+trk", "ct_state=+trk-inv,ct_nw_proto=6"];

/// Fields not put into random matches: set by the kind above, or spelled by others.
fn is_fixed(field: Field) -> bool {
    matches!(
        field,
        Field::EthType
            | Field::IpProto
            | Field::Icmpv6Type
            | Field::Icmpv6Code
            | Field::CtState
            | Field::CtNwProto
            | Field::PacketType
            | Field::VlanTci
            | Field::VlanVid
            | Field::InPortOxm
    )
}

/// A value and mask that a switch takes for the field in a match.
fn demand(field: Field) -> BoxedStrategy<(u128, u128)> {
    let max = field.max_value();
    let exact = move |value: BoxedStrategy<u128>| value.prop_map(move |value| (value, max)).boxed();
    match field {
        Field::InPort | Field::ActsetOutput => {
            exact(port().prop_map(|port| u128::from(port.to_wire())).boxed())
        }
        Field::IpFrag => select(vec![(0, 3), (1, 1), (1, 3), (3, 3), (0, 2)]).boxed(),
        _ if !field.info().maskable => exact(any::<u128>().prop_map(move |value| value & max).boxed()),
        // `ovs-ofctl` takes the leading digits of an IPv6 mask for a prefix length: begin with a letter.
        _ if field.info().format == Format::Ipv6 => value_and_mask(max)
            .prop_map(|(value, mask)| (value, if mask == 0 { 0 } else { mask | 0xf << 124 }))
            .boxed(),
        _ => value_and_mask(max),
    }
}

fn value_and_mask(max: u128) -> BoxedStrategy<(u128, u128)> {
    let prefix = (0_u32..128).prop_map(|zeros| u128::MAX << zeros);
    let mask = prop_oneof![3 => Just(u128::MAX), 1 => any::<u128>(), 1 => prefix];
    let value = prop_oneof![any::<u128>(), 0_u128..16];
    (value, mask)
        .prop_map(move |(value, mask)| {
            let mask = if mask & max == 0 { max } else { mask & max };
            (value & mask, mask)
        })
        .boxed()
}

pub(crate) fn port() -> impl Strategy<Value = PortNo> {
    prop_oneof![(1_u16..0xff00).prop_map(PortNo), Just(PortNo::LOCAL)]
}

/// A match with all prerequisites of its fields.
pub(crate) fn matches() -> impl Strategy<Value = Match> {
    (select(&KINDS[..]), select(&LINK[..]), select(&TRACKED[..])).prop_flat_map(|(kind, link, tracked)| {
        let base: Match = [kind, link, tracked].join(",").parse().expect("a match");
        let allowed = |field: &Field| {
            base.meets(field.info().prerequisite)
                && !is_fixed(*field)
                && match field {
                    // Each version has its own.
                    Field::CtNwSrc | Field::CtNwDst => base.meets(Prerequisite::Ipv4),
                    Field::CtIpv6Src | Field::CtIpv6Dst => base.meets(Prerequisite::Ipv6),
                    Field::CtTpSrc | Field::CtTpDst => base.get(Field::CtNwProto).is_some(),
                    _ => true,
                }
        };
        let fields: Vec<Field> = Field::all().filter(allowed).collect();
        let most = fields.len().min(6);
        subsequence(fields, 0..=most).prop_flat_map(move |fields| {
            let demands: Vec<_> = fields.iter().map(|field| demand(*field)).collect();
            let base = base.clone();
            demands.prop_map(move |demands| {
                // Some contradict each other, such as registers, or ports and fragments: the later one is
                // left out.
                fields.iter().zip(demands).fold(base.clone(), |m, (field, (value, mask))| {
                    m.clone()
                        .with_masked(*field, value, mask)
                        .ok()
                        .filter(|m| m.validate().is_ok())
                        .unwrap_or(m)
                })
            })
        })
    })
}

fn is_settable(field: Field, m: &Match) -> bool {
    let outside = matches!(
        field,
        Field::InPortOxm | Field::CtMark | Field::CtLabel | Field::VlanTci | Field::VlanVid | Field::VlanPcp
    );
    field.info().writable && !outside && m.meets(field.info().prerequisite)
}

fn set_field(m: &Match) -> BoxedStrategy<Action> {
    let m = m.clone();
    let fields: Vec<Field> = Field::all().filter(|field| is_settable(*field, &m)).collect();
    select(fields)
        .prop_flat_map(|field| {
            demand(field).prop_map(move |(value, mask)| {
                let value = if field == Field::InPort { value & 0xffff } else { value };
                Action::set_field_masked(field, value, mask).expect("a settable field")
            })
        })
        .boxed()
}

fn subfields(fields: Vec<Field>) -> impl Strategy<Value = (Field, u16, u16)> {
    (select(fields), any::<u16>(), any::<u16>()).prop_map(|(field, start, bits)| {
        let start = start % field.bits();
        (field, start, bits % (field.bits() - start) + 1)
    })
}

fn move_bits(m: &Match) -> BoxedStrategy<Action> {
    let to: Vec<Field> = Field::all().filter(|field| is_settable(*field, m)).collect();
    let met = |field: &Field| m.meets(field.info().prerequisite) && *field != Field::PacketType;
    let from: Vec<Field> = Field::all().filter(met).collect();
    (subfields(from), subfields(to))
        .prop_map(|((from, from_bit, from_bits), (to, to_bit, to_bits))| {
            let bits = from_bits.min(to_bits);
            let part = |field, bit| Subfield::new(field, bit, bits).expect("bits of the field");
            Action::move_bits(part(from, from_bit), part(to, to_bit)).expect("a writable field")
        })
        .boxed()
}

fn push_or_pop(m: &Match) -> BoxedStrategy<Action> {
    let met = |field: &Field| m.meets(field.info().prerequisite) && *field != Field::PacketType;
    let read: Vec<Field> = Field::all().filter(met).collect();
    let written: Vec<Field> = Field::all().filter(|field| is_settable(*field, m)).collect();
    let part = |(field, start, bits)| Subfield::new(field, start, bits).expect("bits of the field");
    prop_oneof![
        subfields(read).prop_map(move |bits| Push::new(part(bits)).into()),
        subfields(written).prop_map(move |bits| Pop::new(part(bits)).expect("a writable field").into()),
    ]
    .boxed()
}

fn conjunction((id, clause, clauses): (u32, u8, u8)) -> Action {
    Conjunction::new(id, clause % clauses + 1, clauses).expect("a clause").into()
}

fn check_pkt_larger(n: u16) -> Action {
    let bit = Subfield::new(Field::Reg7, n % 32, 1).expect("a bit of the register");
    CheckPktLarger::new(n, bit).expect("one writable bit").into()
}

fn sample() -> impl Strategy<Value = Action> {
    let directions = vec![SampleDirection::Unsaid, SampleDirection::Ingress, SampleDirection::Egress];
    (1_u16.., any::<[u32; 3]>(), prop::option::of(port()), select(directions)).prop_map(
        |(probability, [set, domain, point], sampling_port, direction)| {
            let mut sample = Sample::new(probability, set, domain, point).expect("some packets");
            (sample.sampling_port, sample.direction) = (sampling_port, direction);
            sample.into()
        },
    )
}

fn controller() -> impl Strategy<Value = Action> {
    let max_len = prop_oneof![Just(u16::MAX), any::<u16>()];
    let id = prop_oneof![Just(0), any::<u16>()];
    // Open vSwitch reads no number of a reason, and has names for these.
    let reason = prop_oneof![Just(1), 0_u8..6].prop_map(PacketInReason);
    let userdata = prop::collection::vec(any::<u8>(), 0..20);
    let meter_id = prop::option::of(1_u32..);
    (max_len, id, reason, userdata, any::<bool>(), meter_id).prop_map(
        |(max_len, id, reason, userdata, pause, meter_id)| {
            Controller { max_len, id, reason, userdata, pause, meter_id }.canonical()
        },
    )
}

/// An action that is not nested in another.
fn action(m: &Match) -> BoxedStrategy<Action> {
    let plain = plain_action(m);
    let list = prop::collection::vec(plain.clone(), 0..3).prop_map(Actions);
    let nested = list.prop_map(|actions| CloneActions { actions }.into()).boxed();
    proptest::strategy::Union::new_weighted(vec![(12, plain), (1, nested)]).boxed()
}

fn plain_action(m: &Match) -> BoxedStrategy<Action> {
    let readable = Field::all().filter(|f| m.meets(f.info().prerequisite) && f.bits() <= 64).collect();
    let output_reg = subfields(readable).prop_map(|(field, start, bits)| {
        Action::output_reg(Subfield::new(field, start, bits).expect("bits of the field"))
            .expect("64 bits at most")
    });
    // The connection's original direction needs a valid connection.
    let tracked = m.meets(Prerequisite::Ct);
    let resubmit = prop_oneof![
        (0_u8..255).prop_map(Action::resubmit_table),
        (port(), any::<u8>()).prop_map(|(in_port, table)| Resubmit { in_port, table, ct: false }.into()),
        (port(), 0_u8..255).prop_map(move |(in_port, table)| Resubmit { in_port, table, ct: tracked }.into()),
    ];
    let reserved =
        [PortNo::IN_PORT, PortNo::NORMAL, PortNo::FLOOD, PortNo::ALL, PortNo::LOCAL, PortNo::CONTROLLER];
    let mut choices = vec![
        (6, set_field(m)),
        (3, move_bits(m)),
        (2, resubmit.boxed()),
        (2, port().prop_map(Action::output).boxed()),
        (1, select(reserved.to_vec()).prop_map(Action::output).boxed()),
        (1, output_reg.boxed()),
        (1, (0_u32..0xffff_ff00).prop_map(|id| Group { id }.into()).boxed()),
        (1, Just(CtClear.into()).boxed()),
        (1, Just(Exit.into()).boxed()),
        (1, any::<u16>().prop_map(check_pkt_larger).boxed()),
        (1, prop::collection::vec(any::<u8>(), 0..20).prop_map(|bytes| Note::new(&bytes).into()).boxed()),
        (1, any::<u32>().prop_map(|id| SetQueue { id }.into()).boxed()),
        (1, Just(PopQueue.into()).boxed()),
        (1, sample().boxed()),
        (1, controller().boxed()),
        (1, push_or_pop(m)),
        (2, learn_and_track::learn(m).boxed()),
    ];
    if m.meets(Prerequisite::Ip) {
        choices.push((2, learn_and_track::ct(m).boxed()));
        choices.push((1, Just(DecTtl.into()).boxed()));
        choices.push((1, any::<u8>().prop_map(|ttl| SetTtl { ttl }.into()).boxed()));
    }
    proptest::strategy::Union::new_weighted(choices).boxed()
}

/// A list that a switch takes in a flow with this match, in a table below 200.
pub(crate) fn actions(m: &Match) -> impl Strategy<Value = Actions> + use<> {
    let meter = prop::option::weighted(0.1, (1_u32..1000).prop_map(|id| Action::from(Meter { id })));
    let list = prop::collection::vec(action(m), 0..6);
    // Tags change what may follow, so they come last.
    let untag = if m.meets(Prerequisite::Vlan) { vec![Action::from(PopVlan)] } else { Vec::new() };
    let tag = prop_oneof![
        8 => Just(Vec::new()),
        1 => Just(untag),
        1 => (select(vec![0x8100, 0x88a8]), 0_u128..0x1000).prop_map(|(eth_type, vid)| vec![
            PushVlan { eth_type }.into(),
            Action::set_field(Field::VlanVid, 0x1000 | vid).expect("a VLAN id"),
        ]),
    ];
    let clear = prop::option::weighted(0.1, Just(Action::from(ClearActions)));
    let write = (any::<u64>(), 1_u64..).prop_map(|(value, mask)| Action::write_metadata(value, mask));
    let goto = prop::option::weighted(0.2, (200_u8..254).prop_map(Action::goto_table));
    let usual = (meter, list, tag, clear, prop::option::weighted(0.2, write), goto).prop_map(
        |(meter, list, tag, clear, write, goto)| {
            meter.into_iter().chain(list).chain(tag).chain(clear).chain(write).chain(goto).collect()
        },
    );
    // These stand alone.
    let clauses = (any::<u32>(), any::<u8>(), 2_u8..=64).prop_map(conjunction);
    prop_oneof![15 => usual, 1 => prop::collection::vec(clauses, 1..4).prop_map(Actions)]
}

/// A flow entry that a switch takes.
pub(crate) fn entry() -> impl Strategy<Value = FlowEntry> {
    matches().prop_flat_map(|m| {
        let numbers = (0_u8..200, any::<u16>(), prop_oneof![Just(0), any::<u64>()]);
        let rest = (any::<[bool; 3]>(), 1_u16..100, 0_u16..32);
        (actions(&m), numbers, rest).prop_map(
            move |(actions, (table, priority, cookie), ([a, b, c], n, flags))| FlowEntry {
                cookie,
                idle_timeout: if a { n } else { 0 },
                hard_timeout: if b { n } else { 0 },
                importance: if c { n } else { 0 },
                flags: FlowFlags(if c { flags } else { 0 }),
                ..FlowEntry::new(table, priority, m.clone(), actions)
            },
        )
    })
}

/// A change to the flow tables that a switch takes.
pub(crate) fn flow_mod() -> impl Strategy<Value = FlowMod> {
    let commands = vec![
        FlowCommand::Add,
        FlowCommand::Add,
        FlowCommand::Modify,
        FlowCommand::ModifyStrict,
        FlowCommand::Delete,
        FlowCommand::DeleteStrict,
    ];
    (select(commands), entry(), prop_oneof![Just(0), any::<u64>()]).prop_map(|(command, entry, mask)| {
        let cookie = entry.cookie;
        let mut flow = match command {
            FlowCommand::DeleteStrict => FlowMod::delete_strict(entry),
            _ => FlowMod::new(command, entry),
        };
        if command != FlowCommand::Add {
            // Open vSwitch stores an importance only for additions.
            flow.entry.importance = 0;
            flow.entry.cookie = cookie & mask;
            flow.cookie_mask = mask;
        }
        flow
    })
}

/// A message that holds a flow-mod, in a bundle or not.
pub(crate) fn flow_message() -> impl Strategy<Value = Message> {
    (any::<u32>(), flow_mod(), prop::option::of((any::<u32>(), 0_u16..4))).prop_map(|(xid, flow, bundle)| {
        let body = Body::FlowMod(flow);
        let body = match bundle {
            Some((bundle_id, flags)) => {
                Body::BundleAdd(BundleAdd { bundle_id, flags: BundleFlags(flags), body: Box::new(body) })
            }
            None => body,
        };
        Message { xid, body }
    })
}
