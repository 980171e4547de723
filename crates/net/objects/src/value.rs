//! Reads values by their types and records every fault.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use nlog_data::quotation::{cut, quote, quote_text};
use nlog_data::{Constrained, Enumeration, InterfaceAddress, Meaning, Record, Type, Value};
use openflow_rs::{MacAddr, nearest};
use packet_filter::PacketFilter;

use crate::field::{FAULTS_MAX, Fault, Path, Step, check_line, check_name, form, list, text};
use crate::print::{Unnamed, pair, text_of};
use crate::tree::{Mapping, Tree};
use crate::{FaultCode, Kinds};

/// The type of packet filters, by the name that programs have for it.
const PACKET_FILTER: &str = "packet_filter";

/// Reads the values of an object.
///
/// A read that finds a fault records it, goes on to find more and returns `None`; the object is then discarded.
pub(crate) struct Reader<'a> {
    pub(crate) faults: &'a mut Vec<Fault>,
    /// Texts that occur in many objects: each is kept once.
    pub(crate) texts: &'a mut HashSet<Arc<str>>,
    /// The path of the value that is read.
    pub(crate) path: Vec<Step<'a>>,
    /// Whether the object was accepted before: its texts are as they are.
    pub(crate) is_stored: bool,
    /// The kinds, which know the words of other systems.
    pub(crate) kinds: &'a Kinds,
}

/// The end of a fault about a word of another system: a question, unless what is meant takes a sentence.
fn hint(meant: &str) -> String {
    if meant.contains(' ') { meant.to_owned() } else { format!("did you mean `{meant}`?") }
}

impl<'a> Reader<'a> {
    /// Records a fault of the value that is read.
    pub(crate) fn fault<T>(&mut self, code: FaultCode, message: impl Into<String>) -> Option<T> {
        if !self.is_full() {
            // A name in the path may be as long as the whole input.
            let path = cut(&Path(&self.path).to_string()).into_owned();
            self.faults.push(Fault { code, path, message: message.into() });
        }
        None
    }

    /// Whether the object has the most faults that are reported.
    fn is_full(&self) -> bool {
        self.faults.len() >= FAULTS_MAX
    }

    /// Records that the value is none of its type.
    fn bad<T>(&mut self, message: impl Into<String>) -> Option<T> {
        self.fault(FaultCode::BadValue, message)
    }

