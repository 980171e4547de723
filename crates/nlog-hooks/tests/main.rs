//! Hooks compared with recomputing their result.

mod connected_components;
mod hooked;
mod hysteresis;
mod random;
mod support;
