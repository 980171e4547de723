//! Matches with holes.

use std::net::IpAddr;

use super::actions::{Operand, certain, operands};
use super::field::{self, Name, bits_of, match_name, misfit, takes_both_versions};
use super::{FillError, Kind, MatchItem, Problem, TemplateError, Term, Value};
use crate::field::VLAN_PRESENT;
use crate::protocol::{ETH_TYPE_IP, ETH_TYPE_IPV6};
use crate::{Field, Match, MatchError, Prerequisite, Subfield};

/// A match with holes, checked; see [`matches()`].
#[derive(Clone, Debug)]
pub struct MatchTemplate {
    /// The constant part.
    base: Match,
    holes: Vec<Item>,
    /// Whether values can make the match meaningless: a later fragment has no ports.
    validated: bool,
}

/// A field and its value.
#[derive(Clone, Debug)]
struct Item {
    place: usize,
    to: Subfield,
    /// Bits joined with the value: the present bit of a VLAN id.
    joined: u128,
    value: Operand,
    mask: Option<Operand>,
}

/// The reason why a value cannot be added to a match.
enum Rejection {
    /// No packet can match the literal.
    Never(MatchError),
    /// The field cannot have the value.
    Refused(MatchError),
    /// The value does not fit.
    Misfit(String),
}

/// Checks a match and builds its constant part.
///
/// # Errors
/// All errors in it. A match that no packet satisfies is an error only if this holds for all values.
pub fn matches(items: &[MatchItem]) -> Result<MatchTemplate, Vec<TemplateError>> {
    let mut builder = Builder { base: Match::any(), holes: Vec::new(), used: Vec::new(), errors: Vec::new() };
    builder.add_words(items);
    let mut fields = builder.names(items);
    // Items that decide the meaning of shared names come first.
    fields.sort_by_key(|(place, name)| (rank(*name, &items[*place]), *place));
    for (place, name) in fields {
        builder.item(place, name, &items[place]);
    }
    builder.check_prerequisites(items);
    if !builder.errors.is_empty() {
        builder.errors.sort_by(|a, b| a.path.cmp(&b.path));
        return Err(builder.errors);
    }
    let doubtful = |item: &Item| matches!(item.to.field(), Field::IpFrag | Field::Icmpv6Code);
    let validated = builder.holes.iter().any(doubtful);
    Ok(MatchTemplate { base: builder.base, holes: builder.holes, validated })
}

/// The order in which items are added: constants before holes, names that protocols decide after both.
fn rank(name: Name, item: &MatchItem) -> u8 {
    let hole = item.term.as_ref().is_some_and(has_hole);
    match name {
        Name::Shared(Field::IpProto) => 2,
        Name::Shared(_) => 3,
        _ => u8::from(hole),
    }
}

fn has_hole(term: &Term) -> bool {
    match term {
        Term::Hole(..) => true,
        Term::Masked(value, mask) => has_hole(value) || has_hole(mask),
        _ => false,
    }
}

impl MatchTemplate {
    /// The match with `values` in its holes; none if no packet can match.
    ///
    /// # Errors
    /// A value does not fit its field. The rest of the error concerns callers: a hole without a value, or with one of
    /// another type than the hole was made with.
    pub fn fill(&self, values: &[Value]) -> Result<Option<Match>, FillError> {
        let mut found = self.base.with_room(self.holes.len());
        for item in &self.holes {
            let fill_error = |message| FillError { path: vec![item.place], message };
            let value = item.value.value(values).map_err(fill_error)?;
            let mask = item.mask.map(|mask| mask.value(values)).transpose().map_err(fill_error)?;
            found = match item.add(found, value, mask) {
                Ok(found) => found,
                Err(Rejection::Never(_)) => return Ok(None),
                Err(Rejection::Refused(error)) => return Err(fill_error(error.to_string())),
                Err(Rejection::Misfit(message)) => return Err(fill_error(message)),
            };
        }
        Ok((!self.validated || found.validate().is_ok()).then_some(found))
    }

    /// Whether the match has no holes.
    pub fn is_constant(&self) -> bool {
        self.holes.is_empty()
    }
}

