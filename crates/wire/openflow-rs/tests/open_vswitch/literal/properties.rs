//! Random flows that are split into terms with holes and filled again stay the same.

use openflow_rs::action::SampleDirection;
use openflow_rs::literal::{self, ActionTerm, Kind, MatchItem, Term, Value};
use openflow_rs::message::PacketInReason;
use openflow_rs::{Action, Field, MacAddr, Match, MeterEntry, Subfield};
use proptest::prelude::*;

/// Turns values into holes and keeps them.
#[derive(Default)]
struct Holes {
    values: Vec<Value>,
}

impl Holes {
    fn hole(&mut self, value: Value) -> Term {
        self.values.push(value);
        Term::Hole(self.values.len() - 1, value.kind())
    }

    fn masked(&mut self, value: Value, mask: Option<Value>) -> Term {
        match mask {
            None => self.hole(value),
            Some(mask) => Term::masked(self.hole(value), self.hole(mask)),
        }
    }
}

/// Bits of a field as a value of the type it is made for.
fn value(field: Field, bits: u128) -> Value {
    match literal::kinds(Subfield::whole(field))[0] {
        Kind::Mac => Value::Mac(MacAddr::from_u64(bits as u64)),
        Kind::Ip if field.bits() == 32 => Value::Ip(std::net::Ipv4Addr::from(bits as u32).into()),
        Kind::Ip => Value::Ip(std::net::Ipv6Addr::from(bits).into()),
        _ => Value::Int(bits as i64),
    }
}

/// Pieces of at most 32 bits for fields whose values integers cannot hold: first bit, last bit, value, mask.
fn pieces(field: Field, bits: u128, mask: u128) -> Vec<(u16, u16, u128, u128)> {
    (0..field.bits().div_ceil(32))
        .map(|n| {
            let cut = |bits: u128| bits >> (32 * n) & 0xffff_ffff;
            (32 * n, (32 * n + 31).min(field.bits() - 1), cut(bits), cut(mask))
        })
        .filter(|(.., mask)| *mask != 0)
        .collect()
}

fn is_wide(field: Field) -> bool {
    field.bits() > 62 && literal::kinds(Subfield::whole(field))[0] == Kind::Int
}

/// Fields that are prerequisites of others; their values must be known when the literal is checked.
fn decides(field: Field) -> bool {
    matches!(
        field,
        Field::EthType
            | Field::IpProto
            | Field::Icmpv6Type
            | Field::Icmpv6Code
            | Field::CtState
            | Field::VlanTci
            | Field::IpFrag
    )
}

/// The match as a literal.
fn literal_of(m: &Match, holes: &mut Holes) -> Vec<MatchItem> {
    let mut items = Vec::new();
    for demand in m.iter() {
        let (field, name) = (demand.field, demand.field.name());
        let exact = demand.mask == field.max_value();
        if decides(field) {
            let constant = |bits| Term::Constant(value(field, bits));
            let term = if exact {
                constant(demand.value)
            } else {
                Term::masked(constant(demand.value), constant(demand.mask))
            };
            items.push(MatchItem::field(name, term));
        } else if is_wide(field) {
            for (first, last, bits, mask) in pieces(field, demand.value, demand.mask) {
                let term = holes.masked(Value::Int(bits as i64), Some(Value::Int(mask as i64)));
                items.push(MatchItem::bits(name, first, last, term));
            }
        } else {
            let mask = (!exact).then(|| value(field, demand.mask));
            items.push(MatchItem::field(name, holes.masked(value(field, demand.value), mask)));
        }
    }
    items
}

fn field_term(bits: Subfield) -> Term {
    let name = bits.field().name();
    match Subfield::whole(bits.field()) {
        whole if whole == bits => Term::name(name),
        _ => Term::Bits(name.to_owned(), bits.start(), bits.start() + bits.bits() - 1),
    }
}

