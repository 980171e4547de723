//! Matches as `ovs-ofctl` writes and reads them.

use std::fmt;
use std::str::FromStr;

use super::*;
use crate::ParseError;

/// Names shared by several fields: the other parts of the match decide which one is meant
/// ([`Match::resolve`]). The field beside each name has values of the same form.
pub(crate) const SHARED_NAMES: &[(&str, Field)] = &[
    ("tp_src", Field::TcpSrc),
    ("tp_dst", Field::TcpDst),
    ("icmp_type", Field::IcmpType),
    ("icmp_code", Field::IcmpCode),
    ("nw_src", Field::IpSrc),
    ("nw_dst", Field::IpDst),
    ("nw_proto", Field::IpProto),
];

impl Match {
    /// The keyword that stands for the Ethernet type, and whether it also covers the IP protocol.
    fn keyword(&self) -> Option<(&'static str, bool)> {
        let eth = self.exactly(Field::EthType)?;
        let proto = self.exactly(Field::IpProto);
        let of = |proto| KEYWORDS.iter().find(|(_, e, p)| *e == eth && *p == proto).map(|(name, ..)| *name);
        match proto.and_then(|proto| of(Some(proto))) {
            Some(name) => Some((name, true)),
            None => of(None).map(|name| (name, false)),
        }
    }

    /// The field's name in this match.
    fn shown_name(&self, field: Field) -> &'static str {
        let info = field.info();
        // `tp_dst` and `icmp_type` are unambiguous only next to their protocol.
        let shared = matches!(info.match_name, "tp_src" | "tp_dst" | "icmp_type" | "icmp_code");
        if shared && !self.meets(info.prerequisite) { info.name } else { info.match_name }
    }
}

/// Writes items with commas between.
struct List<'a, 'b> {
    f: &'a mut fmt::Formatter<'b>,
    empty: bool,
}

impl<'b> List<'_, 'b> {
    fn next(&mut self) -> Result<&mut fmt::Formatter<'b>, fmt::Error> {
        if !std::mem::replace(&mut self.empty, false) {
            self.f.write_str(",")?;
        }
        Ok(self.f)
    }
}

impl fmt::Display for Match {
    /// Writes exactly what `ovs-ofctl -O OpenFlow15 --no-names dump-flows` prints; nothing for a
    /// match without parts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = List { f, empty: true };
        let keyword = self.keyword();
        let (mut eth_type, mut ip_proto) = (None, None);
        let mut keyword_due = keyword.map(|(name, _)| name);
        for demand in self.iter() {
            let Demand { field, value, mask } = demand;
            if field >= Field::EthType
                && let Some(name) = keyword_due.take()
            {
                list.next()?.write_str(name)?;
            }
            // These two have a second position, used when no keyword covers both.
            if field > Field::EthDst
                && let Some(value) = eth_type.take()
            {
                write!(list.next()?, "dl_type={value:#06x}")?;
            }
            if field > Field::IpDst
                && let Some(value) = ip_proto.take()
            {
                write!(list.next()?, "nw_proto={value}")?;
            }
            match field {
                Field::EthType => eth_type = keyword.is_none().then_some(value),
                Field::IpProto => ip_proto = (!keyword.is_some_and(|(_, both)| both)).then_some(value),
                Field::VlanTci => write_vlan(&mut list, value, mask)?,
                _ => {
                    let name = self.shown_name(field);
                    let f = list.next()?;
                    write!(f, "{name}=")?;
                    field.write_match(f, value, mask)?;
                }
            }
        }
        if let Some(value) = eth_type {
            write!(list.next()?, "dl_type={value:#06x}")?;
        }
        if let Some(value) = ip_proto {
            write!(list.next()?, "nw_proto={value}")?;
        }
        Ok(())
    }
}

/// A tag that is present prints by id and priority where they are matched in full or not at all.
fn write_vlan(list: &mut List<'_, '_>, value: u128, mask: u128) -> fmt::Result {
    let (vid, pcp) = (mask & 0xfff, mask & VLAN_PCP);
    let plain = value & mask & VLAN_PRESENT != 0 && matches!(vid, 0 | 0xfff) && (vid | pcp) != 0;
    if !plain {
        let f = list.next()?;
        f.write_str("vlan_tci=")?;
        return Field::VlanTci.write_match(f, value, mask);
    }
    if vid != 0 {
        write!(list.next()?, "dl_vlan={}", value & 0xfff)?;
    }
    if pcp != 0 {
        write!(list.next()?, "dl_vlan_pcp={}", value >> 13)?;
    }
    Ok(())
}

