//! Random `ct` and `learn` actions.

use std::net::IpAddr;

use openflow_rs::action::{Ct, CtZone, Learn, LearnSpec, Nat, NatChoice, NatRange, NatSide};
use openflow_rs::{Action, Actions, Field, Match, Prerequisite, Subfield};
use proptest::prelude::*;
use proptest::sample::select;

use super::subfields;

/// Sixteen bits of a register.
fn zone() -> impl Strategy<Value = CtZone> {
    let field = (select(vec![Field::Reg3, Field::Xreg1, Field::Xxreg0, Field::Metadata]), 0_u16..=16)
        .prop_map(|(field, start)| {
            CtZone::field(Subfield::new(field, start, 16).expect("bits")).expect("16 bits")
        });
    prop_oneof![any::<u16>().prop_map(CtZone::Number), field]
}

fn address(v6: bool) -> BoxedStrategy<IpAddr> {
    if v6 {
        any::<u128>().prop_map(|bits| IpAddr::V6(bits.into())).boxed()
    } else {
        any::<u32>().prop_map(|bits| IpAddr::V4(bits.into())).boxed()
    }
}

fn nat(v6: bool) -> impl Strategy<Value = Nat> {
    let ports = prop::option::of((1_u16.., 1_u16..).prop_map(|(a, b)| (a.min(b), a.max(b))));
    let choice = select(vec![NatChoice::Default, NatChoice::Hash, NatChoice::Random]);
    let last = prop::option::of(address(v6));
    let range =
        (address(v6), last, ports, choice, any::<bool>()).prop_map(|(a, b, ports, choice, persistent)| {
            let b = b.unwrap_or(a);
            let range = NatRange::new(a.min(b), a.max(b), ports).expect("a range");
            range.chosen(choice, persistent)
        });
    let side = select(vec![NatSide::Source, NatSide::Destination]);
    prop_oneof![
        1 => Just(Nat::EXISTING),
        4 => (side, prop::option::weighted(0.9, range)).prop_map(|(side, range)| Nat::new(side, range)),
    ]
}

/// A `ct` that a switch accepts in a flow with this match.
pub(super) fn ct(m: &Match) -> impl Strategy<Value = Action> + use<> {
    let v6 = m.meets(Prerequisite::Ipv6);
    let alg = match (m.meets(Prerequisite::Tcp), m.meets(Prerequisite::Udp)) {
        (true, _) => select(vec![0, 21]),
        (_, true) => select(vec![0, 69]),
        _ => select(vec![0]),
    };
    let mark = (any::<u32>(), 1_u32..).prop_map(|(value, mask)| {
        Action::set_field_masked(Field::CtMark, (value & mask).into(), mask.into()).expect("a mark")
    });
    let label = any::<u128>().prop_map(|value| Action::set_field(Field::CtLabel, value).expect("a label"));
    let copied = Action::move_bits(Subfield::whole(Field::Reg1), Subfield::whole(Field::CtMark));
    let writes = prop_oneof![mark, label, Just(copied.expect("as wide"))];
    let table = prop::option::of(0_u8..255);
    let flags = (any::<bool>(), any::<bool>());
    (flags, zone(), table, alg, prop::option::of(nat(v6)), prop::collection::vec(writes, 0..3)).prop_map(
        |((commit, force), zone, table, alg, nat, mut writes)| {
            let existing = nat.is_none_or(|nat| nat == Nat::EXISTING);
            let commit = commit || !existing || !writes.is_empty();
            writes.splice(0..0, nat.map(Action::from));
            Ct { commit, force: force && commit, zone, table, alg, actions: Actions(writes) }.into()
        },
    )
}

/// Matches by value that come first in a learned flow, so that later specs have their
/// prerequisites.
fn kinds_learned() -> impl Strategy<Value = Vec<(Field, u128)>> {
    let ip = (Field::EthType, 0x800);
    select(vec![
        vec![],
        vec![ip],
        vec![ip, (Field::IpProto, 6)],
        vec![(Field::EthType, 0x86dd), (Field::IpProto, 17)],
        vec![(Field::EthType, 0x806)],
    ])
}

fn part((field, start, bits): (Field, u16, u16)) -> Subfield {
    Subfield::new(field, start, bits).expect("bits of the field")
}

/// Two parts of the same width.
fn as_wide(from: (Field, u16, u16), to: (Field, u16, u16)) -> (Subfield, Subfield) {
    let bits = from.2.min(to.2);
    (part((from.0, from.1, bits)), part((to.0, to.1, bits)))
}

