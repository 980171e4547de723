//! Traces against the specification of the network.

mod model;
