//! Traces against the specification of the network, flows beside those of switches, and packets in words as frames.

mod frame;
mod live;
mod model;
