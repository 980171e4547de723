//! Test vectors of the functions that exist for every OpenFlow field. They are computed from the field's name, width
//! and notation, never from the results of the functions.

use openflow_rs::field::Format;
use openflow_rs::{Field, Prerequisite};

use super::openflow_field::Form;

type Examples = Vec<(String, String)>;

const MAC: &str = "02:00:00:00:00:01";
const OUI: &str = "ff:ff:ff:00:00:00";

/// An integer that fits the field, and its text in a match or after `set_field:`.
fn int_sample(field: Field) -> (&'static str, &'static str) {
    match (field, field.info().format) {
        (Field::VlanVid, _) => ("4103", "4103"),
        (Field::IpTos, _) => ("32", "32"),
        (_, Format::Hex) => ("26", "0x1a"),
        (_, Format::EtherType) => ("35020", "0x88cc"),
        (_, Format::Port) => ("3", "3"),
        (_, Format::CtState) => ("34", "-new+est-rel-rpl-inv+trk-snat-dnat"),
        (_, Format::TcpFlags) => ("2", "0x002"),
        (_, Format::TunFlags) => ("1", "+oam"),
        (_, Format::Frag) => ("1", "first"),
        (_, Format::PacketType) => ("67584", "(1,0x800)"),
        (_, Format::FlowLabel) => ("5", "0x00005"),
        (_, Format::VlanTci) => ("4096", "0x1000"),
        _ => ("1", "1"),
    }
}

/// The prerequisites in a match of the field, as a prefix of its text.
fn needs(field: Field, six: bool) -> &'static str {
    let pick = |four, v6| if six { v6 } else { four };
    match field.info().prerequisite {
        Prerequisite::None | Prerequisite::Ip => "",
        Prerequisite::Vlan => "vlan_tci=0x1000/0x1000,",
        Prerequisite::Ipv4 => "ip,",
        Prerequisite::Ipv6 => "ipv6,",
        Prerequisite::Arp => "arp,",
        Prerequisite::Mpls => "mpls,",
        Prerequisite::Tcp => pick("tcp,", "tcp6,"),
        Prerequisite::Udp => pick("udp,", "udp6,"),
        Prerequisite::Sctp => pick("sctp,", "sctp6,"),
        Prerequisite::Icmp => "icmp,",
        Prerequisite::Icmp6 => "icmp6,",
        Prerequisite::Nd => "icmp6,icmp_code=0,",
        Prerequisite::NdSolicit => "icmp6,icmp_type=135,icmp_code=0,",
        Prerequisite::NdAdvert => "icmp6,icmp_type=136,icmp_code=0,",
        Prerequisite::Ct | Prerequisite::CtAddress => match field.info().format {
            Format::Ipv4 => "ct_state=-inv+trk,ip,",
            Format::Ipv6 => "ct_state=-inv+trk,ipv6,",
            _ => "ct_state=-inv+trk,",
        },
    }
}

/// The IPv6 counterpart of an IPv4 field.
fn twin(field: Field) -> Option<Field> {
    match field {
        Field::IpSrc => Some(Field::Ipv6Src),
        Field::IpDst => Some(Field::Ipv6Dst),
        Field::TunSrc => Some(Field::TunIpv6Src),
        Field::TunDst => Some(Field::TunIpv6Dst),
        Field::CtNwSrc => Some(Field::CtIpv6Src),
        Field::CtNwDst => Some(Field::CtIpv6Dst),
        _ => None,
    }
}

/// The text of the examples' addresses and masks in a field.
struct Ip {
    address: &'static str,
    mask: &'static str,
    written: &'static str,
    written_masked: &'static str,
}

const IPV4: Ip =
    Ip { address: "10.0.0.1", mask: "255.255.255.0", written: "10.0.0.1", written_masked: "10.0.0.0/24" };
const IPV6: Ip = Ip { address: "fe80::1", mask: "ffff::", written: "fe80::1", written_masked: "fe80::/16" };