impl Item {
    /// Adds the item with these values to a match.
    fn add(&self, found: Match, value: Value, mask: Option<Value>) -> Result<Match, Rejection> {
        let misfit = |value| Rejection::Misfit(misfit(value, &field::written(self.to), self.to));
        let (to, bits, net) = bits_of(self.to, value).ok_or_else(|| misfit(value))?;
        let mask = match mask {
            None => net,
            Some(mask) => {
                let fits = bits_of(self.to, mask).filter(|(of, ..)| *of == to);
                Some(fits.ok_or_else(|| misfit(mask))?.1)
            }
        };
        // A VLAN id has 12 bits, although its field has more.
        if self.joined != 0 && bits & !0xfff != 0 {
            return Err(Rejection::Misfit(format!("{value} does not fit dl_vlan, which has 12 bits")));
        }
        let present = mask.unwrap_or(VLAN_PRESENT) & VLAN_PRESENT != 0;
        let whole = to == Subfield::whole(Field::VlanVid);
        if whole && present && bits != 0 && (bits | self.joined) & VLAN_PRESENT == 0 {
            // A packet without a tag has no id.
            return Err(Rejection::Misfit(format!(
                "{value} is not a valid vlan_vid (4096 + VLAN id); use dl_vlan for the VLAN id"
            )));
        }
        let found = match version(self.to, value) {
            Some(eth) => join(found.with(Field::EthType, eth))?,
            None => found,
        };
        join(with_bits(found, to, bits | self.joined, mask))
    }
}

/// Converts a result; a contradiction is not an error of the value.
fn join(result: Result<Match, MatchError>) -> Result<Match, Rejection> {
    result.map_err(|error| match error {
        MatchError::Conflict { .. } => Rejection::Never(error),
        error => Rejection::Refused(error),
    })
}

fn with_bits(found: Match, to: Subfield, bits: u128, mask: Option<u128>) -> Result<Match, MatchError> {
    let (field, bits, mask) = super::arguments::placed(to, bits, mask);
    found.with_masked(field, bits, mask)
}

/// The Ethernet type that an address implies. A tunnel's addresses imply none, because they belong to another packet.
fn version(to: Subfield, value: Value) -> Option<u128> {
    let said = takes_both_versions(to.field()) && !matches!(to.field(), Field::TunSrc | Field::TunDst);
    match value {
        Value::Ip(IpAddr::V4(_)) | Value::Net(IpAddr::V4(_), _) if said => Some(ETH_TYPE_IP),
        Value::Ip(IpAddr::V6(_)) | Value::Net(IpAddr::V6(_), _) if said => Some(ETH_TYPE_IPV6),
        _ => None,
    }
}

struct Builder {
    base: Match,
    holes: Vec<Item>,
    used: Vec<Used>,
    errors: Vec<TemplateError>,
}

/// A field that an item demands.
#[derive(Clone, Copy)]
struct Used {
    field: Field,
    /// The bits demanded, as far as they are known.
    bits: u128,
    /// The item.
    place: usize,
    /// Whether its address decides the version of IP.
    says_version: bool,
}

impl Builder {
    fn refuse(&mut self, place: usize, error: TemplateError) {
        self.errors.push(error.at(place));
    }

    fn contradiction(&mut self, place: usize, error: &MatchError) {
        let remedy = "remove one of the two";
        self.refuse(place, TemplateError::new(Problem::Contradiction, error.to_string(), remedy));
    }

    /// Adds the meaning of words such as `tcp`.
    fn add_words(&mut self, items: &[MatchItem]) {
        for (place, item) in items.iter().enumerate().filter(|(_, item)| field::is_word(&item.name)) {
            let name = &item.name;
            if item.term.is_some() || item.bits.is_some() {
                let message = format!("`{name}` takes no value");
                let error = TemplateError::new(Problem::Argument, message, format!("write `{name}` alone"));
                self.refuse(place, error);
                continue;
            }
            if items[..place].iter().any(|other| other.name == *name) {
                let error = TemplateError::new(
                    Problem::DuplicateField,
                    format!("`{name}` is given twice"),
                    "remove one",
                );
                self.refuse(place, error.name());
                continue;
            }
            match field::with_word(self.base.clone(), name) {
                Ok(base) => self.base = base,
                Err(error) => self.contradiction(place, &error),
            }
        }
    }

    /// Resolves the names of the other items.
    fn names(&mut self, items: &[MatchItem]) -> Vec<(usize, Name)> {
        let mut fields = Vec::new();
        for (place, item) in items.iter().enumerate() {
            match match_name(&item.name) {
                Ok(Name::Word) => {}
                Ok(name) => fields.push((place, name)),
                Err(error) => self.refuse(place, error),
            }
        }
        fields
    }

