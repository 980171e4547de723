//! The names that the rules declare for numbers: fields, stages, priorities, constants.

use std::collections::BTreeMap;

use nlog::Program;
use nlog::program::{NamedField, Priority, Stage};
use nlog_data::Value;
use openflow_rs::action::{Learn, LearnSpec, SetField};
use openflow_rs::{Action, Actions, Field, Match, PortNo, Subfield};

use crate::flows::one_line;
use crate::probe;
use crate::shape::MatchShape;
use crate::term::Token;

/// Numbers below this one mean too many things to have one name.
const FIRST_NAMED: i64 = 256;

/// The names of a program, with which matches and actions read as in its rules.
#[derive(Debug, Clone, Default)]
pub struct Names {
    pub(crate) fields: Vec<NamedField>,
    pub(crate) stages: Vec<Stage>,
    pub(crate) priorities: Vec<Priority>,
    /// Constants that are the only ones with their value.
    constants: BTreeMap<i64, Option<String>>,
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
        }
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
        MatchShape::new(&probe::constant_match(of), &|_: &[Token]| String::new()).text(self)
    }

    /// A list of actions as rules write it, with the names of stages and fields; `drop` for none.
    pub fn actions_text(&self, of: &Actions) -> String {
        let texts: Vec<String> = of.0.iter().map(|action| self.action(action)).collect();
        if texts.is_empty() { "drop".to_owned() } else { texts.join(", ") }
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
            Ok(bits) if contiguous => format!("set({}, {})", self.field(bits), self.number(value >> start)),
            _ => format!("set({}, {value:#x}/{mask:#x})", self.field(Subfield::whole(field))),
        }
    }

    fn number(&self, value: u128) -> String {
        let value = i64::try_from(value).map(Value::Int);
        value.map_or_else(|_| "too large".to_owned(), |value| self.constant(&value))
    }

    /// A value of a whole field.
    pub(crate) fn value(&self, field: Field, value: u128) -> String {
        use openflow_rs::field::Format;
        match field.info().format {
            Format::Hex | Format::Decimal | Format::Port => match i64::try_from(value) {
                Ok(value) => self.constant(&Value::Int(value)),
                Err(_) => format!("{value:#x}"),
            },
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
            LearnSpec::Match { to, value } => format!("match({}, {})", self.field(*to), self.number(*value)),
            LearnSpec::Move { from, to } => format!("move({}, {})", self.field(*from), self.field(*to)),
            LearnSpec::Set { to, value } => format!("set({}, {})", self.field(*to), self.number(*value)),
            LearnSpec::Output { from } => format!("output_field({})", self.field(*from)),
        }));
        format!("learn({})", items.join(", "))
    }
}

/// A constant value of a field, as Open vSwitch prints it in a match.
pub(crate) fn masked(field: Field, value: u128, mask: u128) -> String {
    let text = Match::any().with_masked(field, value, mask).map(|of| of.to_string()).unwrap_or_default();
    match text.split_once('=') {
        Some((_, value)) => value.to_owned(),
        None => format!("{value:#x}"),
    }
}
