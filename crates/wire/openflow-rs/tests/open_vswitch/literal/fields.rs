//! Every field, with every type of value, with and without its prerequisites.

use openflow_rs::literal::{self, FieldName, Kind, MatchItem, Problem, Term, Value, field_names, kinds};
use openflow_rs::{Actions, Body, Field, FlowEntry, FlowMod, Match, Message, Prerequisite, Subfield};

use super::read::{self, sample};
use ovs_testing::run;

use crate::open_vswitch::ofctl::print_all;

/// A field's prerequisite as literal text; empty if it has none.
fn said(field: Field) -> &'static str {
    let ct = "ct_state: \"+est+trk\"";
    match field.info().prerequisite {
        // The tag is implied.
        Prerequisite::None | Prerequisite::Vlan => "",
        Prerequisite::Ipv4 | Prerequisite::Ip => "ip",
        Prerequisite::Ipv6 => "ipv6",
        Prerequisite::Arp => "arp",
        Prerequisite::Mpls => "mpls",
        Prerequisite::Tcp => "tcp",
        Prerequisite::Udp => "udp",
        Prerequisite::Sctp => "sctp",
        Prerequisite::Icmp => "icmp",
        Prerequisite::Icmp6 => "icmp6",
        Prerequisite::Nd | Prerequisite::NdSolicit => "icmp6, icmp_type: 135",
        Prerequisite::NdAdvert => "icmp6, icmp_type: 136",
        Prerequisite::CtAddress => match field {
            Field::CtIpv6Src | Field::CtIpv6Dst => "ipv6, ct_state: \"+est+trk\"",
            _ => ct,
        },
        Prerequisite::Ct => match field {
            Field::CtTpSrc | Field::CtTpDst => "ct_state: \"+est+trk\", ct_nw_proto: 6",
            _ => ct,
        },
    }
}

/// Fields whose address decides the version of IP.
fn says_version(field: Field) -> bool {
    matches!(field, Field::IpSrc | Field::IpDst)
}

/// A value that stands for itself in the field.
fn value(field: Field, kind: Kind) -> Option<Value> {
    value_of(field.name(), field, kind)
}

/// The same, by the name used for the field.
fn value_of(name: &str, field: Field, kind: Kind) -> Option<Value> {
    let value = sample(kind, field.bits())?;
    Some(match (field, kind) {
        (Field::VlanVid, Kind::Int) if name == "dl_vlan" => Value::Int(7),
        (Field::VlanVid | Field::VlanTci, Kind::Int) => Value::Int(0x1007),
        (Field::IpTos, Kind::Int) => Value::Int(32),
        (Field::PacketType, Kind::Int) => Value::Int(0x1_0800),
        (Field::EthType, Kind::Int) => Value::Int(0x88cc),
        _ => value,
    })
}

/// A match with this field and its prerequisites.
fn items(name: FieldName, said: &str, term: Term) -> Vec<MatchItem> {
    let mut items = read::matches(said);
    items.push(MatchItem::field(name.name, term));
    items
}

fn accepted_by_ofctl(m: &Match) -> String {
    let output =
        run("ovs-ofctl", &["-O", "OpenFlow15", "--no-names", "parse-flow", &format!("{m},actions=drop")]);
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    let line = printed.lines().find(|line| line.starts_with("OFPT_FLOW_MOD")).unwrap_or_default();
    let line = line.split_once("ADD ").map_or("", |(_, rest)| rest);
    line.strip_suffix("actions=drop").unwrap_or(line).trim_end().to_owned()
}

