//! Groups and the action sets in their buckets.

use std::str::FromStr;

use openflow_rs::{Action, Actions, ParseError};

use crate::Refused;

/// A group of type `all` or `indirect`: each bucket gets a copy of the packet.
///
/// ```
/// use flow_simulator::Group;
/// let group: Group = "group_id=7,type=all,bucket=bucket_id:1,actions=output:1,bucket=actions=output:2".parse()?;
/// assert_eq!((group.id, group.buckets.len()), (7, 2));
/// # Ok::<(), flow_simulator::Refused>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The id that flows refer to.
    pub id: u32,
    /// Whether it is of type `indirect`, which has exactly one bucket.
    pub indirect: bool,
    /// The buckets, in order.
    pub buckets: Vec<Bucket>,
}

/// One bucket of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its number within the group.
    pub id: u32,
    /// An action set; the written order has no effect.
    pub actions: Actions,
}

impl FromStr for Group {
    type Err = Refused;

    /// Reads the syntax of `ovs-ofctl add-group` and `dump-groups`, for the supported group types.
    fn from_str(text: &str) -> Result<Group, Refused> {
        let bad = || Refused::GroupText { text: text.to_owned() };
        let mut parts = text.split("bucket=");
        let (mut id, mut kind) = (None, "");
        for item in parts.next().unwrap_or("").split(',').map(str::trim).filter(|item| !item.is_empty()) {
            match item.split_once('=') {
                Some(("group_id", number)) => id = number.parse().ok(),
                Some(("type", name)) => kind = name,
                _ => return Err(bad()),
            }
        }
        if !matches!(kind, "all" | "indirect") {
            return Err(Refused::GroupKind(kind.to_owned()));
        }
        let mut buckets = Vec::new();
        for part in parts {
            let (head, actions) = part.split_once("actions=").ok_or_else(bad)?;
            let mut bucket = buckets.len() as u32;
            for item in head.split(',').filter(|item| !item.is_empty()) {
                let number = item.strip_prefix("bucket_id:").and_then(|number| number.parse().ok());
                bucket = number.ok_or_else(bad)?;
            }
            let actions: Actions = actions.trim_end_matches(',').parse().map_err(|e: ParseError| e)?;
            buckets.push(Bucket { id: bucket, actions });
        }
        Ok(Group { id: id.ok_or_else(bad)?, indirect: kind == "indirect", buckets })
    }
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
