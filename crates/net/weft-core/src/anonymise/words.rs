//! What the text of a program contains: its literals can be compared with values, so these keep them.

use std::collections::BTreeSet;

use ipnet::IpNet;
use nlog::Program;
use nlog::program::{BodyItem, Expr, HeadTerm, Term};
use nlog_data::{Type, Value};
use openflow_rs::MacAddr;

/// The literals of a program.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Texts, names of kinds and tables, and members of enumerations.
    pub(super) texts: BTreeSet<String>,
    /// Addresses, and prefixes.
    pub(super) nets: BTreeSet<IpNet>,
    pub(super) macs: BTreeSet<MacAddr>,
}

impl Words {
    /// Those of this program.
    pub(super) fn of(program: &Program) -> Words {
        let mut words = Words::default();
        for rule in &program.rules {
            for term in &rule.terms {
                match term {
                    HeadTerm::Value(expr) => words.expr(expr),
                    HeadTerm::Aggregate { arguments, .. } => words.exprs(arguments),
                }
            }
            rule.body.iter().for_each(|item| words.body(item));
        }
        program.constants.values().for_each(|value| words.value(value));
        program.functions.values().for_each(|body| words.expr(body));
        for (_, table) in program.schema.iter() {
            words.texts.insert(table.name.clone());
            table.columns.iter().for_each(|column| words.ty(&column.ty));
        }
        for field in program.objects.iter().flat_map(|kind| &kind.fields) {
            words.ty(&field.ty);
            field.default.iter().for_each(|value| words.value(value));
        }
        words
    }

    fn body(&mut self, item: &BodyItem) {
        match item {
            BodyItem::Atom { terms, .. } => {
                for term in terms {
                    if let Term::Constant(value) = term {
                        self.value(value);
                    }
                }
            }
            BodyItem::Let { expr, .. } | BodyItem::Filter(expr) => self.expr(expr),
            BodyItem::Generate { arguments, .. } => self.exprs(arguments),
        }
    }

    fn exprs(&mut self, exprs: &[Expr]) {
        for expr in exprs {
            self.expr(expr);
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Variable(_) => {}
            Expr::Constant(value) => self.value(value),
            Expr::Call { arguments, .. } => self.exprs(arguments),
            Expr::If { condition, then, otherwise } => {
                for part in [condition, then, otherwise] {
                    self.expr(part);
                }
            }
        }
    }

    fn value(&mut self, value: &Value) {
        match value {
            Value::String(text) => drop(self.texts.insert(text.to_string())),
            Value::Mac(mac) => drop(self.macs.insert(*mac)),
            Value::Ip(ip) => drop(self.nets.insert(IpNet::from(*ip))),
            Value::Net(net) => drop(self.nets.insert(*net)),
            Value::InterfaceAddress(address) => drop(self.nets.insert(address.net())),
            Value::Set(values) | Value::List(values) | Value::Record(values) => {
                values.iter().for_each(|value| self.value(value));
            }
            Value::None
            | Value::Bool(_)
            | Value::Int(_)
            | Value::Match(_)
            | Value::Actions(_)
            | Value::PacketFilter(_) => {}
        }
    }

    fn ty(&mut self, ty: &Type) {
        match ty.base() {
            Type::Set(of) | Type::List(of) | Type::Opt(of) => self.ty(of),
            Type::Record(of) => of.fields.iter().for_each(|(_, ty)| self.ty(ty)),
            Type::Enum(of) => self.texts.extend(of.members.iter().cloned()),
            _ => {}
        }
    }
}