    fn item(&mut self, place: usize, name: Name, item: &MatchItem) {
        if let Err(error) = self.try_item(place, name, item) {
            self.refuse(place, error);
        }
    }

    fn try_item(&mut self, place: usize, name: Name, item: &MatchItem) -> Result<(), TemplateError> {
        let text = &item.name;
        let wanted = field::match_item(text, item.bits)?;
        let (Some(term), Some(wanted)) = (&item.term, wanted) else {
            let message = format!("`{text}` needs a value");
            return Err(
                TemplateError::new(Problem::Argument, message, format!("write `{text}: value`")).name()
            );
        };
        let (field, joined) = match name {
            Name::Field(field, joined) => (field, joined),
            Name::Shared(_) | Name::Word => (self.resolve(text)?, 0),
        };
        let to = field::subfield(field, item.bits)?;
        if let Term::Text(written) = term
            && wanted.kinds.contains(&Kind::Text)
        {
            return self.flags(place, field, written);
        }
        let (value, mask) = operands(term, wanted, &format!("`{text}`")).map_err(|error| error.at(0))?;
        self.check_unused(to, mask)?;
        let says_version =
            matches!(value.kind(), Kind::Ip | Kind::Net) && version(to, value_sample(value)).is_some();
        self.used.push(Used { field, bits: covered(to, mask), place, says_version });
        let new = Item { place, to, joined, value, mask };
        match (value, mask) {
            (Operand::Constant(value), None) => self.constant(&new, value, None),
            (Operand::Constant(value), Some(Operand::Constant(mask))) => {
                self.constant(&new, value, Some(mask))
            }
            _ => {
                self.holes.push(new);
                Ok(())
            }
        }
    }

    /// The field that a shared name means here.
    fn resolve(&self, name: &str) -> Result<Field, TemplateError> {
        // An address of unknown version is treated as IPv4: IPv6 would lead to the same fields.
        let assumed = self.assumptions().into_iter().next().unwrap_or_default();
        assumed.resolve(name).map_err(|error| {
            let remedy = "add `tcp`, `udp` or `sctp` (IPv4), or `tcp6`, `udp6` or `sctp6`";
            TemplateError::new(Problem::Prerequisite, error.to_string(), remedy).name()
        })
    }

    /// Flags as text: `+trk-new`.
    fn flags(&mut self, place: usize, field: Field, text: &str) -> Result<(), TemplateError> {
        let (value, mask) = field.read(text).map_err(|error| {
            TemplateError::new(Problem::Range, error.to_string(), "see ovs-fields(7)").at(0)
        })?;
        self.check_unused(Subfield::whole(field), None)?;
        self.used.push(Used { field, bits: mask, place, says_version: false });
        self.take(join(self.base.clone().with_masked(field, value, mask)))
    }

    fn constant(&mut self, item: &Item, value: Value, mask: Option<Value>) -> Result<(), TemplateError> {
        self.take(item.add(self.base.clone(), value, mask))
    }

    /// Replaces the constant part by one with a further item.
    fn take(&mut self, base: Result<Match, Rejection>) -> Result<(), TemplateError> {
        self.base = base.map_err(explain)?;
        Ok(())
    }

    /// A field may occur twice only with different bits.
    fn check_unused(&self, to: Subfield, mask: Option<Operand>) -> Result<(), TemplateError> {
        let bits = covered(to, mask);
        if self.used.iter().any(|used| used.field == to.field() && used.bits & bits != 0) {
            let message = format!("{} is given twice", to.field());
            let remedy = "remove one, or give both a value and a mask";
            return Err(TemplateError::new(Problem::DuplicateField, message, remedy).name());
        }
        Ok(())
    }

    /// The part of the match that is certain, once for each IP version that the values allow.
    fn assumptions(&self) -> Vec<Match> {
        let open = self.holes.iter().any(|item| {
            matches!(item.value, Operand::Hole(_, Kind::Ip | Kind::Net))
                && version(item.to, UNKNOWN).is_some()
        });
        if !open || self.base.exactly(Field::EthType).is_some() {
            return vec![self.base.clone()];
        }
        let with = |eth| self.base.clone().with(Field::EthType, eth).unwrap_or_default();
        vec![with(ETH_TYPE_IP), with(ETH_TYPE_IPV6)]
    }

