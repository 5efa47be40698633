//! Captures and graphs: what is recorded, what is refused, launches, parameters, updates.

mod capture;
mod launch;
mod parameters;
mod refused;
mod residency;
