//! The shapes of matches and actions: what they have in common for all values.

use std::collections::BTreeMap;

use openflow_rs::{Actions, Field, Match, Subfield};

use crate::names::{Names, Reading, masked};
use crate::term::{Bits, MatchTerm, Piece, Token};

/// A match with its variable parts as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct MatchShape {
    /// Disjoint, in order of field and mask.
    parts: Vec<ShapePart>,
    /// Texts for further matches, of which nothing is known.
    rest: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ShapePart {
    field: Field,
    mask: u128,
    /// The values that the bits can have, one or several.
    values: Vec<ShapeValue>,
    /// Whether there are such matches without these bits, too.
    optional: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ShapeValue {
    Constant(u128),
    Open(String),
}

/// A list of actions with its variable parts as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ActionsShape(Vec<ActionShape>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum ActionShape {
    /// Texts that are constant and texts that are not, in turn.
    One(Vec<(bool, String)>),
    Any(String),
}

/// Which prefixes in a match a value that is not known may stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefixes {
    /// Only such as the rule has been seen to make.
    None,
    /// Those that have bits.
    WithBits,
    /// Also that without bits, which leaves no trace in the match.
    All,
}

/// The fields with addresses that flows match by prefix.
const HAS_PREFIXES: [Field; 7] = [
    Field::IpSrc,
    Field::IpDst,
    Field::Ipv6Src,
    Field::Ipv6Dst,
    Field::ArpSpa,
    Field::ArpTpa,
    Field::NdTarget,
];

impl MatchShape {
    /// The shape of a match; `text` gives the text of what is not known.
    pub(crate) fn new(of: &MatchTerm, text: &impl Fn(&[Token]) -> String) -> MatchShape {
        let part = |part: &crate::term::Part| {
            let value = |bits: &Bits| match bits {
                Bits::Constant(value) => Some(ShapeValue::Constant(*value)),
                Bits::Open(open) => Some(ShapeValue::Open(text(open))),
                Bits::OneOf(_) => None,
            };
            let mut values: Vec<ShapeValue> = part.bits.values().iter().filter_map(value).collect();
            values.sort();
            values.dedup();
            ShapePart { field: part.field, mask: part.mask, values, optional: part.optional }
        };
        let mut parts: Vec<ShapePart> = of.parts.iter().map(part).collect();
        parts.sort();
        let mut united: Vec<ShapePart> = Vec::new();
        for part in parts {
            match united.last_mut() {
                // Constant bits of one field, such as two marks.
                Some(ShapePart { field, mask, values, optional: false })
                    if *field == part.field && !part.optional =>
                {
                    if let ([ShapeValue::Constant(old)], [ShapeValue::Constant(new)]) =
                        (values.as_mut_slice(), part.values.as_slice())
                    {
                        *old |= new;
                        *mask |= part.mask;
                    } else {
                        united.push(part);
                    }
                }
                _ => united.push(part),
            }
        }
        let mut rest: Vec<String> = of.rest.iter().map(|rest| text(rest)).collect();
        rest.sort();
        rest.dedup();
        MatchShape { parts: united, rest }
    }

    /// Whether a match has this shape. Adds the numbers that stand where something is not known.
    pub(crate) fn covers(&self, of: &Match, prefixes: Prefixes, found: &mut Vec<(String, u128)>) -> bool {
        let there = |part: &&ShapePart| {
            !part.optional || of.get(part.field).is_some_and(|(_, mask)| mask & part.mask != 0)
        };
        let parts: Vec<&ShapePart> = self.parts.iter().filter(there).collect();
        // Of a prefix, some bits are known not to be there.
        let may_be_prefix = |field: Field| {
            let of_field = || parts.iter().filter(|part| part.field == field);
            let mut values = of_field().flat_map(|part| &part.values);
            let known = of_field().fold(0, |all, part| all | part.mask);
            HAS_PREFIXES.contains(&field)
                && known != field.max_value()
                && values.all(|value| matches!(value, ShapeValue::Open(_)))
        };
        let mut masks: BTreeMap<Field, u128> = BTreeMap::new();
        for part in &parts {
            *masks.entry(part.field).or_default() |= part.mask;
        }
        let same_fields = of.iter().all(|demand| match masks.get(&demand.field) {
            Some(mask) => {
                *mask == demand.mask
                    || (prefixes != Prefixes::None && may_be_prefix(demand.field))
                    || (!self.rest.is_empty() && mask & !demand.mask == 0)
            }
            None => !self.rest.is_empty(),
        });
        let same_values = parts.iter().all(|part| {
            let Some((value, _)) = of.get(part.field) else {
                return prefixes == Prefixes::All && may_be_prefix(part.field);
            };
            part.values.iter().any(|own| match own {
                ShapeValue::Constant(own) => value & part.mask == *own,
                ShapeValue::Open(_) => true,
            })
        });
        for part in &parts {
            // A wide value is spread over several fields.
            let alone = parts.iter().filter(|other| other.values == part.values).count() == 1;
            if let ([ShapeValue::Open(text)], true, Some((value, _))) =
                (&*part.values, alone, of.get(part.field))
            {
                found.push((text.clone(), (value & part.mask) >> part.mask.trailing_zeros()));
            }
        }
        same_fields && same_values
    }

