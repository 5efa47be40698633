//! The model: every figure, what it means and where the H200's came from.

use crate::figure::{self, Figure};
use crate::{CostError, Link};
use std::collections::BTreeSet;
use std::time::Duration;

/// Makes the struct and all that goes through its figures one by one, out of one list.
macro_rules! model {
    (
        times { $( $(#[$time_doc:meta])* $time:ident, )* }
        rates { $( $(#[$rate_doc:meta])* $rate:ident, )* }
    ) => {
        /// What things cost on one machine. Times are for one operation, rates are bytes a second.
        ///
        /// Each figure says what it is on an H200 over PCIe 5 x16 with CUDA 13.0, measured as `docs/measuring.md` says, unless
        /// it says that it was fitted: then measured times of whole pieces of work were given, and the figure chosen so that
        /// the simulator's sum comes near (`docs/simulator-fidelity.md`).
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub struct CostModel {
            /// The machine.
            pub name: String,
            /// Where the figures came from.
            pub source: String,
            pub(crate) assumed: BTreeSet<&'static str>,
            $( $(#[$time_doc])* pub $time: Duration, )*
            $( $(#[$rate_doc])* pub $rate: f64, )*
        }

        impl CostModel {
            /// The names of the times, in the order of the fields.
            pub(crate) const TIMES: &[&'static str] = &[$( stringify!($time) ),*];
            /// The names of the rates, in the order of the fields.
            pub(crate) const RATES: &[&'static str] = &[$( stringify!($rate) ),*];

            /// All figures by name, times first.
            pub fn figures(&self) -> Vec<(&'static str, Figure)> {
                vec![
                    $( (stringify!($time), Figure::Time(self.$time)), )*
                    $( (stringify!($rate), Figure::Rate(self.$rate)), )*
                ]
            }

            /// Sets a checked figure; `None` if there is none of that name and kind.
            fn put(&mut self, name: &str, figure: Figure) -> Option<&'static str> {
                match (name, figure) {
                    $( (stringify!($time), Figure::Time(time)) => {
                        self.$time = time;
                        Some(stringify!($time))
                    } )*
                    $( (stringify!($rate), Figure::Rate(rate)) => {
                        self.$rate = rate;
                        Some(stringify!($rate))
                    } )*
                    _ => None,
                }
            }
        }
    };
}

model! {
    times {
        /// The host's part of a kernel launch. H200: 2.4 to 2.8 us, of 500 in a row.
        launch,
        /// A kernel that touches nothing, with the wait for it, without its launch. H200: 5 us, fitted.
        kernel,
        /// Setting an explicit copy up and waiting for it. H200: 6 us; a copy of 4 KiB from pinned memory takes 6.7 us.
        copy,
        /// A small `cudaMemcpy` (4 KiB) from pageable memory into device memory. H200: 6.5 us.
        pageable_to_device,
        /// A small `cudaMemcpy` (4 KiB) from device memory into pageable memory. H200: 9.2 us.
        device_to_pageable,
        /// A small `cudaMemcpy` (4 KiB) from pageable memory into managed memory that is on the device. H200: 13.0 us.
        pageable_to_managed,
        /// A small `cudaMemcpy` (4 KiB) from managed memory that is on the device into pageable memory. H200: 11.6 us.
        managed_to_pageable,
        /// What a staged copy to the device takes beside its bytes: a copy by several threads through pinned memory. H200:
        /// 60 us, fitted to 81 us for 1 MiB and 5.9 to 6.6 ms for 256 MiB.
        staged_to_device,
        /// The same from the device. H200: 75 us, fitted to 101 us for 1 MiB and 5.5 to 6.0 ms for 256 MiB.
        staged_to_host,
        /// Setting a prefetch that moves something up and waiting for it. H200: 12.5 us; one of 4 KiB takes 14.7 us.
        prefetch,
        /// A prefetch that finds everything there, with the wait for it. H200: 1.9 us, fitted.
        prefetch_resident,
        /// The same, for each 2 MiB looked at. H200: 0.87 us; 256 MiB that are there take 113 us.
        prefetch_block,
        /// Serving one group of GPU faults. H200: 30 us, fitted.
        gpu_fault_group,
        /// Each fault in a group. H200: 9 us, fitted.
        gpu_fault,
        /// Serving one CPU fault. H200: 17 us, fitted; 12 us when the fault brings 4 KiB.
        cpu_fault,
        /// First touch of 4 KiB of fresh managed memory by the host. H200: 0.95 us; 16 MiB take 3.4 ms.
        host_populate_page,
        /// `cudaMallocManaged`. H200: 3 us; with the free 3.6 us.
        managed_alloc,
        /// `cudaMalloc` below 1 MiB, served from memory already mapped. H200: 1 us; with the free 1.4 us.
        device_alloc_small,
        /// `cudaMalloc` from 1 MiB on. H200: 45 us; with the free 47 us.
        device_alloc,
        /// Stream-ordered and pool allocation. H200: 0.4 us; with the free 0.8 us.
        pool_alloc,
        /// Advice, before what it maps. H200: 0.8 us.
        advise,
        /// Recording an event. H200: 0.17 us.
        event_record,
        /// Asking an event or a stream. H200: 1.3 us.
        query,
        /// Making a stream wait for an event. H200: 0.16 us.
        stream_wait,
        /// Enqueuing anything else: the host's part of a copy, a memset, a prefetch. H200: 0.5 us, estimated.
        enqueue,
    }
    rates {
        /// Rate at which a kernel works through resident memory. H200: 500e9, what small kernels reach; large ones reach 4e12.
        kernel_rate,
        /// Rate at which a kernel reads or writes memory that stays on the other side of the link: pinned memory that is mapped,
        /// and managed memory that does not move. It is the rate of one direction; reading and writing go on at the same time.
        /// H200: 45e9 one way, 42e9 each way at once (256 MiB in and out in 6.3 ms).
        remote_rate,
        /// Rate at which one thread of the host copies memory, pinned or not: also what reading mapped memory costs the host.
        /// H200's host: 11e9 (a ring of pinned memory that one thread fills reaches 10e9 to 13e9).
        host_copy_rate,
        /// Rate of copies between the device and pinned memory. H200: 55.5e9.
        pinned_rate,
        /// Rate of `cudaMemcpy` between the device and pageable memory. H200: 16e9 (10e9 to 19e9 from 16 MiB on).
        pageable_rate,
        /// Rate of staged copies to the device. H200: 41e9 into managed memory (256 MiB in 6.57 ms); 48e9 where the threads
        /// have nothing else to do.
        staged_to_device_rate,
        /// Rate of staged copies from the device. H200: 45e9 (256 MiB of managed memory in 6.01 ms).
        staged_to_host_rate,
        /// Rate of copies inside one device, and of memset. H200: 2e12.
        device_rate,
        /// Rate of prefetches to the device. H200: 51e9 (256 MiB in 5.24 ms).
        prefetch_to_device_rate,
        /// Rate of prefetches to the host. H200: 24.5e9 (256 MiB in 10.9 ms).
        prefetch_to_host_rate,
        /// Rate of the copies that faults cause. H200: 25e9, fitted.
        fault_rate,
        /// Rate of populating fresh memory on the device. H200: 119e9 (256 MiB in 2.25 ms).
        device_populate_rate,
        /// Rate at which large pinned allocations are locked. H200's host: 3.8e9.
        pin_rate,
        /// Rate at which accessed-by advice maps resident memory. H200: 55e9 (256 MiB in 4.8 ms).
        map_rate,
    }
}

impl CostModel {
    /// The figures for a class of link, for machines that nobody has calibrated.
    pub fn built_in(link: Link) -> CostModel {
        match link {
            Link::Pcie3 => CostModel::pascal(),
            Link::Pcie4 => CostModel::ampere(),
            Link::Pcie5 => CostModel::h200(),
            Link::NvlinkC2c => CostModel::gh200(),
        }
    }

    /// The figures by name that were not measured on the machine that [`name`](Self::name) names, but taken from a built-in
    /// model. A field that a program sets by itself stays listed; [`set`](Self::set) takes it off.
    pub fn assumed(&self) -> impl Iterator<Item = &'static str> {
        self.assumed.iter().copied()
    }

    /// The same model with all figures listed as assumed: where a calibration begins.
    pub fn all_assumed(mut self) -> CostModel {
        self.assumed = Self::TIMES.iter().chain(Self::RATES).copied().collect();
        self
    }

    /// Sets a figure by name, as measured: it is no longer [`assumed`](Self::assumed).
    ///
    /// # Errors
    /// There is no such figure, or it is of the other kind, or the value is none that a machine can have.
    pub fn set(&mut self, name: &str, figure: Figure) -> Result<(), CostError> {
        figure.check(name)?;
        let field = name.to_owned();
        match self.put(name, figure) {
            Some(name) => {
                self.assumed.remove(name);
                Ok(())
            }
            None if Self::TIMES.contains(&name) => Err(CostError::Kind {
                field,
                wanted: "time",
            }),
            None if Self::RATES.contains(&name) => Err(CostError::Kind {
                field,
                wanted: "rate",
            }),
            None => Err(CostError::Unknown { field }),
        }
    }

    /// Checks every figure: a program may have set a field to anything.
    ///
    /// # Errors
    /// The first figure that no machine can have: a time above a quarter of an hour, or a rate that is not a number of bytes a
    /// second from 1e6 to 1e16.
    pub fn check(&self) -> Result<(), CostError> {
        self.figures()
            .into_iter()
            .try_for_each(|(name, figure)| figure.check(name))
    }

    /// Time that `bytes` take at a rate of this model.
    ///
    /// # Panics
    /// If the rate is no rate, or the time is too long for a `Duration`; neither happens with a model that passed
    /// [`check`](Self::check).
    pub fn at_rate(bytes: u64, rate: f64) -> Duration {
        Duration::from_secs_f64(bytes as f64 / rate)
    }
}

/// A figure out of the number that stands for it in JSON.
pub(crate) fn figure(name: &'static str, number: f64) -> Result<Figure, CostError> {
    if CostModel::TIMES.contains(&name) {
        figure::time(name, number).map(Figure::Time)
    } else {
        figure::rate(name, number).map(Figure::Rate)
    }
}
