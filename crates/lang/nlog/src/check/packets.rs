//! Packets that tests send.

use nlog_data::{Type, Value};
use openflow_rs::{Field, Match};

use super::resolve::{Resolver, Scope};
use crate::diagnostic::{Code, Report};
use crate::program::Packet;
use crate::syntax::ast::{self, Expr, ExprKind, Span};

/// Resolves and computes the fields of a packet. `None` after a report.
pub(super) fn check(test: &ast::Test, packet: &ast::Packet, scope: &mut Scope<'_>) -> Option<Packet> {
    let fields = Resolver::of_test(scope, &test.name.name).packet_fields(&packet.frame);
    let mut faults = fields.iter().filter_map(|fields| fault(&packet.frame, fields)).collect::<Vec<_>>();
    for (number, port) in packet.at.iter().enumerate() {
        if packet.at[..number].iter().any(|earlier| earlier.name == port.name) {
            let message = format!("port {:?} is listed twice", port.name);
            let help = "name each receiver once; a port that receives a packet twice fails the test anyway";
            faults.push(Report::new(Code::Packet, port.span, message, help));
        }
    }
    let faulty = !faults.is_empty();
    for fault in faults {
        scope.reports.push(fault);
    }
    let at = packet.at.iter().map(|port| port.name.as_str().into()).collect();
    fields.filter(|_| !faulty).map(|fields| Packet { from: packet.from.name.as_str().into(), fields, at })
}

/// The first field that no frame has, or that is not given in full.
fn fault(frame: &Expr, fields: &Match) -> Option<Report> {
    fields.iter().find_map(|demand| {
        let name = demand.field.name();
        let (message, help) = if !demand.field.is_of_frame() {
            let help = "write fields of the frame alone, such as eth_dst or ip_dst: switches set the others";
            (format!("`{name}` is not a field of a frame, so no port can send it"), help)
        } else if demand.mask != demand.field.max_value() && demand.field != Field::VlanTci {
            let help = "write the whole value, without a mask, as in ip_dst: \"10.0.0.2\"";
            (format!("`{name}` has a mask, but a packet has one value for each field"), help)
        } else {
            return None;
        };
        Some(Report::new(Code::Packet, place(frame, demand.field), message, help))
    })
}

/// The place of the field if it is written there, or that of the whole match.
fn place(frame: &Expr, field: Field) -> Span {
    let ExprKind::Match(terms) = &frame.kind else { return frame.span };
    let own = terms.iter().find(|term| Field::from_name(&term.name.name) == Some(field));
    own.map_or(frame.span, |term| term.span)
}

impl Resolver<'_, '_> {
    /// The value of a match without variables.
    fn packet_fields(&mut self, frame: &Expr) -> Option<Match> {
        let node = self.expr(frame);
        let wanted = self.types.known(&Type::Match, frame.span);
        self.expect(&node, wanted, "the packet", None);
        self.settle_calls();
        self.report_ambiguous();
        match self.value_of(&node)? {
            Value::Match(fields) if !self.failed => Some(fields.get()),
            _ => None,
        }
    }
}