    /// Whether both match the same fields, with the same constants.
    pub(crate) fn same(&self, other: &MatchShape) -> bool {
        let same = |own: &ShapePart, other: &ShapePart| {
            let open =
                |part: &ShapePart| part.values.iter().any(|value| matches!(value, ShapeValue::Open(_)));
            own.is_beside(other) && (own.values == other.values || open(own) && open(other))
        };
        self.rest == other.rest
            && self.parts.len() == other.parts.len()
            && self.parts.iter().zip(&other.parts).all(|(own, other)| same(own, other))
    }

    /// Whether this shape is a special case of another: with constants where that has values that are not known.
    pub(crate) fn specialises(&self, other: &MatchShape) -> bool {
        let open = |part: &ShapePart| part.values.iter().any(|value| matches!(value, ShapeValue::Open(_)));
        let special = |own: &ShapePart, other: &ShapePart| {
            own.is_beside(other) && (open(other) || !open(own) && own.values == other.values)
        };
        let parts = || self.parts.iter().zip(&other.parts);
        self.rest == other.rest
            && self.parts.len() == other.parts.len()
            && parts().all(|(own, other)| special(own, other))
            && parts().any(|(own, other)| open(other) && !open(own))
    }

    /// The match as rules write it, with names for fields.
    pub(crate) fn text(&self, names: &Names) -> String {
        self.text_in(&names.alone())
    }

    /// The match as rules write it, with what its numbers stand for.
    pub(crate) fn text_in(&self, reading: &Reading<'_>) -> String {
        let names = reading.names;
        let mut items = Items { left: self.parts.clone(), found: Vec::new() };
        for named in &names.fields {
            items.take(&named.name, named.field, reading);
        }
        items.protocols();
        items.tags();
        for part in std::mem::take(&mut items.left) {
            let name = name_of(names, part.field, part.mask);
            let values = part
                .values
                .iter()
                .map(|value| value.text(reading, part.field, part.mask))
                .collect::<Vec<_>>();
            items
                .found
                .push((part.field, in_brackets(part.optional, format!("{name}={}", values.join("|")))));
        }
        items.found.sort_by_key(|(field, _)| *field);
        let texts = items.found.into_iter().map(|(_, text)| text).chain(self.rest.iter().cloned());
        texts.collect::<Vec<_>>().join(", ")
    }
}

impl ShapePart {
    /// Whether both are about the same bits, and both are optional or none is.
    fn is_beside(&self, other: &ShapePart) -> bool {
        (self.field, self.mask, self.optional) == (other.field, other.mask, other.optional)
    }

    /// The values, if there are always such bits.
    fn required(&self) -> &[ShapeValue] {
        if self.optional { &[] } else { &self.values }
    }
}

impl ShapeValue {
    fn text(&self, reading: &Reading<'_>, field: Field, mask: u128) -> String {
        match self {
            ShapeValue::Open(text) => format!("<{text}>"),
            ShapeValue::Constant(value) if mask == field.max_value() => reading.value(field, *value),
            ShapeValue::Constant(value) if is_register(field) && mask >> mask.trailing_zeros() & 1 == 1 => {
                format!("{:#x}", value >> mask.trailing_zeros())
            }
            ShapeValue::Constant(value) => masked(field, *value, mask),
        }
    }
}

/// What is optional stands in brackets.
fn in_brackets(optional: bool, text: String) -> String {
    if optional { format!("[{text}]") } else { text }
}

/// The name of a field of which these bits are open or constant.
fn name_of(names: &Names, field: Field, mask: u128) -> String {
    let start = mask.trailing_zeros();
    let ones = (mask >> start).trailing_ones();
    let part = Subfield::new(field, start as u16, ones as u16).ok();
    match part.filter(|part| part.mask() == mask && is_register(field)) {
        Some(part) => names.field(part),
        None => names.field(Subfield::whole(field)),
    }
}

fn is_register(field: Field) -> bool {
    field.name().trim_start_matches('x').starts_with("reg")
}

/// Where the words for protocols stand: after registers, before addresses.
const WORDS: Field = Field::EthSrc;

/// The parts of a match on their way to text.
struct Items {
    left: Vec<ShapePart>,
    /// Each with the field that decides its place.
    found: Vec<(Field, String)>,
}

