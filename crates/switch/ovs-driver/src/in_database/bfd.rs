//! BFD sessions (RFC 5880) of tunnel ports, in column `bfd` of `Interface`. No I/O here.
//!
//! ovs-vswitchd runs the sessions and sets from them whether a port is live, which the buckets of a fast failover group watch. The
//! driver sets and clears the column of its own tunnel ports alone, but for one key: the responder of the host holds `cpath_down`, while
//! the driver may be connected or not. So the driver neither compares this key nor writes the column as a whole.

use std::collections::BTreeMap;

use ovsdb_client::open_vswitch::Interface;
use ovsdb_client::{Client, Condition, Datum, MonitorSpec, Mutation, Mutator, Operation};
use switch_model::{BfdSession, BfdSessions};
use uuid::Uuid;

use super::{Here, InDatabase};

const COLUMN: &str = "bfd";
/// The key of the responder: whether other switches are to see the port as down.
const HELD: &str = "cpath_down";

/// The driver's keys of the column, with their values.
type Settings = BTreeMap<String, String>;

/// The sessions of the driver's tunnel ports in the database.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    ports: BTreeMap<String, (Uuid, Settings)>,
}

impl InDatabase for BfdSessions {
    type Support = ();
    type View = View;

    fn monitor(spec: MonitorSpec) -> MonitorSpec {
        spec.where_present(Interface::TABLE, &[COLUMN])
    }

    fn support(_: &Client) {}

    fn view(here: &Here<'_>, (): ()) -> View {
        let read = |port: &&Interface| {
            let mut settings: Settings =
                here.replica.row(Interface::TABLE, port.uuid)?.get(COLUMN).unwrap_or_default();
            settings.remove(HELD);
            Some((port.name.clone(), (port.uuid, settings)))
        };
        View { ports: here.tunnels.iter().filter_map(read).collect() }
    }

    /// A port that does not exist gets no session.
    fn additions(view: &View, want: &BTreeMap<String, BfdSession>) -> Vec<Operation> {
        let wrong = want.iter().filter_map(|(name, session)| {
            let (port, found) = view.ports.get(name)?;
            corrected(*port, found, session.settings())
        });
        wrong.collect()
    }

    fn removals(view: &View, want: &BTreeMap<String, BfdSession>) -> Vec<Operation> {
        let gone = view.ports.iter().filter(|(name, _)| !want.contains_key(*name));
        gone.filter_map(|(_, (port, found))| corrected(*port, found, Settings::new())).collect()
    }
}

/// The operation that turns the settings of a port into others, key by key; none if they are right.
///
/// What the responder writes between the driver's reading and its writing stays.
fn corrected(port: Uuid, found: &Settings, mut wanted: Settings) -> Option<Operation> {
    let wrong: Vec<&str> = found
        .iter()
        .filter(|(key, value)| wanted.get(*key) != Some(value))
        .map(|(key, _)| key.as_str())
        .collect();
    let mut mutations = Vec::new();
    if !wrong.is_empty() {
        mutations.push(Mutation::new(COLUMN, Mutator::Delete, Datum::set(wrong)));
    }
    wanted.retain(|key, value| found.get(key) != Some(value));
    if !wanted.is_empty() {
        // An insert keeps the value of a key that somebody else has written meanwhile. It is corrected when the database tells of it.
        mutations.push(Mutation::new(COLUMN, Mutator::Insert, Datum::map(wanted)));
    }
    let is_wrong = !mutations.is_empty();
    is_wrong.then(|| Operation::mutate(Interface::TABLE, vec![Condition::uuid(port)], mutations))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn mutations(found: &[(&str, &str)], wanted: &[(&str, &str)]) -> Vec<Mutation> {
        match corrected(Uuid::nil(), &settings(found), settings(wanted)) {
            Some(Operation::Mutate { mutations, .. }) => mutations,
            None => Vec::new(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_keys_that_differ_are_written() {
        let delete = |keys: &[&str]| Mutation::new(COLUMN, Mutator::Delete, Datum::set(keys.to_vec()));
        let insert =
            |pairs: &[(&str, &str)]| Mutation::new(COLUMN, Mutator::Insert, Datum::map(settings(pairs)));
        let wanted = [("enable", "true"), ("min_tx", "300")];
        assert_eq!(mutations(&wanted, &wanted), []);
        assert_eq!(mutations(&[], &wanted), [insert(&wanted)]);
        assert_eq!(mutations(&wanted, &[]), [delete(&["enable", "min_tx"])]);
        let found = [("decay_min_rx", "1"), ("enable", "true"), ("min_tx", "200")];
        let keys = [delete(&["decay_min_rx", "min_tx"]), insert(&[("min_tx", "300")])];
        assert_eq!(mutations(&found, &wanted), keys);
    }
}
