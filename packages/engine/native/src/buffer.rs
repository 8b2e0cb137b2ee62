//! Big zeroed float buffers: aligned, fallible, on huge pages where the system offers them.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::ops::{Deref, DerefMut};

use crate::error::EngineError;

const HUGE_PAGE: usize = 2 << 20;
/// Buffers from this many floats on are laid on huge pages.
const HUGE_FLOATS: usize = 2 * HUGE_PAGE / 4;
/// Allocations from this size on are checked against the memory that is free.
const CHECKED: usize = 64 << 20;

/// Bytes this process can still take: what the system has available, and what is left of its container's limit.
#[cfg(target_os = "linux")]
pub fn available_memory() -> Option<u64> {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let field = |text: &str, name: &str| -> Option<u64> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line[name.len()..].trim_start_matches(':').split_whitespace().next()?.parse().ok()
    };
    let system = read("/proc/meminfo").and_then(|text| field(&text, "MemAvailable")).map(|kib| kib * 1024);
    let container = |limit: &str, used: &str, stat: &str, cache: &str| -> Option<u64> {
        let limit: u64 = read(limit)?.trim().parse().ok()?;
        let used: u64 = read(used)?.trim().parse().ok()?;
        // File pages the system would drop before it runs out.
        let droppable = read(stat).and_then(|text| field(&text, cache)).unwrap_or(0);
        Some(limit.saturating_sub(used.saturating_sub(droppable)))
    };
    const V2: &str = "/sys/fs/cgroup";
    const V1: &str = "/sys/fs/cgroup/memory";
    let second = container(&format!("{V2}/memory.max"), &format!("{V2}/memory.current"), &format!("{V2}/memory.stat"), "inactive_file");
    let first = container(
        &format!("{V1}/memory.limit_in_bytes"),
        &format!("{V1}/memory.usage_in_bytes"),
        &format!("{V1}/memory.stat"),
        "total_inactive_file",
    );
    [system, second, first].into_iter().flatten().min()
}

#[cfg(not(target_os = "linux"))]
pub fn available_memory() -> Option<u64> {
    None
}

/// What was freed goes back to the system. The allocator keeps what lies between things that are still used, as the keys and values of short
/// runs of tokens do.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_back() {
    unsafe extern "C" {
        fn malloc_trim(pad: usize) -> i32;
    }
    unsafe { malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back() {}

#[cfg(target_os = "linux")]
unsafe extern "C" {
    fn madvise(address: *mut u8, length: usize, advice: i32) -> i32;
}

pub struct Buffer {
    pointer: *mut f32,
    len: usize,
    /// Floats that are reserved. Those behind `len` were never written to, so that the system has not given memory for them yet.
    capacity: usize,
}

unsafe impl Send for Buffer {}
unsafe impl Sync for Buffer {}

impl Buffer {
    pub const fn empty() -> Buffer {
        Buffer { pointer: std::ptr::NonNull::<f32>::dangling().as_ptr(), len: 0, capacity: 0 }
    }

    fn layout(len: usize) -> Option<Layout> {
        let bytes = len.checked_mul(4)?;
        Layout::from_size_align(bytes, if len >= HUGE_FLOATS { HUGE_PAGE } else { 64 }).ok()
    }

    pub fn zeroed(len: usize, what: &str) -> Result<Buffer, EngineError> {
        let buffer = Self::reserved(len, what, true)?;
        if len >= HUGE_FLOATS {
            unsafe { std::ptr::write_bytes(buffer.pointer, 0, len) };
        }
        Ok(buffer)
    }

    /// For who writes everything that he will read.
    pub fn unwritten(len: usize, what: &str) -> Result<Buffer, EngineError> {
        Self::reserved(len, what, false)
    }

    /// A buffer of its own with the same contents.
    pub fn copy(&self, what: &str) -> Result<Buffer, EngineError> {
        let copy = Self::reserved(self.len, what, false)?;
        unsafe { std::ptr::copy_nonoverlapping(self.pointer, copy.pointer, self.len) };
        Ok(copy)
    }

    /// Not yet written to, except that with `zero` the system's own zeros are taken for small ones.
    fn reserved(len: usize, what: &str, zero: bool) -> Result<Buffer, EngineError> {
        if len == 0 {
            return Ok(Buffer::empty());
        }
        let failed = || EngineError::memory(what, len.saturating_mul(4));
        let layout = Self::layout(len).ok_or_else(failed)?;
        // Systems hand out more memory than there is and kill the process when it is touched: refuse while that is still an error.
        if layout.size() >= CHECKED && available_memory().is_some_and(|bytes| (layout.size() as u64) > bytes) {
            return Err(failed());
        }
        let pointer = unsafe { if zero && len < HUGE_FLOATS { alloc_zeroed(layout) } else { alloc(layout) } };
        if pointer.is_null() {
            return Err(failed());
        }
        // Advice counts for pages that have not been touched yet, so whoever fills it does so after this. A refusal leaves ordinary pages.
        #[cfg(target_os = "linux")]
        if len >= HUGE_FLOATS {
            const MADV_HUGEPAGE: i32 = 14;
            unsafe { madvise(pointer, layout.size() & !(HUGE_PAGE - 1), MADV_HUGEPAGE) };
        }
        Ok(Buffer { pointer: pointer.cast(), len, capacity: len })
    }

    /// At least `len` floats; contents are lost when it has to grow. It then has room for a little more.
    pub fn reserve(&mut self, len: usize, what: &str) -> Result<(), EngineError> {
        if self.capacity < len {
            *self = Buffer::empty();
            *self = Self::reserved(len.saturating_add(len / 8), what, false)?;
            self.len = 0;
        }
        if self.len < len {
            unsafe { std::ptr::write_bytes(self.pointer.add(self.len), 0, len - self.len) };
            self.len = len;
        }
        Ok(())
    }

    pub fn pointer(&self) -> *mut f32 {
        self.pointer
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.capacity > 0
            && let Some(layout) = Self::layout(self.capacity)
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

/// Zeros for the caller to keep. Where there is no memory this is an error; `vec!` would end the process.
pub fn zeros(count: usize, what: &str) -> Result<Vec<f32>, EngineError> {
    let mut out = Vec::new();
    reserve(&mut out, count, what)?;
    out.resize(count, 0.0);
    Ok(out)
}

/// Room for so many more.
pub fn reserve(out: &mut Vec<f32>, more: usize, what: &str) -> Result<(), EngineError> {
    out.try_reserve_exact(more).map_err(|_| EngineError::memory(what, more.saturating_mul(size_of::<f32>())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_buffer_has_to_spare_is_zero_once_it_is_needed_and_not_counted_before() {
        let mut buffer = Buffer::empty();
        buffer.reserve(1000, "a test").unwrap();
        assert_eq!(buffer.len(), 1000);
        buffer.fill(1.0);
        let at = buffer.pointer();
        buffer.reserve(1100, "a test").unwrap();
        assert_eq!((buffer.pointer(), buffer.len()), (at, 1100));
        assert!(buffer[..1000].iter().all(|&x| x == 1.0) && buffer[1000..].iter().all(|&x| x == 0.0));
        buffer.reserve(10, "a test").unwrap();
        assert_eq!(buffer.len(), 1100);
        buffer.reserve(2000, "a test").unwrap();
        assert!(buffer.len() == 2000 && buffer.iter().all(|&x| x == 0.0));
    }
}
