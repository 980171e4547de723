//! The groups that a bridge accepts, and the action sets in their buckets.

use std::collections::BTreeSet;

use openflow_rs::{Action, Actions, Field, GroupEntry, GroupKind, PortNo, SelectionMethod};

use crate::Refused;
use crate::choice::watches;

/// Refuses a group that a switch refuses, or whose choice of a bucket is not interpreted.
pub(crate) fn check_group(group: &GroupEntry) -> Result<(), Refused> {
    let id = group.id;
    if group.kind == GroupKind::Indirect && group.buckets.len() != 1 {
        return Err(Refused::Buckets(group.buckets.len()));
    }
    if group.kind == GroupKind::Select {
        check_selection(group)?;
    } else if group.selection.is_some() {
        return Err(Refused::Selection { group: id, why: "only a select group has a selection method" });
    }
    let mut ids = BTreeSet::new();
    for bucket in &group.buckets {
        let refused = |why| Err(Refused::Bucket { group: id, bucket: bucket.id, why });
        if !ids.insert(bucket.id) {
            return refused("another bucket has this number");
        }
        if bucket.weight != 0 && group.kind != GroupKind::Select {
            return refused("only a bucket of a select group has a weight");
        }
        match group.kind {
            GroupKind::All | GroupKind::Indirect if watches(bucket) => {
                return refused("a bucket that watches a port or group is in a group of type select or ff");
            }
            GroupKind::FastFailover if !watches(bucket) => {
                return refused("a bucket of a group of type ff watches a port or group");
            }
            _ => {}
        }
        if bucket.watch_port == PortNo::CONTROLLER {
            return refused("there is no controller to watch here");
        }
        if let Some(action) = misplaced(&bucket.actions) {
            return Err(Refused::InBucket(Box::new(action.clone())));
        }
    }
    Ok(())
}

fn check_selection(group: &GroupEntry) -> Result<(), Refused> {
    let refused = |why| Err(Refused::Selection { group: group.id, why });
    let Some(selection) = group.selection.as_ref() else {
        return refused(
            "without a selection method, the datapath chooses: write selection_method=hash,fields(…)",
        );
    };
    match selection.method {
        SelectionMethod::DpHash => {
            refused("the datapath's hash is not known: write selection_method=hash,fields(…)")
        }
        SelectionMethod::Hash if selection.fields().is_empty() => {
            refused("the fields to hash are missing: write selection_method=hash,fields(…)")
        }
        SelectionMethod::Hash if selection.fields().iter().any(|(field, _)| !is_known(*field)) => {
            refused("it hashes a field that packets do not have here, such as dp_hash or mpls_label")
        }
        SelectionMethod::Hash => Ok(()),
    }
}

/// Whether packets have the field here as in a switch.
fn is_known(field: Field) -> bool {
    let unknown = [
        Field::DpHash,
        Field::ConjId,
        Field::ActsetOutput,
        Field::PacketType,
        Field::InPortOxm,
        Field::TunFlags,
        Field::TunMetadata0,
        Field::MplsLabel,
        Field::MplsTc,
        Field::MplsBos,
        Field::MplsTtl,
    ];
    !unknown.contains(&field)
}

/// The place of an action in an action set (`ofpacts_execute_action_set` of Open vSwitch).
enum Place {
    /// In this order, before everything else; of several, the last takes effect.
    Slot(u8),
    /// Changes in the written order.
    Change,
    /// At the end; only the one with the highest rank takes effect, and of several the last.
    Final(u8),
    /// Not at all.
    Nowhere,
}

fn place(action: &Action) -> Place {
    match action {
        Action::PopVlan(_) => Place::Slot(0),
        Action::PushVlan(_) => Place::Slot(1),
        Action::DecTtl(_) => Place::Slot(2),
        Action::SetField(_) | Action::MoveBits(_) | Action::SetTtl(_) | Action::SetQueue(_) => Place::Change,
        Action::CtClear(_) => Place::Final(0),
        Action::Resubmit(_) => Place::Final(1),
        Action::Output(_) => Place::Final(2),
        Action::Group(_) => Place::Final(3),
        _ => Place::Nowhere,
    }
}

/// The first action that an action set cannot hold.
pub(crate) fn misplaced(actions: &Actions) -> Option<&Action> {
    actions.0.iter().find(|action| matches!(place(action), Place::Nowhere))
}

/// The actions in the order in which an action set is executed; none if no packet leaves it.
pub(crate) fn in_order(actions: &Actions) -> Vec<&Action> {
    let mut slots: [Option<&Action>; 3] = [None; 3];
    let (mut changes, mut last): (Vec<&Action>, Option<(u8, &Action)>) = (Vec::new(), None);
    for action in &actions.0 {
        match place(action) {
            Place::Slot(slot) => slots[usize::from(slot)] = Some(action),
            Place::Change => changes.push(action),
            Place::Final(rank) if last.is_none_or(|(highest, _)| rank >= highest) => {
                last = Some((rank, action));
            }
            Place::Final(_) | Place::Nowhere => {}
        }
    }
    let Some((_, last)) = last else { return Vec::new() };
    slots.into_iter().flatten().chain(changes).chain([last]).collect()
}
