//! The lint `bare-field`.

use openflow_rs::{Subfield, literal};

use crate::check::declarations::quoted;
use crate::check::resolve::Resolver;
use crate::diagnostic::{Code, Report};
use crate::syntax::ast::Span;

impl Resolver<'_, '_> {
    /// Reports a field of Open vSwitch that has bits with a name. Tests say what a switch gets, so they may.
    pub(in crate::check) fn bare_field(&mut self, name: &str, bits: Option<(u16, u16)>, span: Span) {
        let fields = &self.scope.declarations.fields;
        if self.in_test || fields.is_empty() {
            return;
        }
        let Ok(of) = literal::bits_named(name, bits) else { return };
        let named: Vec<_> = fields.overlapping(of).collect();
        let Some((first, whole)) = named.first() else { return };
        let names = quoted(named.iter().map(|(name, _)| name.name.as_str()));
        let help = match named.len() {
            1 if *whole == of => format!("write `{}`", first.name),
            1 if contains(*whole, of) => format!("write `{}`", part(&first.name, *whole, of)),
            _ => format!("write {names}, and declare fields for the other bits that this rule needs"),
        };
        let message = format!("`{}` is written without its name", of.written());
        let report = Report::new(Code::BareField, span, message, help);
        self.push(named.iter().fold(report, |report, (name, of)| {
            report.label(name.span, format!("`{}` is {}", name.name, of.written()))
        }));
    }
}

fn contains(whole: Subfield, part: Subfield) -> bool {
    whole.field() == part.field() && whole.mask() & part.mask() == part.mask()
}

/// `name[first..last]`: these bits of the field with the name.
fn part(name: &str, whole: Subfield, of: Subfield) -> String {
    let first = of.start() - whole.start();
    match of.bits() {
        1 => format!("{name}[{first}]"),
        bits => format!("{name}[{first}..{}]", first + bits - 1),
    }
}
