//! The language: programs, diagnostics, layout, positions.

mod diagnostics;
mod files;
mod format;
mod functions;
mod libraries;
mod memory;
mod names_in_rules;
mod normal_form;
mod order;
mod pages;
mod positions;
mod robust;
mod support;
mod syntax;
mod syntax_highlighting;
mod syntax_mistakes;
mod workspace;
