//! Lowering: from the syntax tree to the AST.
//!
//! A declaration with a syntax error keeps what is known about it (the name of a table, the names it mentions), so
//! that its error causes no others.
//!
//! This file lowers declarations and rules; its submodules lower values, tests and allow comments, and compute
//! fingerprints.

use nlog_data::Role;

use super::ast::{
    Condition, Constant, ConstrainedType, Count, File, FunctionDeclaration, Hook, Ident, Import, Item,
    ItemKind, Listing, ListingWord, Range, Reading, Rule, Span, Table, TypeDeclaration, TypeDefinition,
    TypeRef,
};
use super::{SyntaxKind as K, SyntaxNode, SyntaxToken};
pub(crate) use expression::is_mask;
use fingerprint::Fingerprint;

mod allowance;
mod expression;
mod fingerprint;
mod object;
mod pipeline;
mod test;

/// Reads a file's tree. `file` is its number among the sources.
pub fn lower(root: &SyntaxNode, file: u32) -> File {
    let mut lowering = Lowering { file, out: File::default() };
    for item in root.children() {
        lowering.item(&item);
    }
    lowering.out.allowances = allowance::allowances(root, file);
    lowering.out
}

struct Lowering {
    file: u32,
    out: File,
}

/// The tree is well formed wherever it has no error node, so a missing part means that the node is ignored.
type Found<T> = Option<T>;

