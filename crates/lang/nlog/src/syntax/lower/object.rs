//! Lowers kinds of objects: each is a table of its objects, with more said about them.

use nlog_data::Role;

use super::{Found, Lowering, child, doc, is_expression, token, tokens};
use crate::syntax::ast::{Ident, Object, ObjectField, Table, TypeRef};
use crate::syntax::{SyntaxKind as K, SyntaxNode};

/// The column with the id of an object, which every kind has.
pub(crate) const ID: &str = "id";

impl Lowering {
    pub(super) fn object(&mut self, item: &SyntaxNode, broken: bool) {
        let Some(name) = self.name(item) else { return self.nameless(item) };
        let id = Ident { name: ID.to_owned(), span: name.span };
        let word = Ident { name: "ref".to_owned(), span: name.span };
        let own = TypeRef { name: word, of: None, kinds: vec![name.clone()], span: name.span };
        let mut columns = vec![(id.clone(), own)];
        let mut object = Object { fields: Vec::new(), uniques: Vec::new(), id_spaces: Vec::new() };
        for node in item.children() {
            match node.kind() {
                K::ObjectField => {
                    if let Some((column, field)) = self.field(&node) {
                        columns.push(column);
                        object.fields.push(field);
                    }
                }
                K::Unique => {
                    let paths = node.children().filter(|node| node.kind() == K::Path);
                    object.uniques.push(paths.map(|path| self.names(&path)).collect());
                }
                K::IdSpace => object.id_spaces.extend(self.name(&node)),
                _ => {}
            }
        }
        let (columns, key) = if broken { (None, None) } else { (Some(columns), Some(vec![id])) };
        let (role, object) = (Role::Input, Some(Box::new(object)));
        self.out.tables.push(Table {
            role,
            name,
            columns,
            key,
            uniques: Vec::new(),
            hook: None,
            state: false,
            listing: None,
            object,
            doc: doc(item),
        });
    }

    fn field(&mut self, node: &SyntaxNode) -> Found<((Ident, TypeRef), ObjectField)> {
        let name = self.name(node)?;
        let ty = self.type_ref(&child(node, K::Type)?)?;
        let formers = child(node, K::Was).map(|was| self.names(&was)).unwrap_or_default();
        let value = node.children().find(|part| part.kind() != K::Was && is_expression(part.kind()));
        let value = value.filter(|_| token(node, K::Eq).is_some());
        let default = match value {
            Some(value) => Some(self.expr(&value)?),
            None => None,
        };
        Some(((name, ty), ObjectField { formers, default, doc: doc(node) }))
    }

    fn names(&self, node: &SyntaxNode) -> Vec<Ident> {
        tokens(node).filter(|token| token.kind() == K::Ident).map(|token| self.ident(&token)).collect()
    }
}
