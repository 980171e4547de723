//! Tests.

use super::{Found, Lowering, child, token};
use crate::syntax::ast::{Call, Change, Ident, Test, TestStep, TestStepKind};
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
            K::Given | K::Change => TestStepKind::Transaction(self.changes(node)?),
            _ if has(K::ExactlyKw) => {
                let rows = node.children().map(|row| self.row(&row)).collect::<Found<_>>()?;
                TestStepKind::Exactly(rows)
            }
            _ if has(K::DeltaKw) => TestStepKind::Delta(self.changes(node)?),
            _ if has(K::ErrorKw) => TestStepKind::Error(self.text(node)?),
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

    /// The string in the node.
    fn text(&mut self, node: &SyntaxNode) -> Found<Ident> {
        let string = token(node, K::String)?;
        Some(Ident { name: self.unquoted(&string)?, span: self.span_of(&string) })
    }
}
