//! The controllers of a bridge that one owner sets, beside those of others.

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use super::Bridge;
use crate::row::{ColumnError, Row};
use crate::transact::{Condition, Mutation, Mutator, Operation};
use crate::value::{Atom, Datum};

/// A row of table `Controller`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// The UUID of the row.
    pub uuid: Uuid,
    /// Where the bridge connects to or listens, such as `tcp:192.0.2.1:6653` or `ptcp:6653`.
    pub target: String,
    /// Keys of other programs.
    pub external_ids: BTreeMap<String, String>,
}

impl Controller {
    /// The table.
    pub const TABLE: &str = "Controller";
    /// The columns that [`from_row`](Self::from_row) reads.
    pub(crate) const COLUMNS: &[&str] = &["target", "external_ids"];

    /// Converts a row that has at least these columns.
    pub fn from_row(uuid: Uuid, row: &Row) -> Result<Self, ColumnError> {
        Ok(Controller { uuid, target: row.get("target")?, external_ids: row.get("external_ids")? })
    }

    /// Whether the bridge waits for connections at this target. Setting such a controller, or removing it, leaves flows alone; the
    /// first controller that the bridge connects to by itself makes it discard all of them.
    pub fn is_passive(&self) -> bool {
        ["ptcp:", "pssl:", "punix:"].iter().any(|method| self.target.starts_with(method))
    }
}

/// The method and the TCP port of a target with the method `ptcp:` or `pssl:`, and the address, if it is bound to one.
fn port(target: &str) -> Option<((&str, u16), Option<&str>)> {
    let (method, address) =
        target.split_once(':').filter(|(method, _)| matches!(*method, "ptcp" | "pssl"))?;
    let (port, host) = match address.split_once(':') {
        Some((port, host)) => (port, Some(host).filter(|host| !["", "0.0.0.0", "[::]"].contains(host))),
        None => (address, None),
    };
    let port = if port.is_empty() { OPENFLOW_PORT } else { port.parse().ok()? };
    Some(((method, port), host))
}

/// The port of a target without one.
const OPENFLOW_PORT: u16 = 6653;

/// The OpenFlow connections between a bridge and the owner of this mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connecting {
    /// The external id of the owner's rows.
    pub mark: (&'static str, &'static str),
    /// Where the bridge waits (`ptcp:`, `pssl:`), or where it dials (`tcp:`, `ssl:`); `None` for nowhere.
    pub target: Option<String>,
}

impl Connecting {
    fn row(&self, target: &str) -> Row {
        let row =
            Row::new(Controller::TABLE).with("target", target).with("external_ids", Datum::map([self.mark]));
        // Otherwise a bridge whose controller was away for a while would dial it after eight seconds only.
        if port(target).is_none() { row.with("max_backoff", BACKOFF_MAX) } else { row }
    }

    fn is_own(&self, controller: &Controller) -> bool {
        controller.external_ids.get(self.mark.0).is_some_and(|value| value == self.mark.1)
    }

