//! Tests.

use super::{Found, Lowering, child, token, tokens};
use crate::syntax::ast::{Call, Change, Ident, Packet, Test, TestStep, TestStepKind};
use crate::syntax::{SyntaxKind as K, SyntaxNode};

impl Lowering {
    pub(super) fn test(&mut self, node: &SyntaxNode) -> Found<Test> {
        let name = self.text(node)?;
        let mut span = self.span(node);
        span.start = self.span_of(&token(node, K::TestKw)?).start;
        let steps = node.children().map(|step| self.step(&step)).collect::<Found<_>>()?;
        Some(Test { name, steps, span })
    }

    fn step(&mut self, node: &SyntaxNode) -> Found<TestStep> {
        let has = |kind| token(node, kind).is_some();
        let kind = match node.kind() {
            K::Given if has(K::ObjectsKw) => TestStepKind::Objects(self.text(node)?),
            K::Given if has(K::PortKw) => {
                let [port, host] = <[Ident; 2]>::try_from(self.texts(node)?).ok()?;
                TestStepKind::Port { port, host }
            }
            K::Given | K::Change => TestStepKind::Transaction(self.changes(node)?),
            _ if has(K::ExactlyKw) => {
                let rows = node.children().map(|row| self.row(&row)).collect::<Found<_>>()?;
                TestStepKind::Exactly(rows)
            }
            _ if has(K::DeltaKw) => TestStepKind::Delta(self.changes(node)?),
            _ if has(K::ErrorKw) => TestStepKind::Error(self.text(node)?),
            _ if has(K::PacketKw) => TestStepKind::Packet(self.packet(node)?),
            _ if has(K::NoKw) => TestStepKind::Lacks(self.row(node)?),
            _ => TestStepKind::Holds(self.row(node)?),
        };
        Some(TestStep { kind, span: self.span(node) })
    }

    fn changes(&mut self, node: &SyntaxNode) -> Found<Vec<Change>> {
        let changes = node
            .children()
            .map(|row| Some(Change { insert: token(&row, K::DeleteKw).is_none(), row: self.row(&row)? }));
        changes.collect()
    }

    fn row(&mut self, node: &SyntaxNode) -> Found<Call> {
        self.call(&child(node, K::Call)?)
    }

    fn packet(&mut self, node: &SyntaxNode) -> Found<Packet> {
        let mut ports = self.texts(node)?.into_iter();
        let (from, at) = (ports.next()?, ports.collect());
        Some(Packet { from, frame: self.expr(&node.children().next()?)?, at })
    }

    /// All strings in the node, but not those within its parts.
    fn texts(&mut self, node: &SyntaxNode) -> Found<Vec<Ident>> {
        let strings = tokens(node).filter(|token| token.kind() == K::String);
        strings
            .map(|string| Some(Ident { name: self.unquoted(&string)?, span: self.span_of(&string) }))
            .collect()
    }

    /// The string in the node.
    fn text(&mut self, node: &SyntaxNode) -> Found<Ident> {
        let string = token(node, K::String)?;
        Some(Ident { name: self.unquoted(&string)?, span: self.span_of(&string) })
    }
}