    fn result<T>(&mut self, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.bad::<T>(message)).ok()
    }

    /// Reads a part of the value.
    pub(crate) fn part<T>(&mut self, step: Step<'a>, read: impl FnOnce(&mut Self) -> T) -> T {
        self.path.push(step);
        let part = read(self);
        self.path.pop();
        part
    }

    /// Reads a value of a type.
    pub(crate) fn value(&mut self, ty: &'a Type, json: &'a Tree) -> Option<Value> {
        match ty {
            Type::Bool => match json {
                Tree::Bool(flag) => Some(Value::Bool(*flag)),
                json => self.bad(format!("must be `true` or `false`, not {}", form(json))),
            },
            Type::Int => self.integer(ty, json),
            Type::String => {
                let text = self.text(json)?;
                self.result(if self.is_stored { Ok(()) } else { check_line(text) })?;
                Some(text.into())
            }
            Type::Mac => self.parsed(json, mac),
            Type::Ip => self.parsed(json, ip),
            Type::Net => self.parsed(json, net),
            Type::InterfaceAddress => self.parsed(json, interface_address),
            Type::Match => self.parsed(json, |text| openflow(&Type::Match, "an OpenFlow match", text)),
            Type::Actions => self.parsed(json, |text| openflow(&Type::Actions, "OpenFlow actions", text)),
            Type::PacketFilter => self.packet_filter(json),
            Type::Enum(of) => self.member(of, json),
            Type::Opt(_) if json.is_null() => Some(Value::None),
            Type::Opt(of) => self.value(of, json),
            Type::List(of) => self.elements(of, json).map(Value::list),
            Type::Set(of) => self.elements(of, json).map(Value::set),
            Type::Record(of) => self.record(of, json),
            Type::Constrained(of) => match &of.meaning {
                Meaning::Value => self.constrained(of, ty, json),
                Meaning::Reference(_) => {
                    let name = self.text(json)?;
                    self.result(check_name(name))?;
                    Some(Value::String(self.shared(name)))
                }
                Meaning::Mapping => self.mapping(of, json),
                Meaning::Choice => self.choice(ty, json),
            },
        }
    }

    fn text(&mut self, json: &'a Tree) -> Option<&'a str> {
        self.result(text(json))
    }

    /// The text, kept once for all objects of the batch.
    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let shared: Arc<str> = text.into();
        self.texts.insert(shared.clone());
        shared
    }

    fn parsed(&mut self, json: &'a Tree, parse: impl FnOnce(&str) -> Result<Value, String>) -> Option<Value> {
        let text = self.text(json)?;
        self.result(parse(text))
    }

    /// Reads an integer in the range of its type.
    fn integer(&mut self, ty: &Type, json: &Tree) -> Option<Value> {
        let wanted = match range(ty) {
            Some((least, greatest)) => format!("a number from {least} to {greatest}"),
            None => "a whole number".to_owned(),
        };
        let Tree::Number(number) = json else {
            return self.bad(format!("must be {wanted}, not {}", form(json)));
        };
        let (least, greatest) = range(ty).unwrap_or((i64::MIN, i64::MAX));
        // `1500.0` is a whole number, in JSON Schema as well. 2^63 is the least number beyond the type.
        let whole = |number: &f64| number.fract() == 0.0 && number.abs() < 9_223_372_036_854_775_808.0;
        let exact = number.as_i64().or_else(|| number.as_f64().filter(whole).map(|number| number as i64));
        match exact {
            Some(number) if (least..=greatest).contains(&number) => Some(Value::Int(number)),
            None if number.is_u64() => {
                self.bad(format!("{number} is not a number from {least} to {greatest}"))
            }
            _ => self.bad(format!("{number} is not {wanted}")),
        }
    }

    fn member(&mut self, of: &Enumeration, json: &'a Tree) -> Option<Value> {
        let text = self.text(json)?;
        if of.members.iter().any(|member| member == text) {
            return Some(Value::String(self.shared(text)));
        }
        let names: Vec<&str> = of.members.iter().map(String::as_str).collect();
        let (quoted, valid) = (quote_text(text), list(&names));
        if let Some(meant) = self.kinds.meant(&of.name, text) {
            return self.bad(format!("{quoted} is not one of {valid}; {}", hint(meant)));
        }
        match nearest(text, names) {
            Some(near) => self.bad(format!("{quoted} is not one of {valid}; did you mean `{near}`?")),
            None => self.bad(format!("{quoted} is not one of {valid}")),
        }
    }

    /// Reads a value of a constrained type.
    fn constrained(&mut self, of: &'a Constrained, ty: &'a Type, json: &'a Tree) -> Option<Value> {
        if ty.base() == &Type::Int {
            // The message names the range, so the type is not read by its base.
            let value = self.integer(ty, json)?;
            return self.constraints(ty, &value).map(|()| value);
        }
        let value = self.value(&of.base, json)?;
        self.constraint(of, &value).map(|()| value)
    }

    /// Checks a value of the base type against all constraints of a type, the innermost first.
    pub(crate) fn constraints(&mut self, ty: &Type, value: &Value) -> Option<()> {
        let Type::Constrained(of) = ty else { return Some(()) };
        self.constraints(&of.base, value)?;
        self.constraint(of, value)
    }

    fn constraint(&mut self, of: &Constrained, value: &Value) -> Option<()> {
        match of.refusal(value) {
            Some(reason) => self.bad(format!("{} {reason}", shown(value))),
            None => Some(()),
        }
    }

    /// Reads the elements of a list or a set.
    fn elements(&mut self, of: &'a Type, json: &'a Tree) -> Option<Vec<Value>> {
        let Tree::List(items) = json else {
            return self.bad(format!("must be a list, not {}", form(json)));
        };
        let mut values = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            if self.is_full() {
                return None;
            }
            values.extend(self.part(Step::Element(index), |reader| reader.value(of, item)));
        }
        (values.len() == items.len()).then_some(values)
    }

    fn record(&mut self, of: &'a Record, json: &'a Tree) -> Option<Value> {
        let Tree::Mapping(map) = json else {
            return self.bad(format!("must be a mapping of fields, not {}", form(json)));
        };
        let mut values = Vec::with_capacity(of.fields.len());
        for (name, ty) in &of.fields {
            let read = |reader: &mut Self| match map.get(name) {
                Some(json) if !json.is_null() => reader.value(ty, json),
                _ => match absent(ty) {
                    Some(value) => Some(value),
                    None => reader.fault(FaultCode::MissingField, "is missing"),
                },
            };
            values.extend(self.part(Step::Member(name), read));
        }
        let names: Vec<&str> = of.fields.iter().map(|(name, _)| name.as_str()).collect();
        self.unknown(map, &of.name, &names, |_| false);
        (values.len() == of.fields.len()).then(|| Value::record(values))
    }

    /// Records the members of a mapping of fields that are none of these, which messages list, nor known otherwise.
    pub(crate) fn unknown(
        &mut self,
        map: &'a Mapping,
        of: &str,
        names: &[&str],
        known: impl Fn(&str) -> bool,
    ) {
        for name in map.keys().filter(|name| !names.contains(name) && !known(name)) {
            if self.is_full() {
                return;
            }
            let meant = self.kinds.meant(of, name).map(hint);
            let message = match (meant, nearest(name, names.iter().copied())) {
                (Some(meant), _) => format!("unknown field; {meant}"),
                (None, Some(near)) => format!("unknown field; did you mean `{near}`?"),
                (None, None) => format!("unknown field; valid fields are {}", list(names)),
            };
            self.part(Step::Member(name), |reader| reader.fault::<()>(FaultCode::UnknownField, message));
        }
    }

    /// Reads a mapping of header fields.
    fn packet_filter(&mut self, json: &'a Tree) -> Option<Value> {
        let Tree::Mapping(map) = json else {
            return self.bad(format!("must be a mapping of header fields, not {}", form(json)));
        };
        let names: Vec<&str> = packet_filter::field_names().collect();
        let is_refused = |name: &str| packet_filter::refused_names().any(|refused| refused == name);
        let mut texts = Vec::with_capacity(map.len());
        let faults = self.faults.len();
        // A field without a value is absent.
        for (name, item) in map.iter().filter(|(_, item)| !item.is_null()) {
            let read = |reader: &mut Self| {
                let text = reader.result(number_or_text(item))?;
                let is_known = names.contains(&name) || is_refused(name);
                (!is_known || reader.result(packet_filter::check(name, &text)).is_some()).then_some(text)
            };
            texts.extend(self.part(Step::Member(name), read).map(|text| (name, text)));
        }
        self.unknown(map, PACKET_FILTER, &names, is_refused);
        if self.faults.len() > faults {
            return None;
        }
        let items = texts.iter().map(|(name, text)| (*name, text.as_str()));
        match PacketFilter::new(items) {
            Ok(filter) => Some(filter.into()),
            Err(faults) => {
                for fault in faults {
                    let name = map.keys().find(|name| *name == fault.field).unwrap_or_default();
                    self.part(Step::Member(name), |reader| reader.bad::<()>(fault.message));
                }
                None
            }
        }
    }

    /// Reads a mapping as a set of pairs.
    fn mapping(&mut self, of: &'a Constrained, json: &'a Tree) -> Option<Value> {
        let Tree::Mapping(map) = json else {
            return self.bad(format!("must be a mapping, not {}", form(json)));
        };
        let Some((key_type, value_type)) = pair(of) else {
            return self.bad("is a mapping of a type that no document can have");
        };
        let mut keys = HashSet::new();
        let mut pairs = Vec::with_capacity(map.len());
        for (name, item) in map.iter() {
            let key = self.key(key_type, name);
            let value = self.part(Step::Member(name), |reader| reader.value(value_type, item));
            if let Some(key) = key.clone()
                && !keys.insert(key)
            {
                self.bad::<()>(format!("{} is given twice", quote_text(name)));
            } else if let Some((key, value)) = key.zip(value) {
                pairs.push(Value::record([key, value]));
            }
        }
        (pairs.len() == map.len()).then(|| Value::set(pairs))
    }

    /// Reads a choice: a mapping with one of the alternatives, or one that needs no name without it.
    fn choice(&mut self, ty: &'a Type, json: &'a Tree) -> Option<Value> {
        let Some(of) = ty.alternatives() else {
            return self.bad("is a choice of a type that no document can have");
        };
        let unnamed = match json {
            Tree::List(_) => Unnamed::List.among(of),
            Tree::Text(_) => Unnamed::Word.among(of),
            _ => None,
        };
        let (at, value) = match (json, unnamed) {
            (_, Some(at)) => (at, self.value(&of.fields.get(at)?.1, json)),
            (Tree::Mapping(map), _) => self.alternative(of, map)?,
            (json, _) => return self.bad(format!("must be {}, not {}", ways(of), form(json))),
        };
        let mut values = vec![Value::None; of.fields.len()];
        *values.get_mut(at)? = value?;
        Some(Value::record(values))
    }

    /// Reads the one alternative that a mapping names: its place, and its value, if it has no fault.
    fn alternative(&mut self, of: &'a Record, map: &'a Mapping) -> Option<(usize, Option<Value>)> {
        let names: Vec<&str> = of.fields.iter().map(|(name, _)| name.as_str()).collect();
        self.unknown(map, &of.name, &names, |_| false);
        let is_known = map.keys().all(|name| names.contains(&name));
        // A field without a value is absent.
        let given: Vec<(usize, &'a String, &'a Type, &'a Tree)> = (of.fields.iter().enumerate())
            .filter_map(|(at, (name, ty))| Some((at, name, ty, map.get(name)?)))
            .filter(|(.., json)| !json.is_null())
            .collect();
        match given.as_slice() {
            [(at, name, ty, json)] => {
                let value = self.part(Step::Member(name), |reader| reader.value(ty, json));
                Some((*at, value.filter(|_| is_known)))
            }
            // The unknown member is probably the one that is meant.
            [] if !is_known => None,
            [] => self.bad(format!("must be one of {}; it has none", list(&names))),
            several => {
                let given: Vec<&str> = several.iter().map(|(_, name, ..)| name.as_str()).collect();
                self.bad(format!("must be one of {}; it has {}", list(&names), list(&given)))
            }
        }
    }

    /// Reads the key of a mapping: the text of a value.
    fn key(&mut self, ty: &'a Type, text: &str) -> Option<Value> {
        let json = match ty.base() {
            Type::Int => text
                .parse()
                .map_or_else(|_| Tree::Text(text.into()), |number: i64| Tree::Number(number.into())),
            Type::Bool => text.parse().map_or_else(|_| Tree::Text(text.into()), Tree::Bool),
            _ => Tree::Text(text.into()),
        };
        // The faults of a key are those of the whole mapping.
        let (path, is_stored, kinds) = (self.path.clone(), self.is_stored, self.kinds);
        let mut reader = Reader { faults: self.faults, texts: self.texts, path, is_stored, kinds };
        reader.value(ty, &json)
    }
}