impl Items {
    /// Takes these bits, if they are matched as a whole.
    fn take(&mut self, name: &str, bits: Subfield, reading: &Reading<'_>) {
        // The fields in which a match keeps them.
        let Ok(whole) = Match::any().with_masked(bits.field(), bits.mask(), bits.mask()) else { return };
        let mut places = Vec::new();
        for demand in whole.iter() {
            let fits = |part: &ShapePart| match part.values.as_slice() {
                [ShapeValue::Constant(_)] => {
                    part.field == demand.field && part.mask & demand.mask == demand.mask
                }
                _ => part.field == demand.field && part.mask == demand.mask,
            };
            match self.left.iter().position(fits) {
                Some(place) => places.push((place, demand.mask)),
                None => return,
            }
        }
        let Some(&(first, _)) = places.first() else { return };
        let (field, optional) = (self.left[first].field, self.left[first].optional);
        if places.iter().any(|(place, _)| self.left[*place].optional != optional) {
            return;
        }
        let open = |place: usize| !matches!(self.left[place].values.as_slice(), [ShapeValue::Constant(_)]);
        let value = if places.iter().all(|(place, _)| open(*place)) {
            let values = &self.left[first].values;
            if places.iter().any(|(place, _)| self.left[*place].values != *values) {
                return;
            }
            let texts = values.iter().map(|value| value.text(reading, field, self.left[first].mask));
            texts.collect::<Vec<_>>().join("|")
        } else if places.iter().any(|(place, _)| open(*place)) {
            return;
        } else {
            // Registers are 32 bits each, the highest first.
            let value = places.iter().fold(0, |value: u128, (place, mask)| {
                let [ShapeValue::Constant(own)] = self.left[*place].values.as_slice() else { return value };
                value.checked_shl(32).unwrap_or(0) | (own & mask)
            });
            let value = if places.len() == 1 { value >> bits.start() } else { value };
            reading.number(name, value)
        };
        for (place, mask) in &places {
            let part = &mut self.left[*place];
            part.mask &= !mask;
            if let [ShapeValue::Constant(own)] = part.values.as_mut_slice() {
                *own &= !mask;
            }
        }
        self.left.retain(|part| part.mask != 0);
        self.found.push((field, in_brackets(optional, format!("{name}={value}"))));
    }

    /// Takes the Ethernet type and the protocol, where one word stands for them.
    fn protocols(&mut self) {
        let part = |field: Field| self.left.iter().find(|part| part.field == field);
        let optional = part(Field::EthType).is_some_and(|part| part.optional);
        let constants = |field: Field| -> Option<Vec<u128>> {
            let part = part(field).filter(|part| part.optional == optional)?;
            let constant = |value: &ShapeValue| match value {
                ShapeValue::Constant(value) => Some(*value),
                ShapeValue::Open(_) => None,
            };
            part.values.iter().map(constant).collect()
        };
        let Some(kinds) = constants(Field::EthType) else { return };
        let words = |proto: Option<u128>| -> Option<String> {
            let word = |kind: &u128| {
                let eth = Match::any().with(Field::EthType, *kind).ok()?;
                let of = proto.map_or(Ok(eth.clone()), |proto| eth.with(Field::IpProto, proto)).ok()?;
                Some(of.to_string()).filter(|word| !word.contains('='))
            };
            Some(kinds.iter().map(word).collect::<Option<Vec<String>>>()?.join("|"))
        };
        let proto = match constants(Field::IpProto).as_deref() {
            Some([proto]) if !optional => words(Some(*proto)),
            _ => None,
        };
        let (word, gone): (_, &[Field]) = match (proto, words(None)) {
            (Some(both), _) => (both, &[Field::EthType, Field::IpProto]),
            (None, Some(word)) => (word, &[Field::EthType]),
            (None, None) => return,
        };
        self.left.retain(|part| !gone.contains(&part.field));
        self.found.push((WORDS, in_brackets(optional, word)));
    }

    /// Takes the parts of a VLAN tag.
    fn tags(&mut self) {
        const PRESENT: u128 = 0x1000;
        let own: Vec<ShapePart> =
            self.left.iter().filter(|part| part.field == Field::VlanTci).cloned().collect();
        let present = |value| {
            own.iter().any(|part| part.mask == PRESENT && *part.required() == [ShapeValue::Constant(value)])
        };
        let text = match own.as_slice() {
            [_] if present(0) => "untagged".to_owned(),
            [_] if present(PRESENT) => "tagged".to_owned(),
            [a, b] if present(PRESENT) => {
                let id = if a.mask == PRESENT { b } else { a };
                match id.required() {
                    [ShapeValue::Open(text)] if id.mask == 0xfff => format!("dl_vlan=<{text}>"),
                    _ => return,
                }
            }
            _ => return,
        };
        self.left.retain(|part| part.field != Field::VlanTci);
        self.found.push((Field::VlanTci, text));
    }
}

