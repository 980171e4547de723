//! OpenFlow matches: for every field `match_FIELD(value)` and, if the field takes masks, `match_FIELD_masked(value,
//! mask)`.
//!
//! A match of a field includes the field's prerequisites if there is only one way to satisfy them: a match of
//! `arp_tpa` is a match of ARP. Fields of TCP, UDP and SCTP exist over IPv4 and IPv6: `match_tcp_dst` matches IPv4,
//! `match_tcp6_dst` IPv6.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use openflow_rs::field::Format;
use openflow_rs::{Field, MacAddr, Match, MatchError, Packed, Prerequisite};

use super::define::entry;
use super::openflow_examples::{match_examples, match_masked_examples, match_net_examples};
use super::openflow_field::{FieldValue, Form, failure, forms, misfit, names};
use super::{Failure, Function};

const IPV4: u128 = 0x0800;
const IPV6: u128 = 0x86dd;
const ARP: u128 = 0x0806;
const MPLS: u128 = 0x8847;

/// The prerequisites that a field's function adds to the match.
pub(super) fn prerequisite(field: Field, six: bool) -> Result<Match, MatchError> {
    let eth = |kind| Match::any().with(Field::EthType, kind);
    let ip = |proto| eth(if six { IPV6 } else { IPV4 })?.with(Field::IpProto, proto);
    let icmp6 = || eth(IPV6)?.with(Field::IpProto, 58);
    let nd = || icmp6()?.with(Field::Icmpv6Code, 0);
    let tracked = |field: Field| {
        // Open vSwitch requires evidence of a valid connection; all valid connections match -inv+trk.
        let tracked = Match::any().with_masked(Field::CtState, 0x20, 0x30)?;
        match field.info().format {
            Format::Ipv4 => tracked.with(Field::EthType, IPV4),
            Format::Ipv6 => tracked.with(Field::EthType, IPV6),
            _ => Ok(tracked),
        }
    };
    match field.info().prerequisite {
        Prerequisite::None | Prerequisite::Ip => Ok(Match::any()),
        Prerequisite::Vlan => Match::any().with_masked(Field::VlanTci, 0x1000, 0x1000),
        Prerequisite::Ipv4 => eth(IPV4),
        Prerequisite::Ipv6 => eth(IPV6),
        Prerequisite::Arp => eth(ARP),
        Prerequisite::Mpls => eth(MPLS),
        Prerequisite::Tcp => ip(6),
        Prerequisite::Udp => ip(17),
        Prerequisite::Sctp => ip(132),
        Prerequisite::Icmp => eth(IPV4)?.with(Field::IpProto, 1),
        Prerequisite::Icmp6 => icmp6(),
        Prerequisite::Nd => nd(),
        Prerequisite::NdSolicit => nd()?.with(Field::Icmpv6Type, 135),
        Prerequisite::NdAdvert => nd()?.with(Field::Icmpv6Type, 136),
        Prerequisite::Ct | Prerequisite::CtAddress => tracked(field),
    }
}

/// Makes matches of a field with its prerequisites.
struct FieldMatch {
    /// The name of the function, for failures.
    function: String,
    field: Field,
    /// The prerequisites of the field, and those of the field for IPv6 addresses.
    bases: [Result<Packed<Match>, MatchError>; 2],
}

impl FieldMatch {
    /// `six` selects IPv6 where there is a choice.
    fn new(function: &str, field: Field, six: bool) -> Self {
        let base = |field| prerequisite(field, six).map(|base| Packed::new(&base));
        let bases = [field, field.for_address(Ipv6Addr::UNSPECIFIED.into())].map(base);
        FieldMatch { function: function.to_owned(), field, bases }
    }

    /// The prerequisites of the field or of its counterpart.
    fn base(&self, field: Field) -> &Result<Packed<Match>, MatchError> {
        &self.bases[usize::from(field != self.field)]
    }