    fn is_used(&self, field: Field) -> bool {
        self.used.iter().any(|used| used.field == field)
    }

    fn check_prerequisites(&mut self, items: &[MatchItem]) {
        // After another error, the item at fault may be the one that seems to be missing.
        if !self.errors.is_empty() {
            return;
        }
        let assumptions = self.assumptions();
        for Used { field, place, says_version, .. } in self.used.clone() {
            let needs = match field.info().prerequisite {
                // `vlan_pcp` itself requires a tag.
                Prerequisite::Vlan => continue,
                Prerequisite::Ipv4 | Prerequisite::Ipv6 if says_version => continue,
                needs => needs,
            };
            let (needs, remedy) = if !assumptions.iter().all(|said| said.meets(needs)) {
                (needs.to_string(), remedy(needs))
            } else if matches!(field, Field::CtTpSrc | Field::CtTpDst) && !self.is_used(Field::CtNwProto) {
                // The switch accepts it, but does not show it in a dump.
                ("ct_nw_proto".to_owned(), "add `ct_nw_proto: 6` (TCP) or `ct_nw_proto: 17` (UDP)")
            } else {
                continue;
            };
            let message = format!("`{}` requires {needs}", items[place].name);
            self.refuse(place, TemplateError::new(Problem::Prerequisite, message, remedy).name());
        }
    }
}

/// An address whose version does not matter.
const UNKNOWN: Value = Value::Ip(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED));

fn value_sample(operand: Operand) -> Value {
    match operand {
        Operand::Constant(value) => value,
        Operand::Hole(..) => UNKNOWN,
    }
}

/// The bits of the field that an item demands, as far as they are known.
fn covered(to: Subfield, mask: Option<Operand>) -> u128 {
    match mask {
        Some(Operand::Constant(mask)) => match bits_of(to, mask) {
            Some((of, bits, _)) => bits << of.start(),
            None => to.mask(),
        },
        _ => to.mask(),
    }
}

fn explain(rejection: Rejection) -> TemplateError {
    match rejection {
        Rejection::Never(error) => {
            TemplateError::new(Problem::Contradiction, error.to_string(), "remove one of the two")
        }
        Rejection::Refused(error) if certain(&error) => {
            TemplateError::new(Problem::Argument, error.to_string(), "see ovs-fields(7)").at(0)
        }
        Rejection::Refused(error) => {
            TemplateError::new(Problem::Range, error.to_string(), "give a value that fits").at(0)
        }
        Rejection::Misfit(message) => {
            TemplateError::new(Problem::Range, message, "give a value that fits").at(0)
        }
    }
}

/// The item to add to a match that lacks a prerequisite.
fn remedy(needs: Prerequisite) -> &'static str {
    match needs {
        Prerequisite::None => "add nothing",
        Prerequisite::Vlan => "add `tagged`",
        Prerequisite::Ipv4 => "add `ip`",
        Prerequisite::Ipv6 => "add `ipv6`",
        Prerequisite::Ip => "add `ip` (IPv4) or `ipv6`",
        Prerequisite::Arp => "add `arp` or `rarp`",
        Prerequisite::Mpls => "add `mpls`",
        Prerequisite::Tcp => "add `tcp` (IPv4) or `tcp6`; later fragments have no ports",
        Prerequisite::Udp => "add `udp` (IPv4) or `udp6`; later fragments have no ports",
        Prerequisite::Sctp => "add `sctp` (IPv4) or `sctp6`; later fragments have no ports",
        Prerequisite::Icmp => "add `icmp`",
        Prerequisite::Icmp6 => "add `icmp6`",
        Prerequisite::Nd => {
            "add `icmp6, icmp_type: 135` (solicitation) or `icmp6, icmp_type: 136` (advertisement)"
        }
        Prerequisite::NdSolicit => "add `icmp6, icmp_type: 135`",
        Prerequisite::NdAdvert => "add `icmp6, icmp_type: 136`",
        Prerequisite::Ct => "add `ct_state: \"+trk-inv\"` or another state of valid connections",
        Prerequisite::CtAddress => {
            "add `ip` or `ipv6`, and `ct_state: \"+trk-inv\"` or another state of valid connections"
        }
    }
}