#[test]
fn every_field_takes_its_types_and_open_vswitch_takes_the_match() {
    let mut checked = 0;
    for name in field_names() {
        let (Some(field), Some(wanted)) = (name.field, name.wanted) else { continue };
        let said = if name.name.starts_with("tp_") { "tcp" } else { said(field) };
        for kind in [Kind::Int, Kind::Mac, Kind::Ip, Kind::Net] {
            let Some(value) = value_of(name.name, field, kind) else { continue };
            let constant = literal::matches(&items(name, said, Term::Constant(value)));
            if !wanted.kinds.contains(&kind) {
                let errors = constant.expect_err(name.name);
                assert_eq!(errors[0].problem, Problem::Type, "{name:?} {kind}");
                continue;
            }
            let built =
                constant.unwrap_or_else(|errors| panic!("{}: {errors:?}", name.name)).fill(&[]).unwrap();
            let built = built.unwrap_or_else(|| panic!("{}: never", name.name));
            assert_eq!(accepted_by_ofctl(&built), built.to_string(), "{}", name.name);
            let hole = literal::matches(&items(name, said, Term::Hole(0, kind)));
            // While types and protocols are unknown, nothing that depends on them is certain.
            let hole = hole.unwrap_or_else(|errors| panic!("{}: {errors:?}", name.name));
            assert_eq!(hole.fill(&[value]), Ok(Some(built)), "{}", name.name);
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked}");
}

#[test]
fn a_field_without_what_it_needs_is_refused_with_a_remedy_that_helps() {
    for name in field_names() {
        let (Some(field), Some(wanted)) = (name.field, name.wanted) else { continue };
        let Some(value) = value_of(name.name, field, wanted.kinds[0]) else { continue };
        for term in [Term::Constant(value), Term::Hole(0, wanted.kinds[0])] {
            let result = literal::matches(&items(name, "", term.clone()));
            let needs_nothing = said(field).is_empty() && !name.name.starts_with("tp_");
            if needs_nothing || says_version(field) {
                assert!(result.is_ok(), "{}: {result:?}", name.name);
                continue;
            }
            let errors = result.expect_err(name.name);
            assert_eq!(errors.len(), 1, "{errors:?}");
            assert_eq!(
                (errors[0].problem, &errors[0].path[..]),
                (Problem::Prerequisite, &[0][..]),
                "{errors:?}"
            );
            // The remedy is a part of a literal: the text between its first quotes.
            let remedy = errors[0].remedy.split('`').nth(1).expect("a quoted remedy");
            // Fields of a connection need more than one part.
            let more = if name.name.starts_with("ct_") { said(field) } else { remedy };
            assert!(
                literal::matches(&items(name, more, term)).is_ok(),
                "{}: {}",
                name.name,
                errors[0].remedy
            );
        }
    }
}

/// The prerequisites in the table of fields are those that Open vSwitch requires.
#[test]
fn open_vswitch_refuses_a_field_without_what_it_needs() {
    let alone = |field: Field| {
        let m =
            Match::any().with(field, value(field, kinds(Subfield::whole(field))[0]).map_or(1, bits)).ok()?;
        let flow = FlowEntry::new(0, 1, m, Actions::drop());
        Some((
            field,
            Message { xid: 1, body: Body::FlowMod(FlowMod::add(flow)) }.encode().expect("a message"),
        ))
    };
    let (fields, messages): (Vec<_>, Vec<_>) = Field::all().filter_map(alone).unzip();
    assert!(fields.len() > 90, "{}", fields.len());
    for (field, printed) in fields.iter().zip(print_all(&messages)) {
        let refused = printed.contains("OFPBMC_BAD_PREREQ");
        assert_eq!(
            refused,
            !matches!(field.info().prerequisite, Prerequisite::None | Prerequisite::Vlan),
            "{printed}"
        );
    }
}

/// A value of a field as a number.
fn bits(value: Value) -> u128 {
    match value {
        Value::Int(n) => n as u128,
        Value::Mac(mac) => mac.into(),
        Value::Ip(std::net::IpAddr::V4(ip)) | Value::Net(std::net::IpAddr::V4(ip), _) => ip.to_bits().into(),
        Value::Ip(std::net::IpAddr::V6(ip)) | Value::Net(std::net::IpAddr::V6(ip), _) => ip.to_bits(),
    }
}

#[test]
fn the_greatest_value_fits_and_the_next_does_not() {
    for field in Field::all().filter(|field| kinds(Subfield::whole(*field)).contains(&Kind::Int)) {
        let max = field.max_value();
        let Ok(max) = i64::try_from(max) else { continue };
        let name = field_names().find(|name| name.name == field.name()).expect("a name");
        let template =
            literal::matches(&items(name, said(field), Term::Hole(0, Kind::Int))).expect("a match");
        for (n, fits) in [(0, true), (max, true), (max + 1, false), (-1, false)] {
            // Some port numbers and some combinations of fragment bits are invalid.
            let special =
                matches!(field, Field::InPort | Field::InPortOxm | Field::ActsetOutput | Field::IpFrag);
            let filled = template.fill(&[Value::Int(n)]);
            assert!(filled.is_ok() == fits || (special && n > 0), "{field} {n}: {filled:?}");
            if let Err(error) = filled {
                assert_eq!(error.path, [items(name, said(field), Term::Hole(0, Kind::Int)).len() - 1]);
                assert!(error.message.contains(&n.to_string()) || special, "{error}");
            }
        }
    }
}

#[test]
fn every_writable_field_is_set_moved_and_pushed() {
    use openflow_rs::literal::{ActionTerm, actions};
    for field in Field::all() {
        let name = Term::name(field.name());
        let push = actions(&[ActionTerm::call("push", [name.clone()])]);
        assert!(push.is_ok(), "{field}");
        let copy = actions(&[ActionTerm::call("move", [name.clone(), name.clone()])]);
        let outside = matches!(field, Field::InPortOxm | Field::CtMark | Field::CtLabel);
        assert_eq!(copy.is_ok(), field.info().writable && !outside, "{field}");
        for kind in [Kind::Int, Kind::Mac, Kind::Ip] {
            let Some(value) = value(field, kind) else { continue };
            let set = actions(&[ActionTerm::call("set", [name.clone(), Term::Hole(0, kind)])]);
            let takes = kinds(Subfield::whole(field)).contains(&kind);
            assert_eq!(set.is_ok(), field.info().writable && !outside && takes, "{field} {kind}: {set:?}");
            if let Ok(set) = set {
                let built = set.fill(&[value]).unwrap_or_else(|error| panic!("{field}: {error}"));
                assert_eq!(built.to_string().parse(), Ok(built));
            }
        }
    }
}
