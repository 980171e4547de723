//! The ports that lose their interfaces with a transport node.

use std::collections::{BTreeSet, HashSet};

use objects::ChangeSet;

use super::Core;
use crate::harm::CutOff;

impl Core {
    /// The ports that stay and have their interfaces on these transport nodes, which are deleted.
    pub(super) fn cut_off(&self, deleted: &BTreeSet<String>, objects: &ChangeSet) -> Vec<CutOff> {
        if deleted.is_empty() {
            return Vec::new();
        }
        let gone = objects.effective().filter(|change| change.after.is_none());
        let gone: HashSet<&str> = gone.map(|change| &*change.key.id).collect();
        let of_node = |node: &String| {
            let ports = self.reports.ports_on(node);
            let stays = |port: &&str| self.objects.has_id(port) && !gone.contains(port);
            let ports: Vec<String> = ports.filter(stays).map(str::to_owned).collect();
            (!ports.is_empty()).then(|| CutOff { node: node.clone(), ports })
        };
        deleted.iter().filter_map(of_node).collect()
    }
}
