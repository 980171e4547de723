//! Traces against the specification of the network, and flows beside those of switches.

mod live;
mod model;
