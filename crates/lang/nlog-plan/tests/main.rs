//! Plans, their cost and their text.

/// The program generator of the dataflow's tests.
#[path = "../../nlog-dataflow/tests/support"]
#[allow(dead_code, reason = "part of it is for engines")]
mod programs {
    pub(crate) mod generate;
    pub(crate) use test_random::Random;
}
mod support {
    pub(crate) mod interpreter;
}

mod orders;
mod plans;
mod random;
mod statistics;
