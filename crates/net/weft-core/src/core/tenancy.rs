//! Requests of tenants, each within the objects of its tenant: what belongs to others is to it as if it were not there.
//!
//! Facts of the rules say to whom an object belongs ([`Relations::tenant`]), so a package's kinds are covered too.
//!
//! [`Relations::tenant`]: crate::rules::Relations::tenant

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

use nlog_data::Value;
use objects::{
    Batch, Change, ChangeSet, Deletion, FaultCode, Object, ObjectError, ObjectKey, ObjectStore, Outcome,
    Scope, named_in,
};

use super::{Accepted, Core, CoreError, Problem, Refusal};
use crate::peer::Origin;
use crate::rules::Rules;

/// The kind that declares tenants, and its field with the beginning of the ids of their new objects.
const TENANT: &str = "tenant";
const IDS: &str = "ids";

/// What a tenant may change.
pub(crate) struct Tenancy<'a> {
    tenant: &'a str,
    owner: String,
    ids: Option<String>,
    rules: &'a Rules,
    objects: &'a ObjectStore,
}

impl Core {
    /// The tenant to which an object in force belongs.
    pub(crate) fn tenant_of(&self, object: &Object) -> Option<Arc<str>> {
        self.rules.relations.tenant(object, &|key| self.objects.get(key).map(|object| &**object))
    }

    /// From now on, objects can name only tenants that are declared, or any.
    pub(crate) fn require_declared_tenants(&mut self, are_required: bool) {
        self.declared_tenants = are_required;
    }

    /// Checks that tenants are declared that changes name, and not taken from objects that name them.
    pub(super) fn check_tenants(&self, changes: &ChangeSet) -> Result<(), Refusal> {
        if !self.declared_tenants {
            return Ok(());
        }
        let by_key: HashMap<&ObjectKey, &Change> =
            changes.changes.iter().map(|change| (&change.key, change)).collect();
        let relations = &self.rules.relations;
        let mut faults = Vec::new();
        let mut add = |change: &Change, code, path: &str, message| {
            faults.push(fault(change, code, path, message));
        };
        for change in changes.effective() {
            if let Some((field, tenant)) =
                change.after.as_deref().and_then(|after| relations.named_tenant(after))
            {
                let key = ObjectKey::new(TENANT, tenant.clone());
                let is_there = match by_key.get(&key) {
                    Some(change) => change.after.is_some(),
                    None => self.objects.get(&key).is_some(),
                };
                if !is_there {
                    let message = format!("{key} is not declared; apply it first, or in the same request");
                    add(change, FaultCode::NoSuchObject, field, message);
                }
            }
            if *change.key.kind == *TENANT && change.outcome() == Outcome::Deleted {
                let names_it = |object: &Object| {
                    relations.named_tenant(object).is_some_and(|(_, tenant)| *tenant == change.key.id)
                };
                let mut members = self.objects.iter().filter(|(_, object)| names_it(object));
                if let Some((member, _)) = members.find(|(key, _)| !by_key.contains_key(key)) {
                    let message =
                        format!("is in use by {member}; delete the objects that name the tenant first");
                    add(change, FaultCode::InUse, "", message);
                }
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(Refusal::Objects { faults }) }
    }

    /// What this tenant may change.
    fn tenancy<'a>(&'a self, tenant: &'a str) -> Tenancy<'a> {
        let declared = self.objects.get(&ObjectKey::new(TENANT, tenant));
        let ids = declared.and_then(|declared| match declared.value(IDS) {
            Some(Value::String(ids)) => Some(ids.to_string()),
            _ => None,
        });
        let (rules, objects) = (&*self.rules, &self.objects);
        Tenancy { tenant, owner: format!("tenant {tenant}"), ids, rules, objects }
    }

    /// Creates or replaces objects of this tenant.
    pub(super) fn apply_of_tenant(
        &mut self,
        batch: Batch,
        tenant: &str,
        by: Origin,
        now: SystemTime,
    ) -> Result<Accepted, CoreError> {
        let objects_before = if batch.prune { self.count_of_tenant(tenant) } else { 0 };
        let changes = self.plan_of_tenant(batch, tenant)?;
        let accepted = self.change_objects(changes, by, now).map_err(|error| self.hide(error, tenant))?;
        Ok(Accepted { objects_before, ..accepted })
    }

    /// Deletes objects of this tenant.
    pub(super) fn delete_of_tenant<D: Into<Deletion>>(
        &mut self,
        objects: impl IntoIterator<Item = D>,
        tenant: &str,
        by: Origin,
        now: SystemTime,
    ) -> Result<Accepted, CoreError> {
        let tenancy = self.tenancy(tenant);
        let changes = tenancy.within(|scope| self.objects.plan_delete_within(objects, Some(scope)));
        let changes = changes.map_err(|faults| Refusal::Objects { faults })?;
        let accepted = self.change_objects(changes, by, now).map_err(|error| self.hide(error, tenant))?;
        // The number counts those of others.
        Ok(Accepted { objects_before: 0, ..accepted })
    }

    /// The changes that a batch of this tenant makes, or all its faults.
    fn plan_of_tenant(&self, batch: Batch, tenant: &str) -> Result<ChangeSet, CoreError> {
        let tenancy = self.tenancy(tenant);
        let changes = tenancy.within(|scope| self.objects.plan_within(batch, scope));
        let changes = changes.map_err(|faults| Refusal::Objects { faults })?;
        let faults = tenancy.strays(&changes);
        if faults.is_empty() { Ok(changes) } else { Err(Refusal::Objects { faults }.into()) }
    }

    /// Whether this tenant may change an object.
    pub(super) fn is_of_tenant(&self, object: &Object, tenant: &str) -> bool {
        self.tenancy(tenant).has(object)
    }

    /// The number of objects of this tenant. Takes a walk over all objects.
    fn count_of_tenant(&self, tenant: &str) -> usize {
        let tenancy = self.tenancy(tenant);
        self.objects.iter().filter(|(_, object)| tenancy.has(object)).count()
    }

    /// A refusal of a request of this tenant, as the tenant may read it.
    fn hide(&self, error: CoreError, tenant: &str) -> CoreError {
        let CoreError::Refused(refusal) = error else { return error };
        let tenancy = self.tenancy(tenant);
        let faults = match refusal {
            Refusal::Objects { faults } => faults,
            Refusal::Rules(_) => {
                let message = format!(
                    "the request contradicts itself, or objects that are not of {}; ask an operator to try it",
                    tenancy.owner
                );
                let (place, kind, id, path) = (None, None, None, String::new());
                vec![ObjectError { code: FaultCode::Refused, place, kind, id, path, message, expected: None }]
            }
            other => return other.into(),
        };
        Refusal::Objects { faults: tenancy.within(|scope| self.objects.hidden(faults, scope)) }.into()
    }

    /// Those problems that are of objects of this tenant, or of these objects of its request.
    pub(crate) fn problems_of_tenant(
        &self,
        problems: &[Arc<Problem>],
        changes: &ChangeSet,
        tenant: &str,
    ) -> Vec<Arc<Problem>> {
        let tenancy = self.tenancy(tenant);
        let own: HashSet<&ObjectKey> = changes.changes.iter().map(|change| &change.key).collect();
        let is_own = |key: &ObjectKey| {
            own.contains(key) || self.objects.get(key).is_some_and(|object| tenancy.sees(object))
        };
        let told = |problem: &Arc<Problem>| {
            let key = ObjectKey::new(problem.kind.as_str(), problem.id.as_str());
            if !is_own(&key) {
                return None;
            }
            let mut named = named_in(&problem.text).into_iter().filter(|key| self.objects.get(key).is_some());
            if named.all(|key| is_own(&key)) {
                return Some(problem.clone());
            }
            Some(Arc::new(Problem { text: hidden_text(tenant), ..(**problem).clone() }))
        };
        problems.iter().filter_map(told).collect()
    }
}

impl Tenancy<'_> {
    /// Whether the tenant may know an object in force: its own, and the one that declares it.
    fn sees(&self, object: &Object) -> bool {
        self.owner_of(object, &HashMap::new()).is_some_and(|owner| *owner == *self.tenant)
    }

