//! The names that the rules declare for numbers: fields, stages, priorities, constants, and what a number in a field stands for.

use std::collections::BTreeMap;

use nlog::Program;
use nlog::program::{Expr, HeadTerm, NamedField, Priority, Rule, Stage};
use nlog_data::Value;
use openflow_rs::action::{Learn, LearnSpec, SetField};
use openflow_rs::{Action, Actions, Field, Match, PortNo, Subfield};

use crate::flows::one_line;
use crate::probe;
use crate::shape::MatchShape;
use crate::term::Token;
use crate::text::constant;

/// Numbers below this one mean too many things to have one name.
const FIRST_NAMED: i64 = 256;

/// The table of rules/interface/explanations.nlog whose rows say what a number in a field stands for.
const STANDS_FOR: &str = "stands_for";

/// The names of a program, with which matches and actions read as in its rules.
#[derive(Debug, Clone, Default)]
pub struct Names {
    pub(crate) fields: Vec<NamedField>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) priorities: Vec<Priority>,
    /// Constants that are the only ones with their value. Rules write them outside fields, as in ids of groups.
    constants: BTreeMap<i64, Option<String>>,
    /// By field, what the facts of [`STANDS_FOR`] say of its numbers.
    values: BTreeMap<String, BTreeMap<u128, String>>,
}

/// What a number in a field stands for in some network, by the field's name in rules; none if it is just a number.
pub type Meaning<'a> = &'a dyn Fn(&str, u128) -> Option<String>;

/// Names, together with what numbers stand for in a network.
#[derive(Clone, Copy)]
pub struct Reading<'a> {
    pub(crate) names: &'a Names,
    meaning: Meaning<'a>,
}

impl Names {
    /// The names of a program.
    pub fn of(program: &Program) -> Names {
        let mut constants: BTreeMap<i64, Option<String>> = BTreeMap::new();
        // What reserves numbers of one type is no name for them elsewhere.
        let is_reserved = |name: &String| program.reservations.iter().any(|reserved| reserved.name == *name);
        for (name, value) in program.constants.iter().filter(|(name, _)| !is_reserved(name)) {
            if let Value::Int(number @ FIRST_NAMED..) = value {
                let known = constants.contains_key(number);
                constants.insert(*number, Some(name.clone()).filter(|_| !known));
            }
        }
        // What stands for a number somewhere else is no name for it here.
        let named = program.stages.iter().map(|stage| &stage.name);
        for name in named.chain(program.priorities.iter().map(|priority| &priority.name)) {
            constants.retain(|_, constant| constant.as_ref() != Some(name));
        }
        Names {
            fields: program.fields.clone(),
            stages: program.stages.clone(),
            priorities: program.priorities.clone(),
            constants,
            values: values(program),
        }
    }

    /// These names where numbers mean this.
    pub fn reading<'a>(&'a self, meaning: Meaning<'a>) -> Reading<'a> {
        Reading { names: self, meaning }
    }