/// One `key=value` of a match. `value` is absent for a bare keyword.
pub(crate) struct Item<'a> {
    pub(crate) key: &'a str,
    pub(crate) value: Option<&'a str>,
}

/// Splits text at commas and white space outside parentheses.
pub(crate) fn items(text: &str) -> impl Iterator<Item = Item<'_>> {
    let mut depth = 0_u32;
    text.split(move |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ',' || c.is_ascii_whitespace())
    })
    .filter(|item| !item.is_empty())
    .map(|item| match item.split_once('=') {
        Some((key, value)) => Item { key, value: Some(value) },
        None => Item { key: item, value: None },
    })
}

impl FromStr for Match {
    type Err = ParseError;

    /// Reads what `Display` writes and the usual `ovs-ofctl` spellings: commas or spaces between
    /// items, `tp_dst` next to its protocol, field aliases. Prerequisites are not checked here
    /// ([`Match::validate`] does), so that parts of a match can be read and joined.
    fn from_str(text: &str) -> Result<Match, ParseError> {
        Match::from_items(&items(text).collect::<Vec<_>>())
    }
}

impl Match {
    /// Builds a match from split text.
    pub(crate) fn from_items(items: &[Item<'_>]) -> Result<Match, ParseError> {
        let mut found = Match::any();
        let mut waiting = Vec::new();
        for Item { key, value } in items {
            let Some(value) = value else {
                found = found.with_keyword(key)?;
                continue;
            };
            match *key {
                // Their meaning depends on the other items.
                name if SHARED_NAMES.iter().any(|(shared, _)| *shared == name) => {
                    waiting.push((*key, *value));
                }
                _ => found = found.with_item(key, value)?,
            }
        }
        // `nw_proto` decides about the others.
        waiting.sort_by_key(|(key, _)| *key != "nw_proto");
        for (key, value) in waiting {
            let field = found.resolve(key)?;
            let (value, mask) = field.read(value)?;
            found = found.with_masked(field, value, mask)?;
        }
        Ok(found)
    }

    fn with_keyword(self, name: &str) -> Result<Match, ParseError> {
        // Every match here is on Ethernet packets, so `eth` adds nothing.
        if name == "eth" {
            return Ok(self);
        }
        let Some((_, eth, proto)) = KEYWORDS.iter().find(|(keyword, ..)| *keyword == name) else {
            let name = name.to_owned();
            let known = Field::from_name(&name).is_some() || shared_field(&name);
            return Err(if known {
                ParseError::MissingValue { name }
            } else {
                ParseError::UnknownField { name }
            });
        };
        let mut found = self.with(Field::EthType, *eth)?;
        if let Some(proto) = proto {
            found = found.with(Field::IpProto, *proto)?;
        }
        Ok(found)
    }

    fn with_item(self, key: &str, text: &str) -> Result<Match, ParseError> {
        match key {
            "dl_vlan" if text == "0xffff" || text == "65535" => Ok(self.with(Field::VlanVid, 0)?),
            "dl_vlan" => {
                let vid: u16 = super::super::field::text::int(text, "VLAN id")?;
                if vid > 0xfff {
                    return Err(ParseError::value(text, "VLAN id, at most 4095 (65535 for no tag)"));
                }
                Ok(self.with(Field::VlanVid, VLAN_PRESENT | u128::from(vid))?)
            }
            "dl_vlan_pcp" => Ok(self.with(Field::VlanPcp, Field::VlanPcp.read(text)?.0)?),
            _ => {
                let unknown = || ParseError::UnknownField { name: key.to_owned() };
                let field = Field::from_name(key).ok_or_else(unknown)?;
                let (value, mask) = field.read(text)?;
                Ok(self.with_masked(field, value, mask)?)
            }
        }
    }

    /// The field that a name shared by several protocols means in this match.
    pub(crate) fn resolve(&self, name: &str) -> Result<Field, ParseError> {
        let candidates: &[Field] = match name {
            "tp_src" => &[Field::TcpSrc, Field::UdpSrc, Field::SctpSrc, Field::IcmpType, Field::Icmpv6Type],
            "tp_dst" => &[Field::TcpDst, Field::UdpDst, Field::SctpDst, Field::IcmpCode, Field::Icmpv6Code],
            "icmp_type" => &[Field::Icmpv6Type, Field::IcmpType],
            "icmp_code" => &[Field::Icmpv6Code, Field::IcmpCode],
            "nw_src" => &[Field::ArpSpa, Field::IpSrc],
            "nw_dst" => &[Field::ArpTpa, Field::IpDst],
            _ => &[Field::ArpOp, Field::IpProto],
        };
        let fits = candidates.iter().find(|field| self.meets(field.info().prerequisite));
        match (fits, name) {
            (Some(field), _) => Ok(*field),
            (None, "tp_src" | "tp_dst") => {
                Err(ParseError::Ambiguous { name: name.to_owned(), needs: "tcp, udp, sctp (or with 6)" })
            }
            // The last candidate is the field that has this name without a protocol.
            (None, _) => Ok(candidates[candidates.len() - 1]),
        }
    }
}

fn shared_field(name: &str) -> bool {
    matches!(name, "tp_src" | "tp_dst" | "dl_vlan" | "dl_vlan_pcp")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line: input, output.
    const SPELLINGS: &[(&str, &str)] = &[
        ("", ""),
        ("reg1=0", "reg1=0"),
        ("reg1=0/0", ""),
        ("metadata=0x1, reg3=26", "reg3=0x1a,metadata=0x1"),
        ("dl_type=0x800,nw_proto=6,tp_dst=80,metadata=1", "tcp,metadata=0x1,tp_dst=80"),
        ("tp_dst=80,tcp", "tcp,tp_dst=80"),
        ("ip,nw_src=10.1.2.3/24,nw_dst=0.0.0.0/0", "ip,nw_src=10.1.2.0/24"),
        ("in_port=65534", "in_port=LOCAL"),
        ("in_port_oxm=5", "in_port=5"),
        ("xreg0=0x500000006", "reg0=0x5,reg1=0x6"),
        ("ip,ip_dscp=8", "ip,nw_tos=32"),
        ("vlan_tci=0", "vlan_tci=0x0000/0x1fff"),
        ("vlan_vid=0x1000/0x1000", "vlan_tci=0x1000/0x1000"),
        ("dl_vlan=5,dl_vlan_pcp=3", "dl_vlan=5,dl_vlan_pcp=3"),
        ("vlan_tci=0xf123", "dl_vlan=291,dl_vlan_pcp=7"),
        ("dl_vlan=0xffff", "vlan_tci=0x0000/0x1fff"),
        (
            "arp,arp_op=1,nw_dst=10.0.0.7,eth_src=00:00:00:00:00:01",
            "arp,dl_src=00:00:00:00:00:01,arp_tpa=10.0.0.7,arp_op=1",
        ),
        ("arp,nw_proto=2", "arp,arp_op=2"),
        (
            "dl_type=0x88cc,tun_id=5,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00",
            "tun_id=0x5,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,dl_type=0x88cc",
        ),
        ("ip,nw_proto=89,nw_dst=1.2.3.4,nw_ttl=3", "ip,nw_dst=1.2.3.4,nw_proto=89,nw_ttl=3"),
        ("icmp6,icmp_type=135,icmp_code=0,nd_target=::1", "icmp6,icmp_type=135,icmp_code=0,nd_target=::1"),
        ("ct_state=+trk-new,ip", "ct_state=-new+trk,ip"),
        ("tcp,tcp_flags=0x2/0x12", "tcp,tcp_flags=+syn-ack"),
        ("tun_src=1.2.3.4,tun_dst=1.2.3.4/255.0.255.0", "tun_src=1.2.3.4,tun_dst=1.0.3.0/255.0.255.0"),
    ];

    #[test]
    fn spellings_meet_in_one_form_which_reads_back() {
        for (given, printed) in SPELLINGS {
            let m: Match = given.parse().unwrap_or_else(|e| panic!("{given}: {e}"));
            assert_eq!(m.to_string(), *printed);
            assert_eq!(printed.parse(), Ok(m), "{printed}");
        }
    }

    #[test]
    fn parts_of_a_match_print_so_that_they_read_back() {
        for text in [
            "tcp_dst=80",
            "nw_proto=6",
            "icmpv6_type=135",
            "icmp_type=8",
            "nw_src=10.0.0.1",
            "arp_spa=1.2.3.4",
        ] {
            let m: Match = text.parse().unwrap();
            assert_eq!(m.to_string(), text);
        }
    }

    #[test]
    fn text_that_says_nothing_certain_is_refused() {
        for text in [
            "tp_dst=80",
            "reg0",
            "tcpp",
            "reg16=1",
            "reg0=0x1_0",
            "reg0=5,reg0=6",
            "eth_type=0x800/0xff",
            "ct_state=+new-new",
            "tcp,udp",
        ] {
            assert!(text.parse::<Match>().is_err(), "{text}");
        }
    }
}
