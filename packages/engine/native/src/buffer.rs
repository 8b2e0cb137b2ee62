//! Big zeroed float buffers: aligned, fallible, on huge pages where the system offers them.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::{Deref, DerefMut};

use crate::error::EngineError;

const HUGE_PAGE: usize = 2 << 20;
/// Allocations from this size on are compared with what the system has.
const WORTH_LOOKING: usize = 64 << 20;

/// Bytes the system can still hand out, where it says so.
fn available_memory() -> Option<usize> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
    line.split_whitespace().nth(1)?.parse::<usize>().ok()?.checked_mul(1024)
}

#[cfg(target_os = "linux")]
unsafe extern "C" {
    fn madvise(address: *mut u8, length: usize, advice: i32) -> i32;
}

pub struct Buffer {
    pointer: *mut f32,
    len: usize,
}

unsafe impl Send for Buffer {}
unsafe impl Sync for Buffer {}

impl Buffer {
    pub const fn empty() -> Buffer {
        Buffer { pointer: std::ptr::NonNull::<f32>::dangling().as_ptr(), len: 0 }
    }

    fn layout(len: usize) -> Option<Layout> {
        let bytes = len.checked_mul(4)?;
        Layout::from_size_align(bytes, if bytes >= 2 * HUGE_PAGE { HUGE_PAGE } else { 64 }).ok()
    }

    pub fn zeroed(len: usize, what: &str) -> Result<Buffer, EngineError> {
        if len == 0 {
            return Ok(Buffer::empty());
        }
        let failed = || EngineError::memory(what, len.saturating_mul(4));
        let layout = Self::layout(len).ok_or_else(failed)?;
        // Systems that overcommit hand out what they do not have and kill the process when it is touched: look first.
        if layout.size() >= WORTH_LOOKING && available_memory().is_some_and(|available| layout.size() > available) {
            return Err(failed());
        }
        let pointer = unsafe { alloc_zeroed(layout) };
        if pointer.is_null() {
            return Err(failed());
        }
        #[cfg(target_os = "linux")]
        if layout.align() == HUGE_PAGE {
            const MADV_HUGEPAGE: i32 = 14;
            // Advice only; a refusal leaves ordinary pages.
            unsafe { madvise(pointer, layout.size() & !(HUGE_PAGE - 1), MADV_HUGEPAGE) };
        }
        Ok(Buffer { pointer: pointer.cast(), len })
    }

    /// At least `len` floats; contents are lost when it has to grow.
    pub fn reserve(&mut self, len: usize, what: &str) -> Result<(), EngineError> {
        if self.len < len {
            *self = Buffer::empty();
            *self = Buffer::zeroed(len + len / 8, what)?;
        }
        Ok(())
    }

    pub fn pointer(&self) -> *mut f32 {
        self.pointer
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.len > 0
            && let Some(layout) = Self::layout(self.len)
        {
            unsafe { dealloc(self.pointer.cast(), layout) }
        }
    }
}

impl Deref for Buffer {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        unsafe { std::slice::from_raw_parts_mut(self.pointer, self.len) }
    }
}

/// A raw pointer that parallel chunks share; each chunk touches its own part.
#[derive(Clone, Copy)]
pub struct Shared<T>(pub *mut T);
unsafe impl<T> Send for Shared<T> {}
unsafe impl<T> Sync for Shared<T> {}
impl<T> Shared<T> {
    /// A method, so that closures capture the whole wrapper and not the bare pointer.
    pub fn get(&self) -> *mut T {
        self.0
    }
    /// # Safety
    /// As `pointer::add`.
    pub unsafe fn at(&self, offset: usize) -> *mut T {
        unsafe { self.0.add(offset) }
    }
}
