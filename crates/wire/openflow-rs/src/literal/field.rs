//! Fields in literals: their names, the types of their values, and values as bits.

use std::net::IpAddr;
use std::sync::LazyLock;

use super::error::remedy;
use super::{Kind, Problem, TemplateError, Value};
use crate::field::{Format, VLAN_PRESENT};
use crate::flow_match::SHARED_NAMES;
use crate::protocol::KEYWORDS;
use crate::{Field, Match, MatchError, Subfield};

/// The values that a position accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The accepted types, the most natural first.
    pub kinds: &'static [Kind],
    /// Whether it accepts `value/mask`, both of one of these types; nets and text have no mask.
    pub masked: bool,
}

/// A name in matches, for documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldName {
    /// The name.
    pub name: &'static str,
    /// The field; none for words such as `tcp`.
    pub field: Option<Field>,
    /// The accepted values; `None` for words.
    pub wanted: Option<Wanted>,
}

/// The meaning of a name in a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    /// A word without a value.
    Word,
    /// A field; the bits that are combined with its value.
    Field(Field, u128),
    /// A name that stands for several fields, by protocol; one of them.
    Shared(Field),
}

/// Words that are not protocols: name, value and mask of `vlan_tci`.
const VLAN_WORDS: [(&str, u128, u128); 2] =
    [("untagged", 0, VLAN_PRESENT), ("tagged", VLAN_PRESENT, VLAN_PRESENT)];

pub(super) fn is_word(name: &str) -> bool {
    KEYWORDS.iter().any(|(word, ..)| *word == name) || VLAN_WORDS.iter().any(|(word, ..)| *word == name)
}

/// `found`, extended by the meaning of the word.
pub(super) fn with_word(found: Match, word: &str) -> Result<Match, MatchError> {
    if let Some((_, value, mask)) = VLAN_WORDS.iter().find(|(name, ..)| *name == word) {
        return found.with_masked(Field::VlanTci, *value, *mask);
    }
    match KEYWORDS.iter().find(|(name, ..)| *name == word) {
        Some((_, eth, None)) => found.with(Field::EthType, *eth),
        Some((_, eth, Some(proto))) => found.with(Field::EthType, *eth)?.with(Field::IpProto, *proto),
        None => Ok(found),
    }
}

/// The meaning of a name in a match.
pub(super) fn match_name(name: &str) -> Result<Name, TemplateError> {
    if is_word(name) {
        return Ok(Name::Word);
    }
    match name {
        // The id alone; the present bit is implied.
        "dl_vlan" => return Ok(Name::Field(Field::VlanVid, VLAN_PRESENT)),
        "dl_vlan_pcp" => return Ok(Name::Field(Field::VlanPcp, 0)),
        _ => {}
    }
    if let Some((_, field)) = SHARED_NAMES.iter().find(|(shared, _)| *shared == name) {
        return Ok(Name::Shared(*field));
    }
    field(name).map(|field| Name::Field(field, 0))
}

/// The field of this name.
fn field(name: &str) -> Result<Field, TemplateError> {
    Field::from_name(name).ok_or_else(|| unknown(name, field_names()))
}

/// The field of this name in an action, which has no protocol to decide between the fields of a shared name.
pub(super) fn action_field(name: &str) -> Result<Field, TemplateError> {
    let own = |known: &FieldName| known.field.is_some() && Field::from_name(known.name).is_some();
    Field::from_name(name).ok_or_else(|| match (name, match_name(name)) {
        ("dl_vlan", _) => only_in_matches(name, "write vlan_vid: 4096 + the id"),
        ("dl_vlan_pcp", _) => only_in_matches(name, "write vlan_pcp"),
        ("tp_src", _) => only_in_matches(name, "write tcp_src, udp_src or sctp_src"),
        ("tp_dst", _) => only_in_matches(name, "write tcp_dst, udp_dst or sctp_dst"),
        (_, Ok(_)) => only_in_matches(name, "ovs-fields(7) lists the field names"),
        (_, Err(_)) => unknown(name, field_names().filter(own)),
    })
}