/// The key of a mapping as canonical documents write it; `None` if it is no key of this type.
pub(crate) fn canonical_key(kinds: &Kinds, ty: &Type, key: &str) -> Option<String> {
    let (faults, texts) = (&mut Vec::new(), &mut HashSet::new());
    let mut reader = Reader { faults, texts, path: Vec::new(), is_stored: true, kinds };
    reader.key(ty, key).map(|value| text_of(&value))
}

/// The value of an absent field of a record, if its type has one.
pub(crate) fn absent(ty: &Type) -> Option<Value> {
    let value = match (ty.base(), ty.alternatives()) {
        (Type::Opt(_), _) => Value::None,
        (Type::List(_), _) => Value::list([]),
        (Type::Set(_), _) => Value::set([]),
        (_, Some(of)) => empty_list(of)?,
        _ => return None,
    };
    ty.violation(&value).is_none().then_some(value)
}

/// The choice whose alternative is an empty list.
fn empty_list(of: &Record) -> Option<Value> {
    let at = Unnamed::List.among(of)?;
    let Type::Opt(list) = of.fields.get(at)?.1.base() else { return None };
    let mut values = vec![Value::None; of.fields.len()];
    *values.get_mut(at)? = absent(list)?;
    Some(Value::record(values))
}

/// The ways to write a choice: without a name first.
fn ways(of: &Record) -> String {
    let mut ways: Vec<String> = Vec::new();
    if Unnamed::List.among(of).is_some() {
        ways.push("a list".to_owned());
    }
    if let Some((_, ty)) = Unnamed::Word.among(of).and_then(|at| of.fields.get(at))
        && let Type::Opt(word) = ty.base()
        && let Type::Enum(members) = word.base()
    {
        ways.extend(members.members.iter().map(|member| format!("`{member}`")));
    }
    let named: Vec<&str> =
        of.fields.iter().filter(|(_, ty)| Unnamed::of(ty).is_none()).map(|(name, _)| name.as_str()).collect();
    if !named.is_empty() {
        let names: Vec<&str> = of.fields.iter().map(|(name, _)| name.as_str()).collect();
        ways.push(format!("a mapping with one of {}", list(&names)));
    }
    ways.join(" or ")
}