    fn of<V: FieldValue>(&self, value: V, mask: Option<V>) -> Result<Packed<Match>, Failure> {
        let function = &self.function;
        let field = value.field(self.field);
        let bits = value.bits(field).ok_or_else(|| misfit(function, field, value))?;
        let base = self.base(field).as_ref().map_err(|error| failure(function, value, error))?;
        match mask {
            None => base
                .with_masked(field, bits, field.max_value())
                .map_err(|error| failure(function, value, &error)),
            Some(mask) => {
                let mask_bits = mask.bits(field).ok_or_else(|| misfit(function, field, mask))?;
                base.with_masked(field, bits, mask_bits)
                    .map_err(|error| failure(function, format_args!("{value}/{mask}"), &error))
            }
        }
    }

    fn of_net(&self, net: IpNet) -> Result<Packed<Match>, Failure> {
        let function = &self.function;
        let field = self.field.for_address(net.network());
        let bits = net.network().bits(field).ok_or_else(|| misfit(function, field, net))?;
        let mask = net.netmask().bits(field).ok_or_else(|| misfit(function, field, net))?;
        let base = self.base(field).as_ref().map_err(|error| failure(function, net, error))?;
        base.with_masked(field, bits, mask).map_err(|error| failure(function, net, &error))
    }
}

pub(super) fn functions() -> Vec<Function> {
    let mut functions = fixed();
    functions.extend(operators());
    functions
}

/// The functions of every field, and `flow_expr_match_regN`.
pub(super) fn of_fields() -> Vec<Function> {
    let mut functions = Vec::new();
    for field in Field::all() {
        for name in names(field) {
            functions.extend(of_field(field, name, false));
            if let Some(name) = over_ipv6(name) {
                functions.extend(of_field(field, &name, true));
            }
        }
    }
    for n in 0..16 {
        functions.extend(Field::reg(n).map(|field| flow_expr(n, field)));
    }
    functions
}

/// The name for a field of TCP, UDP or SCTP over IPv6: `tcp6_dst` for `tcp_dst`.
pub(super) fn over_ipv6(name: &str) -> Option<String> {
    let pairs = [("tcp_", "tcp6_"), ("udp_", "udp6_"), ("sctp_", "sctp6_")];
    pairs.iter().find_map(|(four, six)| Some(format!("{six}{}", name.strip_prefix(four)?)))
}