    /// Whether somebody else lets the bridge wait at this target, or dial it.
    fn is_covered<'a>(&self, target: &str, controllers: impl Iterator<Item = &'a Controller>) -> bool {
        let wanted = port(target);
        controllers.filter(|controller| !self.is_own(controller)).any(|controller| {
            if wanted.is_none() {
                return controller.target == target;
            }
            let there = port(&controller.target);
            there.is_some_and(|(port, host)| {
                wanted.is_some_and(|wanted| wanted.0 == port && (host.is_none() || wanted.1 == host))
            })
        })
    }

    /// The rows of the owner to remove, and the target to add. What others have set stays, and suffices if the bridge waits at the
    /// port, or dials the target, because of it.
    fn difference<'a>(
        &self,
        controllers: impl Iterator<Item = &'a Controller> + Clone,
    ) -> (BTreeSet<Uuid>, Option<&str>) {
        let wanted = self.target.as_deref().filter(|target| !self.is_covered(target, controllers.clone()));
        let (mut unwanted, mut missing) = (BTreeSet::new(), wanted);
        for controller in controllers.filter(|controller| self.is_own(controller)) {
            if missing == Some(controller.target.as_str()) {
                missing = None;
            } else {
                unwanted.insert(controller.uuid);
            }
        }
        (unwanted, missing)
    }

    /// Whether the bridge with these controllers waits or dials where it should, and no other one is the owner's.
    pub fn is_met<'a>(&self, controllers: impl Iterator<Item = &'a Controller> + Clone) -> bool {
        self.difference(controllers) == (BTreeSet::new(), None)
    }

    /// The operations that a new bridge needs, and its column `controller`.
    pub(super) fn creation(&self) -> (Option<Operation>, Datum) {
        match &self.target {
            Some(target) => {
                let insert = Operation::insert_named(NAME, self.row(target));
                (Some(insert), Datum::set([Atom::NamedUuid(NAME.to_owned())]))
            }
            None => (None, Datum::set::<Atom>([])),
        }
    }

    /// The operations that correct a bridge; none if it is right. Rows of `Controller` that no bridge has go by themselves.
    pub fn corrections<'a>(
        &self,
        bridge: Uuid,
        controllers: impl Iterator<Item = &'a Controller> + Clone,
    ) -> Vec<Operation> {
        let (unwanted, missing) = self.difference(controllers);
        let mut operations = Vec::new();
        let mut mutations = Vec::new();
        if !unwanted.is_empty() {
            mutations.push(Mutation::new("controller", Mutator::Delete, Datum::set(unwanted)));
        }
        if let Some(target) = missing {
            operations.push(Operation::insert_named(NAME, self.row(target)));
            let row = Datum::named_uuid(NAME);
            mutations.push(Mutation::new("controller", Mutator::Insert, row));
        }
        if !mutations.is_empty() {
            operations.push(Operation::mutate(Bridge::TABLE, vec![Condition::uuid(bridge)], mutations));
        }
        operations
    }
}

/// The name of the inserted row within its transaction.
const NAME: &str = "connecting";

/// The longest pause of a bridge between two attempts to dial, in milliseconds.
const BACKOFF_MAX: i64 = 2000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d27_what_others_have_set_stays_and_may_suffice() {
        let mark = ("weft", "openflow");
        let row = |n: u128, target: &str, own: bool| Controller {
            uuid: Uuid::from_u128(n),
            target: target.to_owned(),
            external_ids: own.then(|| (mark.0.to_owned(), mark.1.to_owned())).into_iter().collect(),
        };
        let connecting = Connecting { mark, target: Some("ptcp:6653:10.0.0.1".to_owned()) };
        for (there, unwanted, missing) in [
            (vec![], vec![], true),
            (vec![row(1, "ptcp:6653:10.0.0.1", true)], vec![], false),
            (vec![row(1, "ptcp:6653:10.0.0.1", true), row(2, "ptcp:6654", true)], vec![2], false),
            (vec![row(1, "ptcp:6654:10.0.0.1", true), row(2, "tcp:10.0.0.9:6653", false)], vec![1], true),
            (vec![row(1, "ptcp:6653", false), row(2, "ptcp:6653:10.0.0.1", true)], vec![2], false),
            (vec![row(1, "ptcp:", false)], vec![], false),
            (vec![row(1, "ptcp:6653:0.0.0.0", false)], vec![], false),
            (vec![row(1, "ptcp:6653:10.0.0.1", false)], vec![], false),
            (vec![row(1, "ptcp:6653:127.0.0.1", false)], vec![], true),
            (vec![row(1, "ptcp:6640", false)], vec![], true),
            // Another protocol at the port.
            (vec![row(1, "pssl:6653:10.0.0.1", false)], vec![], true),
        ] {
            let found = connecting.difference(there.iter());
            let wanted = unwanted.iter().map(|n| Uuid::from_u128(*n)).collect();
            assert_eq!(found, (wanted, missing.then_some("ptcp:6653:10.0.0.1")), "{there:?}");
        }
        let secure = Connecting { mark, target: Some("pssl:6653:10.0.0.1".to_owned()) };
        assert!(secure.is_met([row(1, "pssl:6653", false)].iter()));
        assert!(!secure.is_met([row(1, "ptcp:6653", false)].iter()));
        let nowhere = Connecting { mark, target: None };
        let rows = [row(1, "ptcp:6653:10.0.0.1", true), row(2, "ptcp:6653", false)];
        assert_eq!(nowhere.difference(rows.iter()), ([Uuid::from_u128(1)].into(), None));
    }
}
