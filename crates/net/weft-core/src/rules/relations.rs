//! How objects of one kind bear on those of others, as facts of the rules say it by fields: an ACL applies to a port, to the ports of a
//! switch, or to those of a group; a port of a router needs its switch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use nlog::Program;
use nlog_data::{ObjectKind, Type, Value};
use objects::{Object, ObjectKey, ObjectStore};

use super::interface::Misfit;
use super::{Rules, facts};

/// The tables of facts about what objects apply to, what they need, and to whom they belong. Each fact has a kind and a field of it.
const APPLIES_TO: &str = "applies_to";
const NEEDS: &str = "needs_up";
const BELONGS_BY: &str = "belongs_by";
/// What is no field, but says of an owner that it belongs to itself.
const ID: &str = "id";
/// The most steps from an object to its tenant: from a group of ports to ports, their switch and its tenant.
const STEPS_MAX: usize = 8;

/// Fields, by kind.
type Fields = BTreeMap<String, Vec<usize>>;

/// The fields that relate objects to others.
#[derive(Debug, Default)]
pub(crate) struct Relations {
    applies_to: Fields,
    needs: Fields,
    belongs: BTreeMap<String, Vec<By>>,
}

/// What says to which tenant an object belongs.
#[derive(Debug, Clone, Copy)]
enum By {
    /// Its id: it is the tenant.
    Id,
    /// The name in this field.
    Name(usize),
    /// The objects that this field refers to.
    References(usize),
}

impl Relations {
    pub(super) fn of(program: &Program) -> Result<Relations, Misfit> {
        Ok(Relations {
            applies_to: fields(program, APPLIES_TO)?,
            needs: fields(program, NEEDS)?,
            belongs: owners(program)?,
        })
    }

    /// The tenant to which an object belongs, if all that says so agrees. `find` gives the objects that it refers to.
    pub(crate) fn tenant<'a>(
        &self,
        object: &Object,
        find: &dyn Fn(&ObjectKey) -> Option<&'a Object>,
    ) -> Option<Arc<str>> {
        self.tenant_within(object, find, STEPS_MAX)
    }

    fn tenant_within<'a>(
        &self,
        object: &Object,
        find: &dyn Fn(&ObjectKey) -> Option<&'a Object>,
        steps: usize,
    ) -> Option<Arc<str>> {
        let steps = steps.checked_sub(1)?;
        let mut tenant: Option<Arc<str>> = None;
        let mut agrees = |other: Option<Arc<str>>| {
            let agrees =
                other.is_some() && tenant.as_ref().is_none_or(|tenant| other.as_ref() == Some(tenant));
            tenant = other;
            agrees
        };
        for by in self.belongs.get(object.kind().name())? {
            let all_agree = match *by {
                By::Id => agrees(Some(object.id().clone())),
                By::Name(at) => match object.values().get(at) {
                    Some(Value::String(name)) => agrees(Some(name.clone())),
                    _ => true,
                },
                By::References(at) => {
                    let named = object.references_in(at);
                    let mut named = named.iter().filter_map(find);
                    named.all(|other| agrees(self.tenant_within(other, find, steps)))
                }
            };
            if !all_agree {
                return None;
            }
        }
        tenant
    }

    /// Whether objects of this kind can belong to a tenant, which may change them then.
    pub(crate) fn can_belong(&self, kind: &str) -> bool {
        self.belongs.get(kind).is_some_and(|by| !by.iter().any(|by| matches!(by, By::Id)))
    }

    /// Whether objects of this kind belong to the tenant of another one that they refer to.
    pub(crate) fn belongs_by_reference(&self, kind: &str) -> bool {
        self.belongs.get(kind).is_some_and(|by| by.iter().any(|by| matches!(by, By::References(_))))
    }

    /// The tenant that a field of an object names, with the field.
    pub(crate) fn named_tenant<'a>(&self, object: &'a Object) -> Option<(&'a str, &'a Arc<str>)> {
        self.belongs.get(object.kind().name())?.iter().find_map(|by| {
            let By::Name(at) = *by else { return None };
            let Value::String(name) = object.values().get(at)? else { return None };
            Some((object.kind().declared().fields.get(at)?.name.as_str(), name))
        })
    }

    /// The first field that names the owner of an object.
    pub(crate) fn owner_field<'a>(&self, object: &'a Object) -> Option<&'a str> {
        let by = self.belongs.get(object.kind().name())?.first()?;
        let (By::Name(at) | By::References(at)) = by else { return None };
        object.kind().declared().fields.get(*at).map(|field| field.name.as_str())
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

/// What says to whom objects belong, by kind.
fn owners(program: &Program) -> Result<BTreeMap<String, Vec<By>>, Misfit> {
    let mut owners: BTreeMap<String, Vec<By>> = BTreeMap::new();
    for (rule, [kind, field]) in facts(program, BELONGS_BY) {
        let declared = program.objects.iter().find(|declared| declared.name == kind);
        let by = declared.and_then(|declared| owner(declared, &field)).ok_or_else(|| {
            let text = format!(
                "{BELONGS_BY}: no object of kind {kind} has a field {field} that names a tenant or refers to objects"
            );
            let remedy = format!("name a kind and a field of it with references or a text, or `{ID}`");
            Misfit::of_fact(&rule.place, text, remedy)
        })?;
        owners.entry(kind).or_default().push(by);
    }
    Ok(owners)
}

fn owner(declared: &ObjectKind, field: &str) -> Option<By> {
    if field == ID {
        return Some(By::Id);
    }
    let at = declared.field(field)?;
    let ty = &declared.fields[at].ty;
    if !ty.kinds_within().is_empty() {
        return Some(By::References(at));
    }
    let named = match ty.base() {
        Type::Opt(of) => of.base(),
        base => base,
    };
    (*named == Type::String).then_some(By::Name(at))
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
