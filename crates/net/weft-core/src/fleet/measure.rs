//! The network between the hosts: orders for drivers to measure it, and their answers.

use std::sync::Arc;

use super::{DriverOrder, Fleet, News, SwitchNews};
use crate::core::{Problem, ProblemChanges};
use crate::derived::probe_plan::ProbePlan;
use crate::levels::Moment;
use crate::underlay::{Measured, Order, Time};

impl Fleet {
    /// Whether the switch of a transport node is connected and has all that it should have.
    pub(crate) fn is_ready(&self, node: &str) -> bool {
        self.switches.get(node).is_some_and(|switch| switch.up.len() == 2 && switch.reconciled)
    }

    /// When something is to be measured or stated.
    pub(crate) fn measures_at(&self) -> Option<Moment> {
        self.underlay.next()
    }

    /// Lets drivers measure what is due.
    pub(crate) fn measure(&mut self, plan: &ProbePlan) {
        let now = self.now();
        let mut underlay = std::mem::take(&mut self.underlay);
        let orders = underlay.orders(plan, |node| self.is_ready(node), now);
        self.underlay = underlay;
        for order in orders {
            let (Order::Send { host, .. } | Order::Count { host, .. }) = &order;
            // A switch that is ready has a driver.
            let Some(driver) = self.driver(host) else { continue };
            let node = host.to_string();
            self.told.push(match order {
                Order::Send { number, packets, .. } => DriverOrder::Send { driver, node, number, packets },
                Order::Count { table, covers, .. } => DriverOrder::Count { driver, node, table, covers },
            });
        }
    }

    /// Takes the answer of a driver to such an order. Returns other news.
    pub(crate) fn measured_news(&mut self, plan: &ProbePlan, news: SwitchNews) -> Option<SwitchNews> {
        let now = Time { moment: self.now(), wall: self.now.wall };
        match news.what {
            News::Sent(number, result) => {
                self.underlay.sent(plan, &news.node, number, result.is_ok(), now.moment);
                None
            }
            News::Counted(answer) => {
                self.underlay.counted(plan, &news.node, answer, now);
                None
            }
            _ => Some(news),
        }
    }

    /// States what is wrong with the network between the hosts, if it is time. `kind` is that of transport nodes. Returns what has changed.
    pub(crate) fn state_underlay(&mut self, plan: &ProbePlan, kind: &str) -> Option<ProblemChanges> {
        let now = self.now();
        self.underlay.state(plan, kind, now)
    }

    /// What was stated last.
    pub(crate) fn underlay_problems(&self) -> impl Iterator<Item = &Arc<Problem>> {
        self.underlay.problems().iter()
    }

    /// What was measured of the tunnels of a transport node, or of all.
    pub(crate) fn measured(&self, plan: &ProbePlan, node: Option<&str>) -> Vec<Measured> {
        self.underlay.measured(plan, node, |node| self.is_ready(node))
    }
}
