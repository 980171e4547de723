//! Type variables and their unification.
//!
//! Every variable and expression of a rule has a type variable, which tables and functions determine. Each known
//! type remembers the place that made it known, so that a mismatch can name both sides.
//!
//! A string that is the id of an object also has the kinds that the object can have. They are only checked: at run time
//! an id is a string.

use std::sync::Arc;

use nlog_data::function::Shape;
use nlog_data::{Constrained, Type};

use crate::syntax::ast::Span;

/// A type to be found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TypeVar(u32);

#[derive(Debug, Clone)]
enum Slot {
    /// Equal to another type variable.
    Link(TypeVar),
    /// Not known yet.
    Free,
    /// The type of a string literal: string, mac, ip or net.
    Text,
    /// As [`Type::in_expressions`]: ids of objects have their kinds.
    Known(Type),
    Set(TypeVar),
    List(TypeVar),
    Opt(TypeVar),
    /// Part of a reported mistake: fits everything.
    Anything,
}

/// The error of two types that cannot be unified. The caller that reports it names them.
#[derive(Debug)]
pub(super) struct Mismatch;

#[derive(Debug, Default)]
pub(super) struct Types {
    slots: Vec<Slot>,
    /// The places that made types known.
    origins: Vec<Option<Span>>,
    /// The number of variables linked to each, which keeps chains of links short.
    weights: Vec<u32>,
    /// The changes to undo at the end of a trial; `None` outside trials.
    undo: Option<Vec<(u32, Slot, Option<Span>)>>,
}

impl Types {
    fn add(&mut self, slot: Slot, origin: Option<Span>) -> TypeVar {
        self.slots.push(slot);
        self.origins.push(origin);
        self.weights.push(1);
        TypeVar(self.slots.len() as u32 - 1)
    }

    pub(super) fn free(&mut self) -> TypeVar {
        self.add(Slot::Free, None)
    }

    pub(super) fn anything(&mut self) -> TypeVar {
        self.add(Slot::Anything, None)
    }

    /// The type of a string literal.
    pub(super) fn text(&mut self, origin: Span) -> TypeVar {
        self.add(Slot::Text, Some(origin))
    }

    pub(super) fn known(&mut self, ty: &Type, origin: Span) -> TypeVar {
        let slot = match ty.in_expressions() {
            Type::Set(of) => Slot::Set(self.known(of, origin)),
            Type::List(of) => Slot::List(self.known(of, origin)),
            Type::Opt(of) => Slot::Opt(self.known(of, origin)),
            leaf => Slot::Known(leaf.clone()),
        };
        self.add(slot, Some(origin))
    }

    pub(super) fn set_of(&mut self, of: TypeVar, origin: Span) -> TypeVar {
        self.add(Slot::Set(of), Some(origin))
    }

    pub(super) fn list_of(&mut self, of: TypeVar, origin: Span) -> TypeVar {
        self.add(Slot::List(of), Some(origin))
    }

    /// The type of a shape; `any` has the type variable of each [`Shape::Any`] in this call.
    pub(super) fn of_shape(&mut self, shape: &Shape, any: &mut Vec<(u8, TypeVar)>, origin: Span) -> TypeVar {
        match shape {
            Shape::Is(ty) => self.known(ty, origin),
            Shape::Any(number) => {
                if let Some(&(_, var)) = any.iter().find(|(of, _)| of == number) {
                    return var;
                }
                let var = self.free();
                any.push((*number, var));
                var
            }
            Shape::SetOf(of) => {
                let of = self.of_shape(of, any, origin);
                self.set_of(of, origin)
            }
            Shape::ListOf(of) => {
                let of = self.of_shape(of, any, origin);
                self.list_of(of, origin)
            }
            Shape::OptOf(of) => {
                let of = self.of_shape(of, any, origin);
                self.add(Slot::Opt(of), Some(origin))
            }
        }
    }

    fn root(&self, mut var: TypeVar) -> TypeVar {
        while let Slot::Link(next) = self.slots[var.0 as usize] {
            var = next;
        }
        var
    }

    fn change(&mut self, var: TypeVar, slot: Slot, origin: Option<Span>) {
        let index = var.0 as usize;
        let old_slot = std::mem::replace(&mut self.slots[index], slot);
        let old_origin = std::mem::replace(&mut self.origins[index], origin);
        if let Some(undo) = &mut self.undo {
            undo.push((var.0, old_slot, old_origin));
        }
    }

