//! The engines against the reference evaluator.

mod counts;
mod engine;
mod figure6;
mod forbid;
mod large;
mod life;
mod live;
mod merged;
mod operator;
mod order;
mod processes;
mod random;
mod replaced;
mod rules;
mod soak;
mod support;
mod work;
