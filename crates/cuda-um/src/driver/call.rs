//! One call of CUDA, and the table of calls.

use crate::driver::api::Api;
use crate::driver::check::{Code, Subject};
use crate::error::Result;
use crate::fork;
use crate::process_end::Calls;
use crate::sync::assert_no_lock_held;
use cuda_um_sys::cudaStream_t;
use std::marker::PhantomData;
use std::sync::atomic::Ordering;

/// A call that has begun: until it is dropped, the end of the process waits for it.
pub(super) struct Call<'a> {
    api: &'a Api,
    name: &'static str,
    /// `None` within an [`OnStream`], which has them.
    _calls: Option<Calls>,
}

/// A stream, and the proof that this thread may call CUDA.
#[derive(Clone, Copy)]
pub(crate) struct OnStream<'a> {
    pub(crate) raw: cudaStream_t,
    _calls: PhantomData<&'a Calls>,
}

impl<'a> OnStream<'a> {
    #[inline]
    pub(crate) fn new(raw: cudaStream_t, _: &'a Calls) -> Self {
        let _calls = PhantomData;
        Self { raw, _calls }
    }
}

impl Api {
    /// Begins a call of the function `name`. It is refused in a child made by `fork`, and when the process ends.
    #[inline]
    pub(super) fn begin(&self, name: &'static str) -> Result<Call<'_>> {
        Ok(Call {
            _calls: Some(Calls::of(name)?),
            api: self,
            name,
        })
    }

    #[inline]
    pub(super) fn within<'a>(&'a self, _on: OnStream<'a>, name: &'static str) -> Call<'a> {
        Call {
            _calls: None,
            api: self,
            name,
        }
    }

    /// Runs code of another library that calls CUDA.
    pub(crate) fn run_foreign<R>(&self, work: impl FnOnce() -> R) -> Result<R> {
        let _call = self.begin("work of another library")?;
        Ok(work())
    }

    /// Makes the device current. Returns the device that was current, if it is another one.
    #[inline]
    fn make_current(&self, ordinal: u32) -> Result<Option<u32>> {
        match self.has_one_device.load(Ordering::Relaxed) {
            true => Ok(None),
            false => self.make_one_of_many_current(ordinal),
        }
    }

    fn make_one_of_many_current(&self, ordinal: u32) -> Result<Option<u32>> {
        let (device, mut before) = (Some(ordinal), 0);
        // SAFETY: the pointer is valid for one write.
        let code = unsafe { (self.table.cudaGetDevice)(&mut before) };
        self.check("cudaGetDevice", code, device, || Subject::device(ordinal))?;
        let before = before as u32;
        if before == ordinal {
            return Ok(None);
        }
        let set = self.set_device(ordinal);
        match set {
            Ok(()) => Ok(Some(before)),
            // The error may come from earlier work, although the device was set.
            Err(_) => self.end(set, Some(before)).map(|()| None),
        }
    }

    /// Ends a call after an error, or on another device than the caller's, whose later calls would go to the wrong device.
    #[cold]
    fn end(&self, result: Result<()>, before: Option<u32>) -> Result<()> {
        fork::released(|| {
            let restored = before.map(|before| twice(|| self.set_device(before)));
            if let Some(Err(error)) = restored {
                crate::telemetry::warn!(%error, "the caller's current device could not be restored");
            }
        });
        result
    }

    fn set_device(&self, ordinal: u32) -> Result<()> {
        // SAFETY: any number is permitted; an unknown one is an error.
        let code = unsafe { (self.table.cudaSetDevice)(ordinal as i32) };
        let subject = || Subject::device(ordinal);
        self.check("cudaSetDevice", code, Some(ordinal), subject)
    }

    /// Binds the device's primary context to this thread. Functions of the driver require that; functions of the runtime bind it
    /// themselves.
    #[cold]
    fn bind(&self, ordinal: u32) -> Result<()> {
        self.set_device(ordinal)?;
        // Before CUDA 12, `cudaSetDevice` does not create a context.
        // SAFETY: freeing null does nothing.
        let code = unsafe { (self.table.cudaFree)(std::ptr::null_mut()) };
        self.check("cudaFree", code, Some(ordinal), || Subject::device(ordinal))
    }
}

/// Tries once more after an error that leaves the context usable.
fn twice<T>(work: impl Fn() -> Result<T>) -> Result<T> {
    work().or_else(|error| match error.is_sticky() {
        true => Err(error),
        false => work(),
    })
}

/// How a function is called, with the device of the call, which its error names.
#[derive(Clone, Copy)]
pub(super) enum How {
    /// The device is current during the call, and the caller's device afterwards.
    On(u32),
    /// In addition, the function waits for the device: the thread must hold no lock of the library.
    Waits(u32),
    /// In addition, the function releases a resource. If the device cannot be made current, nothing is released, so it is tried once more: no
    /// later call would release it.
    Releases(u32),
    /// The function does the same whichever device is current.
    Anywhere(u32),
    /// The function is of no device.
    Process,
}