impl ActionsShape {
    /// The shape of a list; `text` gives the text of what is not known.
    pub(crate) fn new(pieces: &[Piece], text: &impl Fn(&[Token]) -> String) -> ActionsShape {
        let shape = |piece: &Piece| match piece {
            Piece::Any(any) => ActionShape::Any(text(any)),
            Piece::One(one) => ActionShape::One(
                one.iter()
                    .map(|token| match token {
                        Token::Text(constant) => (true, constant.clone()),
                        Token::Hole(hole) => (false, text(hole)),
                        symbol @ Token::Symbol(_) => (false, text(std::slice::from_ref(symbol))),
                    })
                    .collect(),
            ),
        };
        ActionsShape(pieces.iter().map(shape).collect())
    }

    /// Whether a list has this shape, with numbers that agree with those in the match.
    pub(crate) fn covers(&self, names: &Names, of: &Actions, of_match: &[(String, u128)]) -> bool {
        let texts: Vec<String> = of.0.iter().map(|action| names.action(action)).collect();
        let mut found = Vec::new();
        if !covers_list(&self.0, &texts, &mut found) {
            return false;
        }
        let mut numbers = of_match.to_vec();
        numbers.extend(found.into_iter().filter_map(|(text, value)| Some((text, number(&value)?))));
        agree(names, &numbers)
    }

    /// Whether both lists have the same constants, and values that are not known in the same places.
    pub(crate) fn same(&self, other: &ActionsShape) -> bool {
        let same = |own: &ActionShape, other: &ActionShape| match (own, other) {
            (ActionShape::One(own), ActionShape::One(other)) => {
                own.len() == other.len()
                    && own.iter().zip(other).all(|((constant, own), (of_other, other))| {
                        constant == of_other
                            && if *constant { own == other } else { offset(own) == offset(other) }
                    })
            }
            (ActionShape::Any(_), ActionShape::Any(_)) => true,
            _ => false,
        };
        self.0.len() == other.0.len() && self.0.iter().zip(&other.0).all(|(own, other)| same(own, other))
    }

    /// The actions as rules write them; `drop` for none.
    pub(crate) fn text(&self) -> String {
        let action = |shape: &ActionShape| match shape {
            ActionShape::Any(text) => format!("<{text}>"),
            ActionShape::One(texts) => texts
                .iter()
                .map(|(constant, text)| if *constant { text.clone() } else { format!("<{text}>") })
                .collect(),
        };
        let texts: Vec<String> = self.0.iter().map(action).collect();
        if texts.is_empty() { "drop".to_owned() } else { texts.join(", ") }
    }
}

/// The constant in a sum of it and a value: groups of different kinds differ in it.
fn offset(text: &str) -> Option<&str> {
    text.split_once(" + ").map(|(constant, _)| constant)
}

/// A number of an action's text.
fn number(text: &str) -> Option<u128> {
    match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Whether one text stands for one number everywhere, and sums with a constant are such.
fn agree(names: &Names, numbers: &[(String, u128)]) -> bool {
    let value_of = |text: &str| numbers.iter().find(|(known, _)| known == text).map(|(_, value)| *value);
    numbers.iter().all(|(text, value)| {
        let sum = text.split_once(" + ").and_then(|(constant, rest)| {
            let constant = number(constant).or_else(|| names.constant_named(constant))?;
            Some(constant + value_of(rest)?)
        });
        value_of(text) == Some(*value) && sum.is_none_or(|sum| sum == *value)
    })
}

/// What stands in a text where a value belongs.
type Found = Vec<(String, String)>;

fn covers_list(shapes: &[ActionShape], texts: &[String], found: &mut Found) -> bool {
    match (shapes.split_first(), texts.split_first()) {
        (None, None) => true,
        (Some((ActionShape::Any(_), rest)), _) => {
            (0..=texts.len()).any(|skipped| covers_list(rest, &texts[skipped..], found))
        }
        (Some((ActionShape::One(tokens), rest)), Some((text, others))) => {
            covers_text(tokens, text, found) && covers_list(rest, others, found)
        }
        _ => false,
    }
}

/// Whether the text consists of the constant texts, with something between them where a value belongs.
fn covers_text(tokens: &[(bool, String)], text: &str, found: &mut Found) -> bool {
    match tokens.split_first() {
        None => text.is_empty(),
        Some(((true, constant), rest)) => {
            text.strip_prefix(constant.as_str()).is_some_and(|text| covers_text(rest, text, found))
        }
        Some(((false, name), rest)) => {
            let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
            ends.into_iter().any(|end| {
                let before = found.len();
                found.push((name.clone(), text[..end].to_owned()));
                let covers = covers_text(rest, &text[end..], found);
                if !covers {
                    found.truncate(before);
                }
                covers
            })
        }
    }
}
