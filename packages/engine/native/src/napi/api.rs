//! The Node-API functions this crate uses, and nothing else. They are looked up in the host process when the addon loads, so that
//! no header, crate or linker flag is needed, and test binaries (which run outside Node) link.

use std::ffi::{c_char, c_void};
use std::sync::OnceLock;

pub type Env = *mut c_void;
pub type Value = *mut c_void;
pub type Deferred = *mut c_void;
pub type ThreadsafeFunction = *mut c_void;
pub type CallbackInfo = *mut c_void;
pub type Status = i32;

pub const OK: Status = 0;
/// The length argument that means "up to the terminating zero".
pub const AUTO_LENGTH: usize = usize::MAX;

/// napi_valuetype
pub const TYPE_UNDEFINED: i32 = 0;
pub const TYPE_NULL: i32 = 1;
/// napi_typedarray_type
pub const UINT8_ARRAY: i32 = 1;
pub const INT32_ARRAY: i32 = 5;
pub const FLOAT32_ARRAY: i32 = 7;
/// napi_threadsafe_function_call_mode
pub const CALL_NONBLOCKING: i32 = 0;
/// napi_threadsafe_function_release_mode
pub const RELEASE: i32 = 0;

pub type Callback = unsafe extern "C" fn(Env, CallbackInfo) -> Value;
pub type Finalize = unsafe extern "C" fn(Env, *mut c_void, *mut c_void);
pub type CallJs = unsafe extern "C" fn(Env, Value, *mut c_void, *mut c_void);
pub type CleanupHook = unsafe extern "C" fn(*mut c_void);

macro_rules! node_api {
    ($(fn $name:ident($($arg:ident: $ty:ty),* $(,)?);)*) => {
        #[allow(non_snake_case)]
        pub struct Api { $(pub $name: unsafe extern "C" fn($($arg: $ty),*) -> Status,)* }
        impl Api {
            fn load() -> Option<Api> {
                // Safety: the signatures below are those of node_api.h.
                Some(Api { $($name: unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn($($ty),*) -> Status>(symbol(concat!(stringify!($name), "\0"))?) },)* })
            }
        }
    };
}

node_api! {
    fn napi_get_undefined(env: Env, result: *mut Value);
    fn napi_get_boolean(env: Env, value: bool, result: *mut Value);
    fn napi_create_double(env: Env, value: f64, result: *mut Value);
    fn napi_create_string_utf8(env: Env, text: *const c_char, length: usize, result: *mut Value);
    fn napi_create_object(env: Env, result: *mut Value);
    fn napi_create_array_with_length(env: Env, length: usize, result: *mut Value);
    fn napi_create_arraybuffer(env: Env, length: usize, data: *mut *mut c_void, result: *mut Value);
    fn napi_get_arraybuffer_info(env: Env, buffer: Value, data: *mut *mut c_void, length: *mut usize);
    fn napi_get_global(env: Env, result: *mut Value);
    fn napi_new_instance(env: Env, constructor: Value, count: usize, args: *const Value, result: *mut Value);
    fn napi_create_typedarray(env: Env, kind: i32, length: usize, buffer: Value, offset: usize, result: *mut Value);
    fn napi_create_external(env: Env, data: *mut c_void, finalize: Option<Finalize>, hint: *mut c_void, result: *mut Value);
    fn napi_create_error(env: Env, code: Value, message: Value, result: *mut Value);
    fn napi_create_function(env: Env, name: *const c_char, length: usize, callback: Callback, data: *mut c_void, result: *mut Value);
    fn napi_set_named_property(env: Env, object: Value, name: *const c_char, value: Value);
    fn napi_get_named_property(env: Env, object: Value, name: *const c_char, result: *mut Value);
    fn napi_set_element(env: Env, object: Value, index: u32, value: Value);
    fn napi_get_element(env: Env, object: Value, index: u32, result: *mut Value);
    fn napi_get_array_length(env: Env, array: Value, result: *mut u32);
    fn napi_typeof(env: Env, value: Value, result: *mut i32);
    fn napi_get_value_double(env: Env, value: Value, result: *mut f64);
    fn napi_get_value_bool(env: Env, value: Value, result: *mut bool);
    fn napi_get_value_string_utf8(env: Env, value: Value, buffer: *mut c_char, size: usize, result: *mut usize);
    fn napi_get_value_external(env: Env, value: Value, result: *mut *mut c_void);
    fn napi_get_typedarray_info(env: Env, array: Value, kind: *mut i32, length: *mut usize, data: *mut *mut c_void, buffer: *mut Value, offset: *mut usize);
    fn napi_get_cb_info(env: Env, info: CallbackInfo, count: *mut usize, args: *mut Value, this: *mut Value, data: *mut *mut c_void);
    fn napi_throw_error(env: Env, code: *const c_char, message: *const c_char);
    fn napi_call_function(env: Env, receiver: Value, function: Value, count: usize, args: *const Value, result: *mut Value);
    fn napi_get_and_clear_last_exception(env: Env, result: *mut Value);
    fn napi_fatal_exception(env: Env, error: Value);
    fn napi_create_promise(env: Env, deferred: *mut Deferred, promise: *mut Value);
    fn napi_resolve_deferred(env: Env, deferred: Deferred, value: Value);
    fn napi_reject_deferred(env: Env, deferred: Deferred, value: Value);
    fn napi_create_threadsafe_function(env: Env, function: Value, resource: Value, name: Value, max_queue: usize, threads: usize,
        finalize_data: *mut c_void, finalize: Option<Finalize>, context: *mut c_void, call: Option<CallJs>, result: *mut ThreadsafeFunction);
    fn napi_call_threadsafe_function(function: ThreadsafeFunction, data: *mut c_void, mode: i32);
    fn napi_release_threadsafe_function(function: ThreadsafeFunction, mode: i32);
    fn napi_ref_threadsafe_function(env: Env, function: ThreadsafeFunction);
    fn napi_unref_threadsafe_function(env: Env, function: ThreadsafeFunction);
    fn napi_add_env_cleanup_hook(env: Env, hook: CleanupHook, data: *mut c_void);
    fn napi_remove_env_cleanup_hook(env: Env, hook: CleanupHook, data: *mut c_void);
}

static API: OnceLock<Option<Api>> = OnceLock::new();

/// True when the host process offers every function.
pub fn load() -> bool {
    API.get_or_init(Api::load).is_some()
}

/// Only called from code that Node entered, after `load` succeeded.
pub fn api() -> &'static Api {
    API.get().and_then(Option::as_ref).expect("Node-API is loaded before any callback runs")
}

#[cfg(unix)]
fn symbol(name: &str) -> Option<*mut c_void> {
    unsafe extern "C" {
        fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    // RTLD_DEFAULT
    #[cfg(target_os = "macos")]
    let everywhere = -2isize as *mut c_void;
    #[cfg(not(target_os = "macos"))]
    let everywhere = std::ptr::null_mut();
    let found = unsafe { dlsym(everywhere, name.as_ptr().cast()) };
    (!found.is_null()).then_some(found)
}

#[cfg(windows)]
fn symbol(name: &str) -> Option<*mut c_void> {
    unsafe extern "system" {
        fn GetModuleHandleA(name: *const c_char) -> *mut c_void;
        fn GetProcAddress(module: *mut c_void, name: *const c_char) -> *mut c_void;
    }
    let found = unsafe { GetProcAddress(GetModuleHandleA(std::ptr::null()), name.as_ptr().cast()) };
    (!found.is_null()).then_some(found)
}
