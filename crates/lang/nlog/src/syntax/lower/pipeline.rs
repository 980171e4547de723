//! Lowers the names of fields, stages, priorities and reserved numbers. All but fields are constants with more said about them.

use super::{Lowering, child, doc, tokens};
use crate::syntax::ast::{Constant, FieldDeclaration, RangeDeclaration, StageDeclaration};
use crate::syntax::{SyntaxKind as K, SyntaxNode};

impl Lowering {
    pub(super) fn field_declaration(&mut self, item: &SyntaxNode, broken: bool) {
        let Some(name) = self.name(item) else { return self.nameless(item) };
        let mut declared = FieldDeclaration { name, of: None, bits: None, doc: doc(item) };
        match child(item, K::Bits).filter(|_| !broken) {
            // Without its bits, which are reported, it is not known what the name stands for.
            Some(node) => {
                declared.bits = child(&node, K::BitRange).and_then(|bits| self.bit_range(&bits));
                declared.of = self.name(&node).filter(|_| declared.bits.is_some());
            }
            None => declared.of = child(item, K::Name).filter(|_| !broken).and_then(|node| self.name(&node)),
        }
        self.out.fields.push(declared);
    }

    pub(super) fn stage(&mut self, item: &SyntaxNode, broken: bool) {
        let Some(name) = self.name(item) else { return self.nameless(item) };
        let value = item.children().next().filter(|_| !broken).and_then(|value| self.expr(&value));
        let (number, doc) = (value.as_ref().map(|value| value.span), doc(item));
        self.out.constants.push(Constant { name: name.clone(), ty: None, value, doc: doc.clone() });
        self.out.stages.push(StageDeclaration { name, number, doc });
    }

    /// A priority or reserved numbers.
    pub(super) fn range_declaration(&mut self, item: &SyntaxNode, broken: bool) {
        let mut names = tokens(item).filter(|token| token.kind() == K::Ident);
        let Some(name) = names.next().map(|token| self.ident(&token)) else { return self.nameless(item) };
        let of = names.next().filter(|_| !broken).map(|token| self.ident(&token));
        let mut bounds = item.children().filter(|_| !broken);
        let value = bounds.next().and_then(|value| self.expr(&value));
        let greatest = bounds.next().and_then(|value| self.expr(&value));
        let (least, doc) = (value.as_ref().map(|value| value.span), doc(item));
        self.out.constants.push(Constant { name: name.clone(), ty: None, value, doc: doc.clone() });
        let declared = RangeDeclaration { name, of, least, greatest, doc };
        match item.kind() {
            K::ReserveDeclaration => self.out.reservations.push(declared),
            _ => self.out.priorities.push(declared),
        }
    }
}
