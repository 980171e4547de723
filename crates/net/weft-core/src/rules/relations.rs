//! How objects of one kind bear on those of others, as facts of the rules say it by fields: an ACL applies to a port, to the ports of a
//! switch, or to those of a group; a port of a router needs its switch.

use std::collections::{BTreeMap, BTreeSet};

use nlog::Program;
use objects::{Object, ObjectKey, ObjectStore};

use super::interface::Misfit;
use super::{Rules, facts};

/// The table of facts about what objects apply to, and that about what they need. Each fact has a kind and a field of it.
const APPLIES_TO: &str = "applies_to";
const NEEDS: &str = "needs_up";

/// Fields, by kind.
type Fields = BTreeMap<String, Vec<usize>>;

/// The fields that relate objects to others.
#[derive(Debug, Default)]
pub(crate) struct Relations {
    applies_to: Fields,
    needs: Fields,
}

impl Relations {
    pub(super) fn of(program: &Program) -> Result<Relations, Misfit> {
        Ok(Relations { applies_to: fields(program, APPLIES_TO)?, needs: fields(program, NEEDS)? })
    }

    /// Whether objects of this kind need others.
    pub(crate) fn has_needs(&self, kind: &str) -> bool {
        self.needs.contains_key(kind)
    }

    /// What an object needs.
    pub(crate) fn needs(&self, object: &Object) -> Vec<ObjectKey> {
        named(&self.needs, object)
    }

    /// The objects on hosts to which something else applies when an object becomes another one. If only what it applies to changes,
    /// these are those that come and go; otherwise, all.
    pub(crate) fn concerned(
        &self,
        before: Option<&Object>,
        after: Option<&Object>,
        objects: &ObjectStore,
        rules: &Rules,
    ) -> BTreeSet<ObjectKey> {
        let kind = before.or(after).map(|object| object.kind().name());
        let Some(fields) = kind.and_then(|kind| self.applies_to.get(kind)) else { return BTreeSet::new() };
        let reached = |object: Option<&Object>| {
            object.map(|object| self.reached(object, objects, rules)).unwrap_or_default()
        };
        let only_what_it_names = before.zip(after).is_some_and(|(before, after)| {
            let mut values = before.values().iter().zip(after.values()).enumerate();
            values.all(|(at, (before, after))| fields.contains(&at) || before == after)
        });
        let (before, after) = (reached(before), reached(after));
        if only_what_it_names { &before ^ &after } else { &before | &after }
    }

    /// The objects on hosts that an object applies to.
    fn reached(&self, object: &Object, objects: &ObjectStore, rules: &Rules) -> BTreeSet<ObjectKey> {
        let (mut left, mut known) = (named(&self.applies_to, object), BTreeSet::new());
        while let Some(key) = left.pop() {
            if !known.insert(key.clone()) || rules.has_place(&key.kind) {
                continue;
            }
            if self.applies_to.contains_key(&*key.kind) {
                let group = objects.get(&key).into_iter();
                left.extend(group.flat_map(|group| named(&self.applies_to, group)));
            } else {
                known.extend(objects.referrers(&key).filter(|member| rules.has_place(&member.kind)));
            }
        }
        known.retain(|key| rules.has_place(&key.kind));
        known
    }
}

/// What the fields of an object name.
fn named(fields: &Fields, object: &Object) -> Vec<ObjectKey> {
    let fields = fields.get(object.kind().name());
    fields.into_iter().flatten().flat_map(|at| object.references_in(*at)).collect()
}

/// The fields that the facts of a table name.
fn fields(program: &Program, table: &'static str) -> Result<Fields, Misfit> {
    let mut fields = Fields::new();
    for (rule, [kind, field]) in facts(program, table) {
        let declared = program.objects.iter().find(|declared| declared.name == kind);
        let at = declared.and_then(|declared| {
            let at = declared.field(&field)?;
            (!declared.fields[at].ty.kinds_within().is_empty()).then_some(at)
        });
        let at = at.ok_or_else(|| {
            let text =
                format!("{table}: no object of kind {kind} has a field {field} that refers to objects");
            Misfit::of_fact(&rule.place, text, "name a kind and a field of it with references".to_owned())
        })?;
        fields.entry(kind).or_default().push(at);
    }
    Ok(fields)
}