    /// These names where numbers mean nothing beyond the rules.
    pub(crate) fn alone(&self) -> Reading<'_> {
        self.reading(&|_, _| None)
    }

    pub(crate) fn constant_name(&self, value: &Value) -> Option<&str> {
        let Value::Int(number) = value else { return None };
        self.constants.get(number)?.as_deref()
    }

    /// The value of a constant that has a name of its own.
    pub(crate) fn constant_named(&self, name: &str) -> Option<u128> {
        let (value, _) = self.constants.iter().find(|(_, own)| own.as_deref() == Some(name))?;
        u128::try_from(*value).ok()
    }

    /// A stage by its name, or its number if it has none.
    pub fn stage(&self, number: u8) -> String {
        self.stage_name(number).map_or_else(|| number.to_string(), ToOwned::to_owned)
    }

    /// The name of a stage, if it has one.
    pub fn stage_name(&self, number: u8) -> Option<&str> {
        self.stages.iter().find(|stage| stage.number == number).map(|stage| &*stage.name)
    }

    /// The name of a priority of a stage, if it has one.
    pub fn priority_name(&self, stage: u8, priority: u16) -> Option<&str> {
        self.priority(stage, priority).map(|named| &*named.name)
    }

    /// The sentence of a stage. Empty if it has none.
    pub fn stage_doc(&self, number: u8) -> String {
        let stage = self.stages.iter().find(|stage| stage.number == number);
        one_line(stage.and_then(|stage| stage.docs.as_deref()))
    }

    /// The sentence of the declared priority that this one belongs to. Empty if it has none.
    pub fn priority_doc(&self, stage: u8, priority: u16) -> String {
        one_line(self.priority(stage, priority).and_then(|named| named.docs.as_deref()))
    }

    /// A match as rules write it, with the names of fields. Empty if it matches every packet.
    pub fn match_text(&self, of: &Match) -> String {
        self.alone().match_text(of)
    }

    /// A list of actions as rules write it, with the names of stages and fields; `drop` for none.
    pub fn actions_text(&self, of: &Actions) -> String {
        self.alone().actions_text(of)
    }

    /// An action as rules write it; as Open vSwitch writes it where that says as much.
    pub fn action(&self, action: &Action) -> String {
        self.alone().action(action)
    }

    /// The range of priorities that the rules compute in a stage, if they declare one alone.
    pub(crate) fn only_range(&self, stage: u8) -> Option<&Priority> {
        let name = self.stage_name(stage)?;
        let mut ranges =
            self.priorities.iter().filter(|named| named.stage == name && named.least < named.greatest);
        ranges.next().filter(|_| ranges.next().is_none())
    }

    /// The declared priority that this one belongs to.
    pub(crate) fn priority(&self, stage: u8, priority: u16) -> Option<&Priority> {
        let name = self.stage_name(stage)?;
        let mut own = self.priorities.iter().filter(|named| named.stage == name);
        own.find(|named| (named.least..=named.greatest).contains(&priority))
    }

    /// Bits of a field as rules write them.
    pub(crate) fn field(&self, bits: Subfield) -> String {
        let of_field = || self.fields.iter().filter(|named| named.field.field() == bits.field());
        if let Some(named) = of_field().find(|named| named.field == bits) {
            return named.name.clone();
        }
        let whole = Subfield::whole(bits.field());
        let named = of_field().find(|named| named.field == whole);
        let name = named.map_or_else(|| bits.field().name(), |named| &*named.name);
        match (bits == whole, bits.start(), bits.bits()) {
            (true, ..) => name.to_owned(),
            (_, start, 1) => format!("{name}[{start}]"),
            (_, start, count) => format!("{name}[{start}..{}]", start + count - 1),
        }
    }
}