/// The action as a literal; none for those that literals write in another way.
fn literal_action(action: &Action, holes: &mut Holes) -> Option<ActionTerm> {
    let int = |holes: &mut Holes, n: i64| holes.hole(Value::Int(n));
    let call = |name: &str, terms: Vec<Term>| ActionTerm::call(name, terms);
    Some(match action {
        Action::Output(output) => match output.port {
            openflow_rs::PortNo::CONTROLLER => return None,
            port => call("output", vec![int(holes, port.0.into())]),
        },
        Action::OutputReg(output) => call("output_field", vec![field_term(output.source())]),
        Action::SetField(set) if !is_wide(set.field()) => {
            let mask = (set.mask() != set.field().max_value()).then(|| value(set.field(), set.mask()));
            let term = holes.masked(value(set.field(), set.value()), mask);
            call("set", vec![Term::name(set.field().name()), term])
        }
        Action::MoveBits(copy) => {
            call("move", vec![field_term(copy.source()), field_term(copy.destination())])
        }
        Action::Resubmit(again) if again.table < 255 => {
            let term = call("resubmit", vec![int(holes, again.table.into())]);
            let term = match again.in_port {
                openflow_rs::PortNo::IN_PORT => term,
                port => term.with("port", int(holes, port.0.into())),
            };
            let mut term = term;
            if again.ct {
                term.arguments.push(literal::Argument { name: None, term: Term::name("ct") });
            }
            term
        }
        Action::Group(group) => call("group", vec![int(holes, group.id.into())]),
        Action::SetQueue(queue) => call("set_queue", vec![int(holes, queue.id.into())]),
        Action::Sample(sample) => {
            let term = call("sample", vec![])
                .with("probability", int(holes, sample.probability().into()))
                .with("collector_set_id", int(holes, sample.collector_set_id.into()))
                .with("obs_domain_id", int(holes, sample.obs_domain_id.into()))
                .with("obs_point_id", int(holes, sample.obs_point_id.into()));
            let mut term = match sample.sampling_port {
                Some(port) => term.with("sampling_port", int(holes, port.0.into())),
                None => term,
            };
            let direction = match sample.direction {
                SampleDirection::Unsaid => None,
                SampleDirection::Ingress => Some("ingress"),
                SampleDirection::Egress => Some("egress"),
            };
            term.arguments
                .extend(direction.map(|name| literal::Argument { name: None, term: Term::name(name) }));
            term
        }
        Action::Controller(to) if to.reason == PacketInReason::ACTION => {
            let term = call("controller", vec![])
                .with("max_len", int(holes, to.max_len.into()))
                .with("id", int(holes, to.id.into()));
            let mut term = match to.meter_id {
                Some(meter) if meter <= MeterEntry::ID_MAX => term.with("meter_id", int(holes, meter.into())),
                Some(_) => return None,
                None => term,
            };
            if !to.userdata.is_empty() {
                let pairs: Vec<String> = to.userdata.iter().map(|byte| format!("{byte:02x}")).collect();
                term = term.with("userdata", Term::Text(pairs.join(".")));
            }
            let pause = to.pause.then(|| literal::Argument { name: None, term: Term::name("pause") });
            term.arguments.extend(pause);
            term
        }
        Action::SetTtl(set) => call("mod_nw_ttl", vec![int(holes, set.ttl.into())]),
        Action::Push(push) => call("push", vec![field_term(push.field())]),
        Action::Pop(pop) => call("pop", vec![field_term(pop.field())]),
        Action::PushVlan(push) => call("push_vlan", vec![int(holes, push.eth_type.into())]),
        Action::CheckPktLarger(check) => {
            call("check_pkt_larger", vec![int(holes, check.limit_bytes().into()), field_term(check.result())])
        }
        Action::GotoTable(goto) => call("goto_table", vec![int(holes, goto.table.into())]),
        Action::CloneActions(copy) => {
            let inner: Option<Vec<_>> =
                copy.actions.0.iter().map(|action| literal_action(action, holes).map(Term::Action)).collect();
            call("clone", inner?)
        }
        Action::DecTtl(_)
        | Action::CtClear(_)
        | Action::Exit(_)
        | Action::PopQueue(_)
        | Action::PopVlan(_)
        | Action::ClearActions(_) => call(&action.to_string(), vec![]),
        _ => return None,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn matches_are_filled_as_their_text_reads(m in crate::strategies::matches()) {
        let mut holes = Holes::default();
        let items = literal_of(&m, &mut holes);
        let template = literal::matches(&items).unwrap_or_else(|errors| panic!("{m}: {errors:?}"));
        prop_assert_eq!(template.fill(&holes.values), Ok(m.to_string().parse::<Match>().ok()));
    }

    #[test]
    fn actions_are_filled_as_their_text_reads(entry in crate::strategies::entry()) {
        let mut holes = Holes::default();
        let mut kept = Vec::new();
        let mut terms = Vec::new();
        for action in &entry.actions.0 {
            if let Some(term) = literal_action(action, &mut holes) {
                kept.push(action.clone());
                terms.push(term);
            }
        }
        let template = literal::actions(&terms).unwrap_or_else(|errors| panic!("{}: {errors:?}", entry.actions));
        let text = openflow_rs::Actions(kept).to_string();
        prop_assert_eq!(template.fill(&holes.values), Ok(text.parse().unwrap()));
    }

    #[test]
    fn no_value_makes_filling_panic(
        name in proptest::sample::select(literal::field_names().collect::<Vec<_>>()),
        numbers in any::<[i64; 2]>(),
        address in any::<(u128, u32, u8, bool)>(),
    ) {
        let Some(wanted) = name.wanted else { return Ok(()) };
        let (v6, v4, len, six) = address;
        let ip: std::net::IpAddr = if six { std::net::Ipv6Addr::from(v6).into() } else { std::net::Ipv4Addr::from(v4).into() };
        for kind in wanted.kinds {
            let value = match kind {
                Kind::Int => Value::Int(numbers[0]),
                Kind::Mac => Value::Mac(MacAddr::from_u64(v6 as u64)),
                Kind::Ip => Value::Ip(ip),
                Kind::Net => Value::Net(ip, len),
                Kind::Text => continue,
            };
            for said in ["", "tcp", "icmp6", "arp", "mpls"] {
                let mut items: Vec<_> = (!said.is_empty()).then(|| MatchItem::word(said)).into_iter().collect();
                items.push(MatchItem::field(name.name, Term::Hole(0, *kind)));
                if let Ok(template) = literal::matches(&items)
                    && let Ok(Some(m)) = template.fill(&[value])
                {
                    prop_assert_eq!(m.to_string().parse::<Match>(), Ok(m));
                }
            }
            let set = ActionTerm::call("set", [Term::name(name.name), Term::Hole(0, *kind)]);
            if let Ok(template) = literal::actions(&[set]) {
                let _ = template.fill(&[value]);
                let _ = template.fill(&[Value::Int(numbers[1])]);
            }
        }
    }
}
