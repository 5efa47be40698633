//! The methods of all pools.

macro_rules! pool_methods {
    ($pool:ident) => {
        impl $pool {
            /// Releases the memory of which no buffer has a part to CUDA, and returns the released bytes.
            ///
            /// # Ordering
            ///
            /// Does not wait. Memory that former buffers' work still uses is freed when that work is done
            /// ([`Runtime::reclaim`](crate::Runtime::reclaim) waits for slabs of that kind), or stays in the driver's pool.
            #[doc(alias = "cudaMemPoolTrimTo")]
            pub fn trim(&self) -> usize {
                self.memory().trim()
            }

            /// The current statistics of the pool.
            pub fn stats(&self) -> $crate::resource::PoolStats {
                self.memory().stats()
            }

            /// The device of the pool.
            pub fn device(&self) -> &$crate::Device {
                self.owner()
            }
        }

        impl $crate::resource::MemoryResource for $pool {
            fn device(&self) -> &$crate::Device {
                self.device()
            }

            fn kind(&self) -> $crate::MemoryKind {
                self.memory().traits.kind
            }

            fn allocate(&self, bytes: usize) -> $crate::Result<Allocation> {
                self.take(bytes)
            }
        }

        debug!([] $pool, stringify!($pool), |it| device: it.device().ordinal(), kind: it.memory().traits.kind, options: it.memory().options, stats: it.stats());
    };
}