impl Lowering {
    fn item(&mut self, item: &SyntaxNode) {
        let broken = item.children().any(|child| child.kind() == K::Error);
        if broken {
            let names = item.descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token);
            self.out
                .mentions
                .extend(names.filter(|token| token.kind() == K::Ident).map(|token| token.text().to_owned()));
        }
        match item.kind() {
            K::Import if !broken => {
                if let Some(token) = token(item, K::String) {
                    let span = self.span_of(&token);
                    if let Some(path) = self.unquoted(&token) {
                        self.out.imports.push(Import { path, span });
                    }
                }
            }
            K::Const => {
                let Some(name) = self.name(item) else { return self.nameless(item) };
                let ty = child(item, K::Type).filter(|_| !broken).and_then(|ty| self.type_ref(&ty));
                let value = item.children().filter(|_| !broken).find(|child| is_expression(child.kind()));
                let value = value.and_then(|value| self.expr(&value));
                self.out.constants.push(Constant { name, ty, value, doc: doc(item) });
            }
            K::TypeDeclaration => self.type_declaration(item, broken),
            K::Function => self.function(item, broken),
            K::Table => self.table(item, broken),
            K::Object => self.object(item, broken),
            K::FieldDeclaration => self.field_declaration(item, broken),
            K::StageDeclaration => self.stage(item, broken),
            K::PriorityDeclaration | K::ReserveDeclaration => self.range_declaration(item, broken),
            K::Test if !broken => {
                if let Some(test) = self.test(item) {
                    self.out.tests.push(test);
                }
            }
            K::Rule if !broken => {
                if let Some(rule) = self.rule(item) {
                    self.out.rules.push(rule);
                }
            }
            K::Rule if !has_head(item) => self.nameless(item),
            _ => {}
        }
    }

    fn table(&mut self, item: &SyntaxNode, broken: bool) {
        let Some(name) = self.name(item) else { return self.nameless(item) };
        let role = if token(item, K::InputKw).is_some() {
            Role::Input
        } else if [K::OutputKw, K::StateKw, K::ListingKw, K::CounterKw]
            .iter()
            .any(|word| token(item, *word).is_some())
        {
            Role::Output
        } else if token(item, K::ForbidKw).is_some() {
            Role::Forbid
        } else {
            Role::Internal
        };
        let columns = child(item, K::Columns).filter(|_| !broken).map(|columns| self.columns(&columns));
        let names = |node: SyntaxNode| -> Vec<Ident> {
            tokens(&node).filter(|token| token.kind() == K::Ident).map(|token| self.ident(&token)).collect()
        };
        let key = child(item, K::Key).filter(|_| !broken).map(names);
        let uniques = item.children().filter(|node| node.kind() == K::Unique && !broken).map(names).collect();
        let hook = child(item, K::Hook).filter(|_| !broken).and_then(|hook| self.hook(&hook));
        let state = token(item, K::StateKw).is_some();
        let listing = self.listing(item, broken);
        let doc = doc(item);
        let object = None;
        self.out.tables.push(Table { role, name, columns, key, uniques, hook, state, listing, object, doc });
    }

    /// What is written of a listing or a table of counters besides its columns.
    fn listing(&mut self, item: &SyntaxNode, broken: bool) -> Option<Box<Listing>> {
        let word = match (token(item, K::ListingKw), token(item, K::CounterKw)) {
            (Some(_), _) => ListingWord::Listing,
            (None, Some(_)) => ListingWord::Counter,
            (None, None) => ListingWord::Neither,
        };
        let (reads, otherwise) = (child(item, K::Reads), child(item, K::Otherwise));
        if word == ListingWord::Neither && reads.is_none() && otherwise.is_none() {
            return None;
        }
        let reads = reads.filter(|_| !broken).and_then(|reads| self.reading(&reads));
        let text = otherwise.filter(|_| !broken).and_then(|node| token(&node, K::String));
        let span = text.as_ref().map(|text| self.span_of(text));
        let otherwise = text.and_then(|text| self.unquoted(&text)).zip(span);
        Some(Box::new(Listing { word, reads, otherwise, broken }))
    }

    fn reading(&mut self, node: &SyntaxNode) -> Found<Reading> {
        let mut names = Vec::new();
        let mut on = None;
        let mut follows_on = false;
        for token in tokens(node) {
            match token.kind() {
                K::OnKw => follows_on = true,
                K::Ident if follows_on => on = Some(self.ident(&token)),
                K::Ident => names.push(self.ident(&token)),
                _ => {}
            }
        }
        let mut names = names.into_iter();
        let what = names.next()?;
        let counts = node.children().filter(|child| child.kind() == K::Count).map(|count| {
            let mut names = tokens(&count).filter(|token| token.kind() == K::Ident);
            let mut next = || names.next().map(|token| self.ident(&token));
            Some(Count { name: next()?, counted: next()?, limit: next() })
        });
        let counts = counts.collect::<Option<Vec<_>>>()?;
        Some(Reading { what, columns: names.collect(), on, counts, span: self.span(node) })
    }

    fn hook(&mut self, node: &SyntaxNode) -> Found<Hook> {
        let mut names = tokens(node).filter(|token| token.kind() == K::Ident);
        let (name, source) = (self.ident(&names.next()?), self.ident(&names.next()?));
        let mut settings = Vec::new();
        for setting in node.children().filter(|child| child.kind() == K::Setting) {
            let value = setting.children().next()?;
            settings.push((self.name(&setting)?, self.expr(&value)?));
        }
        Some(Hook { name, source, settings, span: self.span(node) })
    }

    fn type_declaration(&mut self, item: &SyntaxNode, broken: bool) {
        let Some(name) = self.name(item) else { return self.nameless(item) };
        let definition = item.children().next().filter(|_| !broken).and_then(|definition| {
            Some(match definition.kind() {
                K::EnumType => {
                    let members = definition.children().filter(|node| node.kind() == K::Member);
                    TypeDefinition::Enum(members.filter_map(|member| self.member(&member)).collect())
                }
                K::RecordType => TypeDefinition::Record(self.columns(&definition)),
                _ => {
                    let base = self.type_ref(&definition)?;
                    let (range, conditions) = (self.range(item)?, self.conditions(item)?);
                    if range.is_none() && conditions.is_empty() {
                        TypeDefinition::Alias(base)
                    } else {
                        TypeDefinition::Constrained(Box::new(ConstrainedType { base, range, conditions }))
                    }
                }
            })
        });
        self.out.types.push(TypeDeclaration { name, definition, doc: doc(item) });
    }

    /// The range of a constrained type, if it has one.
    fn range(&mut self, item: &SyntaxNode) -> Found<Option<Range>> {
        let Some(range) = child(item, K::Range) else { return Some(None) };
        let mut bounds = range.children();
        let (least, greatest) = (self.expr(&bounds.next()?)?, self.expr(&bounds.next()?)?);
        Some(Some(Range { least, greatest }))
    }

    /// The conditions of a constrained type.
    fn conditions(&mut self, item: &SyntaxNode) -> Found<Vec<Condition>> {
        let mut conditions = Vec::new();
        for node in item.children().filter(|node| node.kind() == K::Where) {
            let holds = self.expr(&node.children().next()?)?;
            let message = match token(&node, K::String) {
                Some(text) => Some(self.unquoted(&text)?),
                None => None,
            };
            conditions.push(Condition { holds, message });
        }
        Some(conditions)
    }

    fn member(&mut self, node: &SyntaxNode) -> Found<Ident> {
        match token(node, K::String) {
            Some(text) => Some(Ident { name: self.unquoted(&text)?, span: self.span_of(&text) }),
            None => self.name(node),
        }
    }

    fn function(&mut self, item: &SyntaxNode, broken: bool) {
        let Some(name) = self.name(item) else { return self.nameless(item) };
        let mut function =
            FunctionDeclaration { name, parameters: None, result: None, body: None, doc: doc(item) };
        if !broken {
            function.parameters = child(item, K::Parameters).map(|parameters| self.columns(&parameters));
            function.result = child(item, K::Type).and_then(|ty| self.type_ref(&ty));
            let body = item.children().last().filter(|body| is_expression(body.kind()));
            function.body = body.and_then(|body| self.expr(&body));
        }
        self.out.functions.push(function);
    }

    fn columns(&self, node: &SyntaxNode) -> Vec<(Ident, TypeRef)> {
        let columns = node.children().filter(|node| node.kind() == K::Column);
        columns
            .filter_map(|column| Some((self.name(&column)?, self.type_ref(&child(&column, K::Type)?)?)))
            .collect()
    }

    fn type_ref(&self, node: &SyntaxNode) -> Found<TypeRef> {
        if let Some(word) = token(node, K::RefKw) {
            let kinds = tokens(node).filter(|token| token.kind() == K::Ident);
            let kinds = kinds.map(|token| self.ident(&token)).collect();
            return Some(TypeRef { name: self.ident(&word), of: None, kinds, span: self.span(node) });
        }
        let name = self.name(node)?;
        let of = child(node, K::Type).and_then(|of| self.type_ref(&of)).map(Box::new);
        Some(TypeRef { name, of, kinds: Vec::new(), span: self.span(node) })
    }

    fn rule(&mut self, node: &SyntaxNode) -> Found<Rule> {
        let negation = child(node, K::Negation);
        let negated_head =
            negation.as_ref().and_then(SyntaxNode::first_token).map(|token| self.span_of(&token));
        let head_node = child(negation.as_ref().unwrap_or(node), K::Call)?;
        let head = self.call(&head_node)?;
        let body_node = child(node, K::Body);
        let mut body = Vec::new();
        for item in body_node.iter().flat_map(SyntaxNode::children) {
            body.push(self.body_item(&item)?);
        }
        let default = token(node, K::DefaultKw).map(|word| self.span_of(&word));
        let mut fingerprint = Fingerprint::new();
        if default.is_some() {
            fingerprint.add(b"default\0");
        }
        fingerprint.add_node(&head_node);
        // Sorted, so that the order of items has no effect.
        let mut items: Vec<u64> = body.iter().map(|item: &Item| item.fingerprint).collect();
        items.sort_unstable();
        for item in items {
            fingerprint.add(&item.to_le_bytes());
        }
        let mut span = self.span(node);
        let start = default.unwrap_or_else(|| self.span(negation.as_ref().unwrap_or(&head_node)));
        span.start = start.start;
        Some(Rule {
            head,
            default,
            negated_head,
            is_fact: body_node.is_none(),
            body,
            span,
            fingerprint: fingerprint.finish(),
            doc: doc(node),
        })
    }

    fn body_item(&mut self, node: &SyntaxNode) -> Found<Item> {
        let kind = match node.kind() {
            K::Call => ItemKind::Atom(self.call(node)?),
            K::Binding => {
                let mut sides = node.children();
                let (left, right) = (sides.next()?, sides.next()?);
                ItemKind::Binding(self.expr(&left)?, self.expr(&right)?)
            }
            _ => ItemKind::Condition(self.expr(node)?),
        };
        Some(Item { kind, span: self.span(node), fingerprint: Fingerprint::of(node).finish() })
    }

    fn name(&self, node: &SyntaxNode) -> Found<Ident> {
        token(node, K::Ident).map(|token| self.ident(&token))
    }

    /// Notes a declaration whose name cannot be read: it is one of the first words, if there are any.
    fn nameless(&mut self, node: &SyntaxNode) {
        let tokens = node.descendants_with_tokens().filter_map(rowan::NodeOrToken::into_token);
        let first =
            tokens.take_while(|token| !matches!(token.kind(), K::LParen | K::Eq | K::Colon | K::Semicolon));
        let before = self.out.perhaps.len();
        let names = first.filter(|token| token.kind() == K::Ident).map(|token| token.text().to_owned());
        self.out.perhaps.extend(names);
        self.out.nameless |= self.out.perhaps.len() == before;
    }

    fn ident(&self, token: &SyntaxToken) -> Ident {
        Ident { name: token.text().to_owned(), span: self.span_of(token) }
    }

    fn span(&self, node: &SyntaxNode) -> Span {
        let range = node.text_range();
        Span { file: self.file, start: range.start().into(), end: range.end().into() }
    }

    fn span_of(&self, token: &SyntaxToken) -> Span {
        let range = token.text_range();
        Span { file: self.file, start: range.start().into(), end: range.end().into() }
    }
}

fn child(node: &SyntaxNode, kind: K) -> Found<SyntaxNode> {
    node.children().find(|child| child.kind() == kind)
}

fn tokens(node: &SyntaxNode) -> impl Iterator<Item = SyntaxToken> {
    node.children_with_tokens().filter_map(rowan::NodeOrToken::into_token)
}

fn token(node: &SyntaxNode, kind: K) -> Found<SyntaxToken> {
    tokens(node).find(|token| token.kind() == kind)
}

/// The text of the `##` comments before a declaration and in it.
fn doc(item: &SyntaxNode) -> String {
    let docs = tokens(item).filter(|token| token.kind() == K::DocComment);
    let lines: Vec<String> = docs
        .map(|token| {
            let line = token.text().trim_start_matches('#');
            line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned()
        })
        .collect();
    lines.join("\n")
}

/// Whether a node with a syntax error is recognisable as a rule: it starts with a complete head.
fn has_head(rule: &SyntaxNode) -> bool {
    let head = child(rule, K::Call).and_then(|call| child(&call, K::Arguments));
    head.is_some_and(|arguments| token(&arguments, K::RParen).is_some())
}

fn is_expression(kind: K) -> bool {
    !matches!(kind, K::Type | K::Error)
}