impl Reading<'_> {
    /// A match as rules write it, with the names of fields. Empty if it matches every packet.
    pub fn match_text(&self, of: &Match) -> String {
        MatchShape::new(&probe::constant_match(of), &|_: &[Token]| String::new()).text_in(self)
    }

    /// A list of actions as rules write it, with the names of stages and fields; `drop` for none.
    pub fn actions_text(&self, of: &Actions) -> String {
        let texts: Vec<String> = of.0.iter().map(|action| self.action(action)).collect();
        if texts.is_empty() { "drop".to_owned() } else { texts.join(", ") }
    }

    /// Bits of a field as rules write them.
    fn field(&self, bits: Subfield) -> String {
        self.names.field(bits)
    }

    fn stage(&self, number: u8) -> String {
        self.names.stage(number)
    }

    /// A number in the field that rules call this: what it stands for, if anything does.
    pub(crate) fn number(&self, field: &str, value: u128) -> String {
        let own = self.names.values.get(field).and_then(|values| values.get(&value)).cloned();
        own.or_else(|| (self.meaning)(field, value)).unwrap_or_else(|| plain(value))
    }

    /// An action as rules write it; as Open vSwitch writes it where that says as much.
    pub fn action(&self, action: &Action) -> String {
        match action {
            Action::Resubmit(resubmit) if resubmit.in_port == PortNo::IN_PORT && !resubmit.ct => {
                format!("resubmit({})", self.stage(resubmit.table))
            }
            Action::GotoTable(to) => format!("goto_table({})", self.stage(to.table)),
            Action::SetField(set) => self.set(*set),
            Action::MoveBits(of) => {
                format!("move({}, {})", self.field(of.source()), self.field(of.destination()))
            }
            Action::OutputReg(of) => format!("output_field({})", self.field(of.source())),
            Action::Output(of) => format!("output({})", of.port.0),
            Action::Group(group) => format!("group({})", group.id),
            Action::PushVlan(push) => format!("push_vlan({:#x})", push.eth_type),
            Action::Learn(learn) => self.learn(learn),
            Action::CloneActions(of) => {
                let actions: Vec<String> = of.actions.0.iter().map(|action| self.action(action)).collect();
                format!("clone({})", actions.join(", "))
            }
            other => other.to_string(),
        }
    }

    fn set(&self, set: SetField) -> String {
        let (field, value, mask) = (set.field(), set.value(), set.mask());
        let start = mask.trailing_zeros();
        let ones = (mask >> start).trailing_ones();
        let contiguous = mask >> start >> ones.min(127) == 0 || ones == 128;
        let bits = Subfield::new(field, start as u16, ones as u16);
        // Rules write one name for the addresses of tunnels of both versions.
        let field = match field {
            Field::TunIpv6Src => Field::TunSrc,
            Field::TunIpv6Dst => Field::TunDst,
            other => other,
        };
        if mask == set.field().max_value() {
            let value = self.value(set.field(), value);
            return format!("set({}, {value})", self.field(Subfield::whole(field)));
        }
        match bits {
            Ok(bits) if contiguous => {
                format!("set({}, {})", self.field(bits), self.number(&self.field(bits), value >> start))
            }
            _ => format!("set({}, {value:#x}/{mask:#x})", self.field(Subfield::whole(field))),
        }
    }

    /// A value of a whole field.
    pub(crate) fn value(&self, field: Field, value: u128) -> String {
        use openflow_rs::field::Format;
        match field.info().format {
            Format::Hex | Format::Decimal | Format::Port => {
                self.number(&self.field(Subfield::whole(field)), value)
            }
            _ => masked(field, value, field.max_value()),
        }
    }

    fn learn(&self, learn: &Learn) -> String {
        let mut items =
            vec![format!("table: {}", self.stage(learn.table)), format!("priority: {}", learn.priority)];
        let numbers = [
            ("idle_timeout", u64::from(learn.idle_timeout)),
            ("hard_timeout", u64::from(learn.hard_timeout)),
            ("fin_idle_timeout", u64::from(learn.fin_idle_timeout)),
            ("fin_hard_timeout", u64::from(learn.fin_hard_timeout)),
            ("cookie", learn.cookie),
            ("limit", u64::from(learn.limit)),
        ];
        items.extend(
            numbers.iter().filter(|(_, value)| *value != 0).map(|(name, value)| format!("{name}: {value}")),
        );
        items.extend(learn.result().map(|bits| format!("result: {}", self.field(bits))));
        let flags = [("send_flow_rem", learn.send_flow_rem), ("delete_learned", learn.delete_learned)];
        items.extend(flags.iter().filter(|(_, given)| *given).map(|(name, _)| (*name).to_owned()));
        items.extend(learn.specs.iter().map(|spec| match spec {
            LearnSpec::Copy { from, to } if from == to => format!("copy({})", self.field(*from)),
            LearnSpec::Copy { from, to } => format!("copy({}, {})", self.field(*from), self.field(*to)),
            LearnSpec::Match { to, value } => self.spec("match", *to, *value),
            LearnSpec::Move { from, to } => format!("move({}, {})", self.field(*from), self.field(*to)),
            LearnSpec::Set { to, value } => self.spec("set", *to, *value),
            LearnSpec::Output { from } => format!("output_field({})", self.field(*from)),
        }));
        format!("learn({})", items.join(", "))
    }

    fn spec(&self, what: &str, to: Subfield, value: u128) -> String {
        let field = self.field(to);
        format!("{what}({field}, {})", self.number(&field, value))
    }
}

/// What the facts of a program say of the numbers in fields.
fn values(program: &Program) -> BTreeMap<String, BTreeMap<u128, String>> {
    let mut values: BTreeMap<String, BTreeMap<u128, String>> = BTreeMap::new();
    let Some(table) = program.schema.find(STANDS_FOR) else { return values };
    let facts = program.rules.iter().filter(|rule| rule.head == table && rule.body.is_empty());
    for (field, number, name) in facts.filter_map(fact) {
        values.entry(field).or_default().insert(number, name);
    }
    values
}

/// A row of [`STANDS_FOR`] that a rule without a body says.
fn fact(rule: &Rule) -> Option<(String, u128, String)> {
    let constant = |term: &HeadTerm| match term {
        HeadTerm::Value(Expr::Constant(value)) => Some(value.clone()),
        _ => None,
    };
    let values: Vec<Value> = rule.terms.iter().map(constant).collect::<Option<_>>()?;
    match &values[..] {
        [Value::String(field), Value::Int(number), Value::String(role), Value::String(id)] => {
            Some((field.to_string(), u128::try_from(*number).ok()?, format!("{role}{id}")))
        }
        _ => None,
    }
}

/// A number that stands for nothing.
fn plain(value: u128) -> String {
    i64::try_from(value).map_or_else(|_| format!("{value:#x}"), |value| constant(&Value::Int(value)))
}

/// A constant value of a field, as Open vSwitch prints it in a match.
pub(crate) fn masked(field: Field, value: u128, mask: u128) -> String {
    let text = Match::any().with_masked(field, value, mask).map(|of| of.to_string()).unwrap_or_default();
    match text.split_once('=') {
        Some((_, value)) => value.to_owned(),
        None => format!("{value:#x}"),
    }
}
