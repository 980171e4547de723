//! The next hops that flows take, where there are several.
//!
//! Which next hop a flow takes is the network's choice, but not a new one for each packet: packets of one flow take one way
//! (RFC 2992, 1), on all hosts. A flow leaves its next hop only if that is no longer one of the next hops, or for one that
//! was added.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::objects::{Route, RoutePolicy};
use super::packet::Flow;
use super::table::By;
use crate::World;

/// What has been chosen so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choices {
    /// What each flow may have taken: one thing, unless nobody saw what became of a packet. None: nothing yet.
    taken: BTreeMap<(String, By, Flow), BTreeSet<Option<Taken>>>,
    /// The choices to make for the next frame, as numbers of next hops in order; then the first is taken.
    plan: Vec<usize>,
    /// The choices made for the last frame: the number, and how many there were.
    made: Vec<(usize, usize)>,
}

/// The next hop that a flow has taken, and those that there were.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Taken {
    hop: IpAddr,
    among: BTreeSet<IpAddr>,
}

impl Taken {
    /// Whether the flow may take a next hop now, of these.
    fn allows(&self, hop: IpAddr, hops: &BTreeSet<IpAddr>) -> bool {
        !hops.contains(&self.hop) || self.hop == hop || !self.among.contains(&hop)
    }
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

    /// One of several things that may become of a frame, by its number: the first, unless the plan says otherwise.
    pub(crate) fn decide(&mut self, of: usize) -> usize {
        let number = self.plan.get(self.made.len()).copied().unwrap_or(0);
        self.made.push((number, of));
        number
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
        let allows = |taken: &Option<Taken>, hop| taken.as_ref().is_none_or(|taken| taken.allows(hop, hops));
        let may = |hop: &&IpAddr| taken.is_none_or(|all| all.iter().any(|taken| allows(taken, **hop)));
        let open: Vec<IpAddr> = hops.iter().filter(may).copied().collect();
        let number = self.plan.get(self.made.len()).copied().unwrap_or(0);
        let hop = *open.get(number)?;
        self.made.push((number, open.len()));
        if let Some(key) = key {
            self.taken.insert(key, BTreeSet::from([Some(Taken { hop, among: hops.clone() })]));
        }
        Some(hop)
    }

    /// Takes in what else may have been chosen.
    pub(crate) fn unite(&mut self, other: Choices) {
        let nothing = || BTreeSet::from([None]);
        for (key, taken) in &mut self.taken {
            taken.extend(other.taken.get(key).cloned().unwrap_or_else(nothing));
        }
        for (key, taken) in other.taken {
            self.taken.entry(key).or_insert_with(|| taken.into_iter().chain(nothing()).collect());
        }
    }

    /// Forgets the choices of objects that are gone, and next hops that are: if one comes back, it is a new one.
    pub(crate) fn revise(&mut self, world: &World) {
        self.taken.retain(|(router, by, _), taken| {
            let named = match by {
                By::Route(id) => {
                    world.routes.get(id).filter(|route| route.router == *router).map(Route::hops)
                }
                By::Policy(id) => world
                    .route_policies
                    .get(id)
                    .filter(|policy| policy.router == *router)
                    .map(RoutePolicy::hops),
            };
            let known = |hop: &IpAddr| {
                named.is_some_and(|named| named.contains(hop)) && world.may_have_neighbour(router, *hop)
            };
            *taken = std::mem::take(taken)
                .into_iter()
                .map(|taken| taken.filter(|taken| known(&taken.hop)))
                .map(|taken| {
                    taken.map(|taken| Taken {
                        among: taken.among.into_iter().filter(known).collect(),
                        ..taken
                    })
                })
                .collect();
            taken.iter().any(Option::is_some)
        });
    }
}
