//! Hooks against computing their result anew.

mod connected_components;
mod hooked;
mod hysteresis;
mod random;
mod support;
mod wiring;