    /// Unifies two types, or reports that they differ; then both stay partially unified.
    pub(super) fn unify(&mut self, a: TypeVar, b: TypeVar) -> Result<(), Mismatch> {
        let (a, b) = (self.root(a), self.root(b));
        if a == b {
            return Ok(());
        }
        match (self.slots[a.0 as usize].clone(), self.slots[b.0 as usize].clone()) {
            (Slot::Anything, _) | (_, Slot::Anything) => Ok(()),
            (Slot::Free, Slot::Free) | (Slot::Text, Slot::Text) => {
                let lighter = self.weights[a.0 as usize] < self.weights[b.0 as usize];
                if lighter { self.link(a, b) } else { self.link(b, a) }
            }
            (Slot::Free, _) => self.link(a, b),
            (_, Slot::Free) => self.link(b, a),
            (Slot::Text, Slot::Known(ty)) if is_textual(ty.base()) => self.link(a, b),
            (Slot::Known(ty), Slot::Text) if is_textual(ty.base()) => self.link(b, a),
            (Slot::Known(left), Slot::Known(right)) => self.meet((a, &left), (b, &right)),
            (Slot::Set(left), Slot::Set(right))
            | (Slot::List(left), Slot::List(right))
            | (Slot::Opt(left), Slot::Opt(right)) => self.unify(left, right),
            _ => Err(Mismatch),
        }
    }

    /// Unifies known types. A plain string may be an id of any kind; an id has a kind that both sides allow. So only
    /// the sides decide, not the order in which they meet.
    fn meet(&mut self, (a, left): (TypeVar, &Type), (b, right): (TypeVar, &Type)) -> Result<(), Mismatch> {
        if left.base() != right.base() {
            return Err(Mismatch);
        }
        let (kinds, others) = match (left.kinds(), right.kinds()) {
            (Some(kinds), Some(others)) => (kinds, others),
            (Some(_), None) => return self.link(b, a),
            (None, Some(_)) => return self.link(a, b),
            // The kinds of one string may become known later, and then are those of the other.
            (None, None) if *left == Type::String => return self.link(b, a),
            (None, None) => return Ok(()),
        };
        let shared: Vec<String> = kinds.iter().filter(|kind| others.contains(kind)).cloned().collect();
        if shared.is_empty() {
            // Trials select functions, and no function is selected for the kind of an id.
            return if self.undo.is_some() { Ok(()) } else { Err(Mismatch) };
        }
        let (from, to) = if shared.len() == kinds.len() { (b, a) } else { (a, b) };
        if shared.len() < kinds.len().min(others.len()) {
            let origin = self.origins[to.0 as usize];
            let shared = Type::Constrained(Arc::new(Constrained::reference(shared)));
            self.change(to, Slot::Known(shared), origin);
        }
        self.link(from, to)
    }

    fn link(&mut self, from: TypeVar, to: TypeVar) -> Result<(), Mismatch> {
        if self.contains(to, from) {
            return Err(Mismatch);
        }
        let origin = self.origins[from.0 as usize];
        self.change(from, Slot::Link(to), origin);
        self.weights[to.0 as usize] += self.weights[from.0 as usize];
        Ok(())
    }

    /// Whether a set or list type contains the other: then they cannot be unified.
    fn contains(&self, whole: TypeVar, part: TypeVar) -> bool {
        let mut whole = self.root(whole);
        while let Slot::Set(of) | Slot::List(of) | Slot::Opt(of) = self.slots[whole.0 as usize] {
            whole = self.root(of);
            if whole == part {
                return true;
            }
        }
        false
    }

    /// Whether `attempt` succeeds; undoes what it did.
    pub(super) fn would(&mut self, attempt: impl FnOnce(&mut Self) -> Result<(), Mismatch>) -> bool {
        let count = self.slots.len();
        self.undo = Some(Vec::new());
        let fits = attempt(self).is_ok();
        for (index, slot, origin) in self.undo.take().unwrap_or_default().into_iter().rev() {
            self.slots[index as usize] = slot;
            self.origins[index as usize] = origin;
        }
        self.slots.truncate(count);
        self.origins.truncate(count);
        self.weights.truncate(count);
        fits
    }

    /// Makes the type fit everything from now on.
    pub(super) fn forgive(&mut self, var: TypeVar) {
        let root = self.root(var);
        self.change(root, Slot::Anything, None);
    }

    /// Whether the type is part of a reported mistake.
    pub(super) fn is_anything(&self, var: TypeVar) -> bool {
        match self.slots[self.root(var).0 as usize] {
            Slot::Anything => true,
            Slot::Set(of) | Slot::List(of) | Slot::Opt(of) => self.is_anything(of),
            _ => false,
        }
    }

    /// Whether it is, or contains, an option of an option.
    pub(super) fn is_nested_option(&self, var: TypeVar) -> bool {
        let mut in_option = false;
        let mut var = self.root(var);
        while let Slot::Set(of) | Slot::List(of) | Slot::Opt(of) = self.slots[var.0 as usize] {
            let is_option = matches!(self.slots[var.0 as usize], Slot::Opt(_));
            if in_option && is_option {
                return true;
            }
            in_option = is_option;
            var = self.root(of);
        }
        false
    }

    /// Whether nothing is known of it.
    pub(super) fn is_free(&self, var: TypeVar) -> bool {
        matches!(self.slots[self.root(var).0 as usize], Slot::Free)
    }

    /// Whether it is the type of a string literal that nothing constrains yet.
    pub(super) fn is_text(&self, var: TypeVar) -> bool {
        matches!(self.slots[self.root(var).0 as usize], Slot::Text)
    }