/// `flow_expr_match_regN`, the name in the literature.
fn flow_expr(n: u8, field: Field) -> Function {
    let name = format!("flow_expr_match_reg{n}");
    let matches = FieldMatch::new(&name, field, false);
    entry(&format!("{name}(value) -> match"), format!("Matches packets whose register {n} has this value."))
        .example("26", format!(r#"match"reg{n}=0x1a""#))
        .example("0", format!(r#"match"reg{n}=0""#))
        .example("4294967295", format!(r#"match"reg{n}=0xffffffff""#))
        .example("4294967296", "error range")
        .example("-1", "error range")
        .unary(move |value: i64| matches.of(value, None))
}

/// The functions of one field under one of its names.
fn of_field(field: Field, name: &str, six: bool) -> Vec<Function> {
    let info = field.info();
    let mut functions = Vec::new();
    for form in forms(field) {
        match form {
            Form::Int => functions.extend(of_form::<i64>(field, name, six, *form)),
            Form::Mac => functions.extend(of_form::<MacAddr>(field, name, six, *form)),
            Form::Ip => functions.extend(of_form::<IpAddr>(field, name, six, *form)),
        }
    }
    if matches!(info.format, Format::Ipv4 | Format::Ipv6) {
        let function = format!("match_{name}");
        let matches = FieldMatch::new(&function, field, false);
        let entry = entry(
            &format!("{function}(net) -> match"),
            format!(
                "Matches packets whose {name} is in the \
            prefix."
            ),
        );
        functions
            .push(entry.examples(match_net_examples(field)).unary(move |net: IpNet| matches.of_net(net)));
    }
    functions
}

/// The functions of a field for one type of values: exact, and masked if the field takes masks.
fn of_form<V: FieldValue>(field: Field, name: &str, six: bool, form: Form) -> Vec<Function> {
    let bits = field.bits();
    let function = format!("match_{name}");
    let matches = FieldMatch::new(&function, field, six);
    let doc = format!("Matches packets whose {name} ({bits} bits) has this value.");
    let exact = entry(&format!("{function}(value) -> match"), doc)
        .examples(match_examples(field, six, form))
        .unary(move |value: V| matches.of(value, None));
    if !field.info().maskable {
        return vec![exact];
    }
    let function = format!("match_{name}_masked");
    let matches = FieldMatch::new(&function, field, six);
    let doc = format!("Matches packets whose {name} ({bits} bits) equals the value in the bits of the mask.");
    let masked = entry(&format!("{function}(value, mask) -> match"), doc)
        .examples(match_masked_examples(field, six, form))
        .binary(move |value: V, mask: V| matches.of(value, Some(mask)));
    vec![exact, masked]
}

/// Matches that do not belong to a field.
fn fixed() -> Vec<Function> {
    let of = |kind| Match::any().with(Field::EthType, kind).unwrap_or_default();
    vec![
        entry("match_any() -> match", "Matches every packet.").example("", r#"match"""#).nullary(Match::any),
        entry("match_ip() -> match", "IPv4 packets.").example("", r#"match"ip""#).nullary(move || of(IPV4)),
        entry("match_ipv6() -> match", "IPv6 packets.")
            .example("", r#"match"ipv6""#)
            .nullary(move || of(IPV6)),
        entry("match_arp() -> match", "Matches ARP packets.")
            .example("", r#"match"arp""#)
            .nullary(move || of(ARP)),
        entry("match_untagged() -> match", "Matches packets without a VLAN tag.")
            .example("", r#"match"vlan_tci=0x0000/0x1000""#)
            .nullary(|| Match::any().with_masked(Field::VlanTci, 0, 0x1000).unwrap_or_default()),
        entry("match_tagged(vlan) -> match", "Matches packets with this VLAN ID (0 to 4095).")
            .example("100", r#"match"dl_vlan=100""#)
            .example("4096", "error range")
            .example("-1", "error range")
            .unary(|vlan: i64| match u128::try_from(vlan) {
                Ok(id @ 0..4096) => Match::any()
                    .with_masked(Field::VlanTci, 0x1000 | id, 0x1fff)
                    .map_err(|error| failure("match_tagged", vlan, &error)),
                _ => Err(Failure::range(format!("match_tagged: {vlan} does not fit in a VLAN ID (12 bits)"))),
            }),
    ]
}

fn operators() -> Vec<Function> {
    type M = Packed<Match>;
    vec![
        entry(
            "&(a, b) -> both",
            "Matches packets that satisfy both matches. No result if no packet can \
        satisfy both.",
        )
        .example(r#"match"reg1=0x1", match"reg2=0x2""#, r#"match"reg1=0x1,reg2=0x2""#)
        .example(r#"match"reg1=0x1", match"reg1=0x1/0x3""#, r#"match"reg1=0x1""#)
        .example(r#"match"metadata=0x1/0xf", match"metadata=0x20/0xf0""#, r#"match"metadata=0x21/0xff""#)
        .example(r#"match"arp", match"ip""#, "none")
        .example(r#"match"", match"in_port=3""#, r#"match"in_port=3""#)
        .binary(|a: M, b: M| a.and(&b).ok()),
        entry("to_string(match) -> text", "The match as Open vSwitch prints it.")
            .example(r#"match"reg1=26""#, r#""reg1=0x1a""#)
            .example(r#"match"dl_type=0x800,nw_proto=6,tp_dst=80""#, r#""tcp,tp_dst=80""#)
            .unary(|value: M| value.text().into_owned()),
    ]
}
