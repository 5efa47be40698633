//! What the errors about kernels say: the texts of codes, the compiler's log, the parameters.

use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use cuda_um_sys::CUresult;

use crate::support::{Cuda, PTX, call, h200};

/// The driver's text of a code.
pub(crate) fn driver_text(cuda: &Cuda, code: u32) -> String {
    let driver = cuda.table.driver().unwrap();
    let mut text = std::ptr::null();
    let found = call!(driver, cuGetErrorString(CUresult(code), &mut text));
    assert_eq!(found.0, 0);
    // SAFETY: as in `runtime_text`.
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

#[test]
fn a_kernel_that_cannot_run_is_named_in_the_text_of_its_error() {
    let cuda = h200();
    let driver = cuda.table.driver().unwrap();
    let (mut module, mut function) = (null_mut(), null_mut());
    let image = CString::new(PTX).unwrap();
    call!(driver, cuModuleLoadData(&mut module, image.as_ptr().cast()));
    let name = c"unsupported".as_ptr();
    let code = call!(driver, cuModuleGetFunction(&mut function, module, name));
    assert_eq!(code.0, 209);
    let text = driver_text(&cuda, 209);
    assert!(
        text.contains("`unsupported`") && text.contains("line"),
        "{text}"
    );
    assert!(!driver_text(&cuda, 218).contains("unsupported"));
    let elsewhere = std::thread::scope(|scope| {
        let other = scope.spawn(|| driver_text(&cuda, 209));
        other.join().unwrap()
    });
    assert!(
        !elsewhere.contains("unsupported"),
        "another thread: {elsewhere}"
    );
    let name = c"missing".as_ptr();
    call!(driver, cuModuleGetFunction(&mut function, module, name));
    let later = driver_text(&cuda, 209);
    assert!(!later.contains("unsupported"), "a later failure: {later}");
}