fn only_in_matches(name: &str, remedy: &str) -> TemplateError {
    TemplateError::new(Problem::UnknownField, format!("`{name}` can only be used in a match"), remedy).name()
}

fn unknown(name: &str, known: impl Iterator<Item = FieldName>) -> TemplateError {
    let remedy = remedy(name, known.map(|known| known.name), "ovs-fields(7) lists the field names");
    TemplateError::new(Problem::UnknownField, format!("`{name}` is not a field"), remedy).name()
}

/// All names in matches, including words.
pub fn field_names() -> impl Iterator<Item = FieldName> {
    // Each name of each packet filter is looked up among them.
    static NAMES: LazyLock<Vec<FieldName>> = LazyLock::new(|| all_field_names().collect());
    NAMES.iter().copied()
}

fn all_field_names() -> impl Iterator<Item = FieldName> {
    let words = KEYWORDS.iter().map(|(word, ..)| *word).chain(VLAN_WORDS.iter().map(|(word, ..)| *word));
    let words = words.map(|name| FieldName { name, field: None, wanted: None });
    let of =
        |name, field| FieldName { name, field: Some(field), wanted: match_item(name, None).ok().flatten() };
    let shared = SHARED_NAMES.iter().map(move |(name, field)| of(name, *field));
    let vlan = [("dl_vlan", Field::VlanVid), ("dl_vlan_pcp", Field::VlanPcp)];
    let fields = Field::all().flat_map(move |field| {
        let info = field.info();
        let second =
            matches!(info.match_name, "dl_src" | "dl_dst" | "dl_type" | "nw_frag").then_some(info.match_name);
        let names = std::iter::once(info.name).chain(info.aliases.iter().copied());
        let unshared = names.filter(|name| SHARED_NAMES.iter().all(|(shared, _)| shared != name));
        unshared.chain(second).map(move |name| of(name, field))
    });
    words.chain(shared).chain(vlan.map(|(name, field)| of(name, field))).chain(fields)
}

/// The bits of a field that a literal names.
pub(super) fn subfield(field: Field, bits: Option<(u16, u16)>) -> Result<Subfield, TemplateError> {
    let Some((first, last)) = bits else { return Ok(Subfield::whole(field)) };
    let width = field.bits();
    let count = last.checked_sub(first).and_then(|n| n.checked_add(1));
    count.and_then(|count| Subfield::new(field, first, count).ok()).ok_or_else(|| {
        let which = if first == last { format!("bit {first}") } else { format!("bits {first}..{last}") };
        let message = format!("{field} has no {which}");
        TemplateError::new(
            Problem::Range,
            message,
            format!("its bits are 0..{}, the lowest first", width - 1),
        )
    })
}

/// The bits that a name and a range of bits stand for.
///
/// # Errors
/// The name is not that of one field, or the field has no such bits.
pub fn bits_named(name: &str, bits: Option<(u16, u16)>) -> Result<Subfield, TemplateError> {
    subfield(action_field(name)?, bits)
}

/// The types of values that a field, or some bits of one, can have: the field's natural type, and for registers
/// every type that fits.
pub fn kinds(of: Subfield) -> &'static [Kind] {
    let info = of.field().info();
    let whole = of == Subfield::whole(of.field());
    match info.format {
        _ if !whole && info.name.contains("reg") => match of.bits() {
            32 | 128 => &[Kind::Int, Kind::Ip],
            48 => &[Kind::Int, Kind::Mac],
            _ => &[Kind::Int],
        },
        _ if !whole => &[Kind::Int],
        Format::Ethernet => &[Kind::Mac],
        Format::Ipv4 | Format::Ipv6 => &[Kind::Ip, Kind::Net],
        Format::CtState | Format::TcpFlags | Format::TunFlags | Format::Frag => &[Kind::Int, Kind::Text],
        _ if info.name.starts_with("xreg") => &[Kind::Int, Kind::Mac],
        _ if info.name.contains("reg") => &[Kind::Int, Kind::Ip],
        _ => &[Kind::Int],
    }
}

fn wanted(of: Subfield) -> Wanted {
    Wanted { kinds: kinds(of), masked: of.field().info().maskable }
}