/// The range of an integer type, if it has one.
pub(crate) fn range(ty: &Type) -> Option<(i64, i64)> {
    let Type::Constrained(of) = ty else { return None };
    let own = of.constraint().and_then(|constraint| constraint.range);
    match (own, range(&of.base)) {
        (Some((least, greatest)), Some((low, high))) => Some((least.max(low), greatest.min(high))),
        (own, base) => own.or(base),
    }
}

/// A value in a message: texts are quoted.
fn shown(value: &Value) -> String {
    match value {
        Value::Mac(_) | Value::Ip(_) | Value::Net(_) | Value::InterfaceAddress(_) => text_of(value),
        value => quote(value),
    }
}

/// A text, or a whole number as text.
fn number_or_text(json: &Tree) -> Result<String, String> {
    // The greatest number that JSON texts and `f64` agree on.
    const MOST: f64 = 9_007_199_254_740_992.0;
    match json {
        Tree::Text(text) => Ok(text.to_string()),
        Tree::Number(number) => match number.as_f64() {
            Some(whole) if number.is_f64() && whole.fract() == 0.0 && whole.abs() < MOST => {
                Ok((whole as i64).to_string())
            }
            _ if number.is_f64() => Err(format!("{number} is not a whole number")),
            _ => Ok(number.to_string()),
        },
        json => Err(format!("must be a number or text, not {}", form(json))),
    }
}