impl Call<'_> {
    /// Calls the function, and converts its code.
    ///
    /// A function of the driver on a thread without a context (it has made no runtime call that needs one) gets one, and is called again, launches
    /// included. This is safe: the driver returns "invalid context" for its arguments before it does anything, and failed work does not leave
    /// this error for a later call (a corrupted context reports the cause, a destroyed one 709).
    // What is done for each `How` is decided at compile time.
    #[inline(always)]
    pub(super) fn run<C: Code>(
        &self,
        how: How,
        mut function: impl FnMut() -> C,
        subject: impl FnOnce() -> Subject,
    ) -> Result<()> {
        if let How::Waits(_) = how {
            assert_no_lock_held("a wait");
        }
        let before = match how {
            How::On(device) | How::Waits(device) => self.api.make_current(device)?,
            How::Releases(device) => twice(|| self.api.make_current(device))?,
            How::Anywhere(_) | How::Process => None,
        };
        let device = match how {
            How::On(it) | How::Waits(it) | How::Releases(it) | How::Anywhere(it) => Some(it),
            How::Process => None,
        };
        let mut is_bound = false;
        // In a loop, so that the function is called at one place, which is inlined.
        let code = loop {
            let code = function();
            match device {
                // Only for this code: any other may come from earlier work, although the call succeeded.
                Some(device) if C::NO_CONTEXT == Some(code.number()) && !is_bound => {
                    if let Err(error) = self.api.bind(device) {
                        return self.api.end(Err(error), before);
                    }
                    is_bound = true;
                }
                _ => break code,
            }
        };
        match code.number() == 0 && before.is_none() {
            true => Ok(()),
            false => self
                .api
                .end(self.api.check(self.name, code, device, subject), before),
        }
    }
}

/// The table of calls: a method of [`Api`] for each function of CUDA. An entry has
///
/// - the method: `ordinal` is the device; a call without it is of the whole process. After `->` is the place that the function writes, and after
///   `as` what the method returns instead;
/// - [`How`] it is called, if not `On` the device; `Within` the work on an [`OnStream`], it does not ask again if the thread may call CUDA;
/// - the function, in the `runtime` or the `driver`, or in `newer` or `newer_driver` if not every version has it. Without it the method returns
///   [`Error::NotSupported`](crate::Error::NotSupported);
/// - the subject of its errors, if it is not the device.
///
/// The method is `safe` if it passes only numbers and places of its own. Otherwise its documentation says what the caller promises.
macro_rules! calls {
    ($(
        $(#[$doc:meta])*
        $safety:ident fn $method:ident($($ordinal:ident)? $(, $argument:ident: $type:ty)* $(,)?)
            $(-> $out:ident: $place:ty $(as $returned:ty = $value:expr)?)?
            => $([$how:ident $($on:ident)?])? $table:ident.$function:ident($($passed:expr),* $(,)?)
            $(, of ($($subject:tt)*) $(.$more:ident($($about:tt)*))*)?;
    )*) => {
        impl $crate::driver::api::Api {$(
            calls!(@method $safety [$(#[$doc])*] $method(
                &self
                $(, $ordinal: u32)?
                $(, $argument: $type)*
            ) -> $crate::error::Result<calls!(@returned $($place $(as $returned)?)?)> {
                let call = calls!(@begin self [$($($on)?)?] stringify!($function));
                let function = calls!(@function $table self $function);
                $(let mut $out: $place = Default::default();)?
                let result = call.run(
                    calls!(@how $($how)? $($ordinal)?),
                    // SAFETY: the macro's documentation says which promises hold.
                    || unsafe { function($($passed),*) },
                    move || calls!(@subject $($ordinal)?
                        $(, of ($($subject)*) $(.$more($($about)*))*)?),
                );
                calls!(@result result $($out $(as $value)?)?)
            });
        )*}
    };
    (@method safe [$($doc:tt)*] $($method:tt)*) => { $($doc)* pub(crate) fn $($method)* };
    (@method unsafe [$($doc:tt)*] $($method:tt)*) => { $($doc)* pub(crate) unsafe fn $($method)* };
    (@returned) => { () };
    (@returned $place:ty) => { $place };
    (@returned $place:ty as $returned:ty) => { $returned };
    (@result $result:ident) => { $result };
    (@result $result:ident $out:ident) => { $result.map(|()| $out) };
    (@result $result:ident $out:ident as $value:expr) => { $result.and_then(|()| $value) };
    (@how $ordinal:ident) => { $crate::driver::call::How::On($ordinal) };
    (@how) => { $crate::driver::call::How::Process };
    (@how Within $ordinal:ident) => { $crate::driver::call::How::On($ordinal) };
    (@how $how:ident $ordinal:ident) => { $crate::driver::call::How::$how($ordinal) };
    (@begin $api:ident [] $name:expr) => { $api.begin($name)? };
    (@begin $api:ident [$on:ident] $name:expr) => { $api.within($on, $name) };
    (@function runtime $api:ident $function:ident) => { $api.table.$function };
    (@function driver $api:ident $function:ident) => { $api.table.driver()?.$function };
    (@function newer $api:ident $function:ident) => {
        $api.late(stringify!($function), $api.table.$function)?
    };
    (@function newer_driver $api:ident $function:ident) => {
        $api.late(stringify!($function), $api.table.driver()?.$function)?
    };
    (@subject $ordinal:ident) => { $crate::driver::check::Subject::device($ordinal) };
    (@subject $($ordinal:ident)?, of ($($subject:tt)*) $($more:tt)*) => {
        $crate::driver::check::Subject::new(format_args!($($subject)*)) $($more)*
    };
}

pub(super) use calls;