/// The values that a match accepts after this name: `None` for a word such as `tcp`.
///
/// # Errors
/// The name is unknown, or the bits are outside the field.
pub fn match_item(name: &str, bits: Option<(u16, u16)>) -> Result<Option<Wanted>, TemplateError> {
    let (field, joined) = match match_name(name)? {
        Name::Word if bits.is_some() => {
            let message = format!("`{name}` is not a field and has no bits");
            return Err(TemplateError::new(Problem::Argument, message, format!("write `{name}` alone")));
        }
        Name::Word => return Ok(None),
        Name::Field(field, joined) => (field, joined),
        Name::Shared(field) => (field, 0),
    };
    let of = subfield(field, bits)?;
    if bits.is_some() && of != Subfield::whole(field) && !field.info().maskable {
        let message = format!("{name} can only be matched as a whole, not by bits");
        return Err(TemplateError::new(Problem::Argument, message, format!("write `{name}: value`")));
    }
    let wanted = wanted(of);
    Ok(Some(Wanted { masked: wanted.masked && joined == 0, ..wanted }))
}

/// Whether an address in the field decides between IPv4 and IPv6 for the packet.
pub(super) fn takes_both_versions(field: Field) -> bool {
    field.for_address(IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED)) != field
}

/// A value as bits: the bits of the field, their value and, for a net, the mask.
pub(super) fn bits_of(to: Subfield, value: Value) -> Option<(Subfield, u128, Option<u128>)> {
    let whole = to == Subfield::whole(to.field());
    let redirected = |ip| if whole { Subfield::whole(to.field().for_address(ip)) } else { to };
    let ip_bits = |to: Subfield, ip| match ip {
        IpAddr::V4(ip) if to.bits() == 32 => Some(u128::from(ip.to_bits())),
        IpAddr::V6(ip) if to.bits() == 128 => Some(ip.to_bits()),
        _ => None,
    };
    let (to, bits, mask) = match value {
        Value::Int(n) => (to, u128::try_from(n).ok()?, None),
        Value::Mac(mac) => (to, mac.into(), None),
        Value::Ip(ip) => (redirected(ip), ip_bits(redirected(ip), ip)?, None),
        Value::Net(ip, len) => {
            let to = redirected(ip);
            let host_bits = to.bits().checked_sub(len.into())?;
            let all = u128::MAX >> (128 - to.bits());
            let mask = if len == 0 { 0 } else { all >> host_bits << host_bits };
            (to, ip_bits(to, ip)?, Some(mask))
        }
    };
    let max = if whole { to.field().max_value() } else { u128::MAX >> (128 - to.bits()) };
    (bits & !max == 0).then_some((to, bits, mask))
}

/// "300 does not fit `nw_ttl`, which has 8 bits", without the quotes of code.
pub(super) fn misfit(value: Value, name: &str, to: Subfield) -> String {
    let (field, width) = (to.field(), to.bits());
    let bits = if width == 1 { "bit" } else { "bits" };
    match value {
        Value::Int(n) if n >= 0 && (n as u128) < 1 << width.min(64) && to == Subfield::whole(field) => {
            format!("{value} does not fit {name}, whose valid bits are {:#x}", field.max_value())
        }
        Value::Ip(IpAddr::V4(_)) | Value::Net(IpAddr::V4(_), _) if width == 128 => {
            format!("{value} is an IPv4 address, and {name} takes IPv6")
        }
        Value::Ip(IpAddr::V6(_)) | Value::Net(IpAddr::V6(_), _) if width == 32 => {
            format!("{value} is an IPv6 address, and {name} takes IPv4")
        }
        _ => format!("{value} does not fit {name}, which has {width} {bits}"),
    }
}

/// The source text of a subfield.
pub(crate) fn written(to: Subfield) -> String {
    let field = to.field();
    match (to.start(), to.bits()) {
        _ if to == Subfield::whole(field) => field.to_string(),
        (first, 1) => format!("{field}[{first}]"),
        (first, bits) => format!("{field}[{first}..{}]", first + bits - 1),
    }
}
