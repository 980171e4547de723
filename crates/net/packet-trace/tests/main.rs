//! Traces against the specification of the network, what responders answer, flows beside those of switches, and packets in words as frames.

mod frame;
mod live;
mod model;
mod responses;