fn spec(m: &Match, learned: &Match) -> BoxedStrategy<LearnSpec> {
    // Values of these are not written as plain numbers, or not in all their bits.
    let odd = |field: &Field| {
        matches!(
            field,
            Field::PacketType
                | Field::IpFrag
                | Field::InPortOxm
                | Field::ActsetOutput
                | Field::VlanVid
                | Field::VlanTci
                | Field::VlanPcp
                | Field::ArpOp
                | Field::IpTos
                | Field::CtState
                | Field::TunFlags
                | Field::TcpFlags
        )
    };
    let in_packet: Vec<Field> =
        Field::all().filter(|f| m.meets(f.info().prerequisite) && !odd(f) && f.bits() <= 64).collect();
    let matched: Vec<Field> =
        Field::all().filter(|f| learned.meets(f.info().prerequisite) && !odd(f)).collect();
    let written: Vec<Field> = matched.iter().copied().filter(|f| f.info().writable).collect();
    let whole = |field: Field| (field, 0, field.bits());
    let to_match = prop_oneof![select(matched.clone()).prop_map(whole), subfields(matched.clone())]
        .prop_map(part)
        .boxed();
    let value = |(to, value): (Subfield, u128)| {
        let max = (u128::MAX >> (128 - to.bits())).min(if to.field() == Field::InPort {
            0xfeff
        } else {
            u128::MAX
        });
        (to, value & max)
    };
    prop_oneof![
        (to_match, any::<u128>()).prop_map(value).prop_map(|(to, value)| LearnSpec::Match { to, value }),
        (subfields(written.clone()).prop_map(part), any::<u128>())
            .prop_map(value)
            .prop_map(|(to, value)| LearnSpec::Set { to, value }),
        (subfields(in_packet.clone()), subfields(matched)).prop_map(|(from, to)| {
            let (from, to) = as_wide(from, to);
            LearnSpec::Copy { from, to }
        }),
        (subfields(in_packet.clone()), subfields(written)).prop_map(|(from, to)| {
            let (from, to) = as_wide(from, to);
            LearnSpec::Move { from, to }
        }),
        subfields(in_packet).prop_map(|from| LearnSpec::Output { from: part(from) }),
    ]
    .boxed()
}

/// A `learn` that a switch accepts in a flow with this match.
pub(super) fn learn(m: &Match) -> impl Strategy<Value = Action> + use<> {
    let m = m.clone();
    let specs = kinds_learned().prop_flat_map(move |kinds| {
        let learned =
            kinds.iter().fold(Match::any(), |m, (field, value)| m.with(*field, *value).expect("a value"));
        prop::collection::vec(spec(&m, &learned), 0..4).prop_map(move |more| {
            let kinds = kinds
                .iter()
                .map(|(field, value)| LearnSpec::Match { to: Subfield::whole(*field), value: *value });
            // A later spec can remove a prerequisite of others.
            kinds.chain(more).fold(Vec::new(), |specs, spec| {
                let longer: Vec<LearnSpec> = specs.iter().copied().chain([spec]).collect();
                if Learn::new(0, longer.clone()).validate().is_ok() { longer } else { specs }
            })
        })
    });
    let numbers = (0_u8..255, any::<[Option<u16>; 4]>(), any::<u16>(), any::<Option<u64>>());
    let rest = (any::<[bool; 2]>(), any::<Option<u32>>(), prop::option::of(0_u16..32));
    (specs, numbers, rest).prop_map(
        |(specs, (table, timeouts, priority, cookie), ([send_flow_rem, delete_learned], limit, result))| {
            let [idle, hard, fin_idle, fin_hard] = timeouts.map(Option::unwrap_or_default);
            let mut learn = Learn::new(table, specs);
            (learn.idle_timeout, learn.hard_timeout) = (idle, hard);
            (learn.fin_idle_timeout, learn.fin_hard_timeout) = (fin_idle, fin_hard);
            (learn.priority, learn.cookie, learn.limit) = (priority, cookie.unwrap_or(0), limit.unwrap_or(0));
            (learn.send_flow_rem, learn.delete_learned) = (send_flow_rem, delete_learned);
            match result {
                None => learn.into(),
                Some(bit) => {
                    let bit = Subfield::new(Field::Reg7, bit, 1).expect("a bit");
                    learn.with_result(bit).expect("one writable bit").into()
                }
            }
        },
    )
}
