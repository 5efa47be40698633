//! What a failure's text says beyond its code: a real driver logs such things, and the texts of its codes are fixed.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::sync::LazyLock;

use cuda_um_sys::locks::Mutex;

use super::status::Code;

/// The most texts that a process keeps: a caller may hold on to the text of an error for ever.
const MOST: usize = 4096;

static TEXTS: LazyLock<Mutex<HashSet<&'static CStr>>> = LazyLock::new(Mutex::default);

thread_local! {
    /// What the call that runs now says about its failure.
    static NEXT: RefCell<Option<String>> = const { RefCell::new(None) };
    /// The code and the text of this thread's last call that failed, if it said more than the code.
    static LAST: Cell<Option<(Code, &'static CStr)>> = const { Cell::new(None) };
}

/// The code of the failing call; the call's error text will say this, too.
pub(crate) fn detailed(code: Code, detail: String) -> Code {
    // The detail of a thread that is ending is lost.
    let _ = NEXT.try_with(|next| next.replace(Some(detail)));
    code
}

/// Takes what the call that runs now says about its failure.
pub(crate) fn take_detail() -> Option<String> {
    NEXT.try_with(RefCell::take).ok().flatten()
}

/// A call of this thread failed with this code.
pub(crate) fn call_failed(code: Code) {
    let text = take_detail().and_then(|detail| text_of(code, &detail));
    let _ = LAST.try_with(|last| last.set(text.map(|text| (code, text))));
}

/// The text of this thread's last failure, if it has this code and said more.
pub(crate) fn last_text(code: Code) -> Option<&'static CStr> {
    let (last, text) = LAST.try_with(Cell::get).ok()??;
    (last == code).then_some(text)
}

/// The code's text with a detail, for as long as the process lives; `None` if there are too many.
pub(crate) fn text_of(code: Code, detail: &str) -> Option<&'static CStr> {
    let (_, description) = code.describe()?;
    let text = CString::new(format!("{description}: {}", detail.replace('\0', " "))).ok()?;
    let mut texts = TEXTS.lock();
    if let Some(known) = texts.get(text.as_c_str()) {
        return Some(known);
    }
    if texts.len() >= MOST {
        return None;
    }
    let text: &'static CStr = Box::leak(text.into_boxed_c_str());
    texts.insert(text);
    Some(text)
}