    /// The type at run time, if it is known: ids of objects are strings, like an unconstrained string literal.
    pub(super) fn resolved(&self, var: TypeVar) -> Option<Type> {
        self.read(var, |ty| ty.base().clone())
    }

    /// The type with the kinds of ids, if it is known.
    pub(super) fn exact(&self, var: TypeVar) -> Option<Type> {
        self.read(var, Type::clone)
    }

    fn read(&self, var: TypeVar, known: fn(&Type) -> Type) -> Option<Type> {
        match &self.slots[self.root(var).0 as usize] {
            Slot::Known(ty) => Some(known(ty)),
            Slot::Text => Some(Type::String),
            Slot::Set(of) => self.read(*of, known).map(Type::set),
            Slot::List(of) => self.read(*of, known).map(Type::list),
            Slot::Opt(of) => self.read(*of, known).map(Type::opt),
            Slot::Link(_) | Slot::Free | Slot::Anything => None,
        }
    }

    /// The place that made the type known.
    pub(super) fn origin(&self, var: TypeVar) -> Option<Span> {
        self.origins[self.root(var).0 as usize]
    }

    /// The name of the type in messages.
    pub(super) fn show(&self, var: TypeVar) -> String {
        match &self.slots[self.root(var).0 as usize] {
            Slot::Known(ty) => ty.to_string(),
            Slot::Text => "string".to_owned(),
            Slot::Set(of) => format!("set<{}>", self.show(*of)),
            Slot::List(of) => format!("list<{}>", self.show(*of)),
            Slot::Opt(of) => format!("opt<{}>", self.show(*of)),
            Slot::Link(_) | Slot::Free | Slot::Anything => "…".to_owned(),
        }
    }
}

/// Whether a string literal can stand for a value of the type.
pub(super) fn is_textual(ty: &Type) -> bool {
    use Type::{Enum, InterfaceAddress, Ip, Mac, Net, PacketFilter, String};
    matches!(ty, String | Mac | Ip | Net | InterfaceAddress | PacketFilter | Enum(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Span = Span { file: 0, start: 0, end: 1 };

    #[test]
    fn a_trial_leaves_no_trace() {
        let mut types = Types::default();
        let (a, int) = (types.free(), types.known(&Type::Int, HERE));
        assert!(types.would(|types| types.unify(a, int)));
        assert!(types.is_free(a));
        types.unify(a, int).unwrap();
        assert_eq!(types.resolved(a), Some(Type::Int));
        let set = types.known(&Type::set(Type::Int), HERE);
        assert!(!types.would(|types| types.unify(a, set)));
    }

    #[test]
    fn a_type_is_no_part_of_itself() {
        let mut types = Types::default();
        let a = types.free();
        let set = types.set_of(a, HERE);
        assert!(types.unify(a, set).is_err());
    }

    #[test]
    fn literals_follow_what_is_wanted() {
        let mut types = Types::default();
        let (text, ip, int) = (types.text(HERE), types.known(&Type::Ip, HERE), types.known(&Type::Int, HERE));
        assert!(types.unify(text, int).is_err());
        assert_eq!(types.resolved(text), Some(Type::String));
        types.unify(text, ip).unwrap();
        assert_eq!(types.resolved(text), Some(Type::Ip));
    }

    fn ids(kinds: &[&str]) -> Type {
        let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        Type::Constrained(Arc::new(Constrained::reference(kinds)))
    }

    #[test]
    fn an_id_has_the_kinds_that_all_sides_allow() {
        let sides = [ids(&["a", "b"]), Type::String, ids(&["b", "c"]), ids(&["a", "b", "c"])];
        for turn in 0..sides.len() {
            let mut types = Types::default();
            let id = types.free();
            for side in sides.iter().cycle().skip(turn).take(sides.len()) {
                let side = types.known(side, HERE);
                types.unify(id, side).unwrap();
            }
            assert_eq!(types.show(id), "ref b");
            assert_eq!((types.exact(id), types.resolved(id)), (Some(ids(&["b"])), Some(Type::String)));
            let other = types.known(&ids(&["a", "c"]), HERE);
            assert!(types.unify(other, id).is_err());
        }
    }

    #[test]
    fn strings_that_met_have_the_kinds_that_one_gets_later() {
        let mut types = Types::default();
        let (one, other) = (types.known(&Type::String, HERE), types.known(&Type::String, HERE));
        types.unify(one, other).unwrap();
        let id = types.known(&ids(&["a"]), HERE);
        types.unify(one, id).unwrap();
        assert_eq!(types.show(other), "ref a");
    }

    #[test]
    fn kinds_select_no_function() {
        let mut types = Types::default();
        let (one, other) = (types.known(&ids(&["a"]), HERE), types.known(&ids(&["b"]), HERE));
        assert!(types.would(|types| types.unify(one, other)));
        assert!(types.unify(one, other).is_err());
        assert_eq!((types.show(one), types.show(other)), ("ref a".to_owned(), "ref b".to_owned()));
    }
}