fn mac(text: &str) -> Result<Value, String> {
    text.parse::<MacAddr>()
        .map(Value::Mac)
        .map_err(|_| format!("{} is not a MAC address; write it as \"02:00:00:00:00:01\"", quote_text(text)))
}

fn ip(text: &str) -> Result<Value, String> {
    text.parse::<IpAddr>().map(Value::Ip).map_err(|_| {
        let prefix = if text.contains('/') { " (a prefix is not allowed here)" } else { "" };
        format!("{} is not an IP address{prefix}; write it as \"10.0.0.1\" or \"fd00::1\"", quote_text(text))
    })
}

/// Reads a prefix. A plain address is a prefix of full length.
fn net(text: &str) -> Result<Value, String> {
    let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
    let net = net.map_err(|_| {
        format!("{} is not a prefix; write it as \"10.0.0.0/24\" or \"fd00::/64\"", quote_text(text))
    })?;
    if net.trunc() == net {
        Ok(Value::Net(net))
    } else {
        Err(format!("{} has host bits; write it as \"{}\"", quote_text(text), net.trunc()))
    }
}

fn interface_address(text: &str) -> Result<Value, String> {
    let address = text.parse::<InterfaceAddress>().map(Value::InterfaceAddress);
    address.map_err(|error| format!("{} is not the address of an interface: {error}", quote_text(text)))
}

fn openflow(ty: &Type, noun: &str, text: &str) -> Result<Value, String> {
    ty.parse_text(text).map_err(|mismatch| {
        let why = mismatch.why.map(|why| format!(": {why}")).unwrap_or_default();
        format!("{} is not {noun}{why}", quote_text(text))
    })
}