    /// Whether the tenant may change an object in force.
    fn has(&self, object: &Object) -> bool {
        self.rules.relations.can_belong(object.kind().name()) && self.sees(object)
    }

    /// The tenant of an object, among these changes and the objects in force.
    fn owner_of(&self, object: &Object, changes: &HashMap<&ObjectKey, &Change>) -> Option<Arc<str>> {
        let find = |key: &ObjectKey| {
            let present = || self.objects.get(key);
            changes.get(key).map_or_else(present, |change| change.after.as_ref()).map(|object| &**object)
        };
        self.rules.relations.tenant(object, &find)
    }

    fn within<T>(&self, plan: impl FnOnce(&Scope<'_>) -> T) -> T {
        let (sees, has) = (|object: &Object| self.sees(object), |object: &Object| self.has(object));
        let kinds = |kind: &str| self.rules.relations.can_belong(kind);
        let ids = self.ids.as_deref();
        plan(&Scope { owner: &self.owner, kinds: &kinds, sees: &sees, has: &has, ids })
    }

    /// The faults of objects that would not belong to the tenant.
    fn strays(&self, changes: &ChangeSet) -> Vec<ObjectError> {
        let by_key = changes.changes.iter().map(|change| (&change.key, change)).collect();
        let stray = |change: &Change| {
            let after = change.after.as_ref()?;
            let owner = self.owner_of(after, &by_key);
            if owner.is_some_and(|owner| *owner == *self.tenant) {
                return None;
            }
            let path = self.rules.relations.owner_field(after).unwrap_or_default();
            let message = format!("must say that the object belongs to {}", self.owner);
            Some(fault(change, FaultCode::Refused, path, message))
        };
        changes.effective().filter(|change| change.outcome() != Outcome::Deleted).filter_map(stray).collect()
    }
}

/// What a tenant reads in the place of a text that names objects of others.
pub fn hidden_text(tenant: &str) -> String {
    format!("concerns objects that are not of tenant {tenant} too; ask an operator")
}

/// A fault of an object that a request names.
fn fault(change: &Change, code: FaultCode, path: &str, message: String) -> ObjectError {
    let error = ObjectError::of_object(code, &change.key, message);
    ObjectError { place: change.place.clone(), path: path.to_owned(), ..error }
}

#[cfg(test)]
mod tests;
