//! Hooks compared with recomputing their result.

mod allocate;
mod connected_components;
mod edits;
mod hold;
mod hooked;
mod hysteresis;
mod pick;
mod random;
mod support;