fn ip_sample(field: Field) -> Ip {
    match (field.bits(), field.info().format) {
        (32, Format::Hex) => Ip { written: "0xa000001", written_masked: "0xa000000/0xffffff00", ..IPV4 },
        (32, _) => IPV4,
        (_, Format::Hex) => Ip {
            written: "0xfe800000000000000000000000000001",
            written_masked: "0xfe800000000000000000000000000000/0xffff0000000000000000000000000000",
            ..IPV6
        },
        _ => IPV6,
    }
}

fn string(example: (&str, &str)) -> (String, String) {
    (example.0.to_string(), example.1.to_string())
}

fn of_match(field: Field, six: bool, arguments: String, value: &str) -> (String, String) {
    (arguments, format!("match\"{}{field}={value}\"", needs(field, six)))
}

/// Integers that a field cannot hold.
fn int_limits(field: Field) -> Examples {
    let mut examples = vec![string(("-1", "error range"))];
    if field.bits() < 63 {
        examples.push(((1_u64 << field.bits().max(13)).to_string(), "error range".to_string()));
    }
    examples
}

pub(super) fn match_examples(field: Field, six: bool, form: Form) -> Examples {
    match form {
        Form::Int => {
            let (argument, value) = int_sample(field);
            let mut examples = int_limits(field);
            examples.insert(0, of_match(field, six, argument.to_string(), value));
            examples
        }
        Form::Mac if field.bits() == 64 => vec![
            (format!("mac\"{MAC}\""), format!("match\"{field}=0x020000000001\"")),
            (r#"mac"00:00:00:00:00:00""#.to_string(), format!("match\"{field}=0\"")),
        ],
        Form::Mac => {
            [MAC, "00:00:00:00:00:00"].map(|mac| of_match(field, six, format!("mac\"{mac}\""), mac)).to_vec()
        }
        Form::Ip => {
            let own = ip_sample(field);
            let mut examples = vec![of_match(field, six, format!("ip\"{}\"", own.address), own.written)];
            let other = if field.bits() == 32 { IPV6 } else { IPV4 };
            examples.push(match twin(field) {
                Some(twin) => of_match(twin, six, format!("ip\"{}\"", other.address), other.written),
                None => (format!("ip\"{}\"", other.address), "error range".to_string()),
            });
            examples
        }
    }
}

pub(super) fn match_masked_examples(field: Field, six: bool, form: Form) -> Examples {
    match form {
        Form::Int => {
            let nothing = format!("match\"{}\"", needs(field, six).trim_end_matches(','));
            let mut examples = vec![
                ("1, 0".to_string(), nothing),
                string(("1, -1", "error range")),
                string(("-1, 1", "error range")),
            ];
            if matches!(field.info().format, Format::Hex) {
                examples.push(of_match(field, six, "26, 15".to_string(), "0xa/0xf"));
            }
            examples
        }
        Form::Mac if field.bits() == 64 => vec![
            (
                format!("mac\"{MAC}\", mac\"{OUI}\""),
                format!("match\"{field}=0x020000000000/0xffffff000000\""),
            ),
            (format!("mac\"{MAC}\", mac\"00:00:00:00:00:00\""), "match\"\"".to_string()),
        ],
        Form::Mac => vec![
            of_match(field, six, format!("mac\"{MAC}\", mac\"ff:ff:ff:ff:ff:ff\""), MAC),
            of_match(
                field,
                six,
                format!("mac\"{MAC}\", mac\"{OUI}\""),
                "02:00:00:00:00:00/ff:ff:ff:00:00:00",
            ),
        ],
        Form::Ip => {
            let Ip { address, mask, written_masked, .. } = ip_sample(field);
            let other = if field.bits() == 32 { "ffff::" } else { "255.255.255.0" };
            vec![
                of_match(field, six, format!("ip\"{address}\", ip\"{mask}\""), written_masked),
                (format!("ip\"{address}\", ip\"{other}\""), "error range".to_string()),
            ]
        }
    }
}

pub(super) fn match_net_examples(field: Field) -> Examples {
    let everything = |field: Field| format!("match\"{}\"", needs(field, false).trim_end_matches(','));
    let four = of_match(field, false, r#"net"10.0.0.0/24""#.to_string(), "10.0.0.0/24");
    let six = |field| of_match(field, false, r#"net"fe80::/16""#.to_string(), "fe80::/16");
    match (field.bits(), twin(field)) {
        (32, Some(twin)) => vec![four, (r#"net"0.0.0.0/0""#.to_string(), everything(field)), six(twin)],
        (32, None) => vec![four, string((r#"net"fe80::/16""#, "error range"))],
        _ => vec![
            six(field),
            (r#"net"::/0""#.to_string(), everything(field)),
            string((r#"net"10.0.0.0/24""#, "error range")),
        ],
    }
}

fn of_set(field: Field, arguments: String, value: &str) -> (String, String) {
    (arguments, format!("actions\"set_field:{value}->{field}\""))
}

pub(super) fn set_examples(field: Field, form: Form) -> Examples {
    match form {
        Form::Int => {
            let (argument, value) = int_sample(field);
            let mut examples = int_limits(field);
            examples.insert(0, of_set(field, argument.to_string(), value));
            examples
        }
        Form::Mac if field.bits() == 64 => vec![
            of_set(field, format!("mac\"{MAC}\""), "0x20000000001"),
            of_set(field, r#"mac"00:00:00:00:00:00""#.to_string(), "0"),
        ],
        Form::Mac => {
            [MAC, "00:00:00:00:00:00"].map(|mac| of_set(field, format!("mac\"{mac}\""), mac)).to_vec()
        }
        Form::Ip => {
            let own = ip_sample(field);
            let other = if field.bits() == 32 { IPV6 } else { IPV4 };
            let other = match twin(field).filter(|twin| twin.info().writable) {
                Some(twin) => of_set(twin, format!("ip\"{}\"", other.address), other.written),
                None => (format!("ip\"{}\"", other.address), "error range".to_string()),
            };
            vec![of_set(field, format!("ip\"{}\"", own.address), own.written), other]
        }
    }
}

pub(super) fn set_masked_examples(field: Field, form: Form) -> Examples {
    match form {
        Form::Int => {
            let mut examples = vec![
                string(("-1, 1", "error range")),
                // A value must lie inside its mask, and a mask must not be zero.
                string(("2, 1", "error range")),
                string(("0, 0", "error range")),
            ];
            if matches!(field.info().format, Format::Hex) {
                examples.push(of_set(field, "10, 15".to_string(), "0xa/0xf"));
            }
            examples
        }
        Form::Mac if field.bits() == 64 => vec![
            of_set(field, format!("mac\"02:00:00:00:00:00\", mac\"{OUI}\""), "0x20000000000/0xffffff000000"),
            (format!("mac\"{MAC}\", mac\"{OUI}\""), "error range".to_string()),
        ],
        Form::Mac => vec![
            of_set(
                field,
                format!("mac\"02:00:00:00:00:00\", mac\"{OUI}\""),
                "02:00:00:00:00:00/ff:ff:ff:00:00:00",
            ),
            (format!("mac\"{MAC}\", mac\"{OUI}\""), "error range".to_string()),
        ],
        Form::Ip => {
            let Ip { address, mask, written_masked, .. } = ip_sample(field);
            let inside = if field.bits() == 32 { "10.0.0.0" } else { "fe80::" };
            vec![
                of_set(field, format!("ip\"{inside}\", ip\"{mask}\""), written_masked),
                (format!("ip\"{address}\", ip\"{mask}\""), "error range".to_string()),
            ]
        }
    }
}
