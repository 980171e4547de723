//! The next hops that flows take, where there are several.
//!
//! Which next hop a flow takes is the network's choice, but not a new one for each packet: packets of one flow take one way
//! (RFC 2992, 1), on all hosts. A flow leaves its next hop only if that is no longer one of the next hops, or for one that
//! was added.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::packet::Flow;
use super::table::By;
use crate::World;

/// What has been chosen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices {
    taken: BTreeMap<(String, By, Flow), Taken>,
    /// The choices to make for the next frame, as numbers of next hops in order; then the first is taken.
    plan: Vec<usize>,
    /// The choices made for the last frame: the number, and how many there were.
    made: Vec<(usize, usize)>,
}

/// The next hop that a flow has taken, and those that there were.
#[derive(Clone, Debug)]
struct Taken {
    hop: IpAddr,
    among: BTreeSet<IpAddr>,
}

impl Choices {
    /// Plans the choices for the next frame.
    pub(crate) fn plan(&mut self, plan: Vec<usize>) {
        self.plan = plan;
    }

    /// A frame begins, or has ended: choices of others are not for it.
    pub(crate) fn begin(&mut self) {
        self.made.clear();
    }

    /// Drops what is left of the plan.
    pub(crate) fn end(&mut self) {
        self.plan.clear();
    }

    /// The plan for the next possibility, after those that were taken for the last frame.
    pub(crate) fn next_plan(&self) -> Option<Vec<usize>> {
        let last = self.made.iter().rposition(|(number, of)| number + 1 < *of)?;
        let mut plan: Vec<usize> = self.made[..=last].iter().map(|(number, _)| *number).collect();
        plan[last] += 1;
        Some(plan)
    }

    /// The next hop that a flow takes from a router, of those that an object names; none if there are none.
    pub(crate) fn choose(
        &mut self,
        router: &str,
        by: By,
        flow: Option<Flow>,
        hops: &BTreeSet<IpAddr>,
    ) -> Option<IpAddr> {
        let key = flow.map(|flow| (router.to_owned(), by, flow));
        let taken = key.as_ref().and_then(|key| self.taken.get(key));
        let stays = taken.filter(|taken| hops.contains(&taken.hop));
        let may = |hop: &&IpAddr| stays.is_none_or(|taken| taken.hop == **hop || !taken.among.contains(*hop));
        let open: Vec<IpAddr> = hops.iter().filter(may).copied().collect();
        let number = self.plan.get(self.made.len()).copied().unwrap_or(0);
        let hop = *open.get(number)?;
        self.made.push((number, open.len()));
        if let Some(key) = key {
            self.taken.insert(key, Taken { hop, among: hops.clone() });
        }
        Some(hop)
    }

    /// Forgets the choices of objects that are gone.
    pub(crate) fn revise(&mut self, world: &World) {
        self.taken.retain(|(router, by, _), _| {
            let of = match by {
                By::Route(id) => world.routes.get(id).map(|route| &route.router),
                By::Policy(id) => world.route_policies.get(id).map(|policy| &policy.router),
            };
            of == Some(router)
        });
    }
}
