//! The CPU's view, which waits for the GPU.

use super::numbers;
use crate::support::kernel::Double;
use crate::support::on_each;

#[test]
fn host_view() {
    on_each(|machine| {
        let backend = machine.backend();
        let double = Double::load(backend.device());
        let mut buffer = backend.allocate_unified(5000).unwrap();
        {
            let mut view = buffer.as_slice_mut().unwrap();
            view.copy_from_slice(&numbers(5000));
            view[3] = 30.0;
        }
        // The view waits for the kernel, which may be only enqueued.
        double.launch(backend.device(), &mut buffer).unwrap();
        {
            let view = buffer.as_slice().unwrap();
            assert_eq!(
                (view.len(), view[1], view[3], view[4999]),
                (5000, 2.0, 60.0, 9998.0)
            );
            assert_eq!(view.as_ptr(), buffer.as_ptr());
        }
        let pointer = buffer.as_mut_ptr();
        assert_eq!(
            pointer.cast_const(),
            buffer.as_ptr(),
            "there is one pointer"
        );
        double.launch(backend.device(), &mut buffer).unwrap();
        assert_eq!(buffer.as_slice_mut().unwrap()[4999], 19996.0);
        assert_eq!(buffer.as_ptr(), pointer.cast_const(), "it stays the same");
    });
}
