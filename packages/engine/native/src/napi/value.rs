//! JavaScript values in and out. Reading never panics: a wrong type is an `EngineError`.

use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use super::api::{self, Env, Value, api};
use crate::error::EngineError;

/// What a job gives back to JavaScript.
pub enum Reply {
    None,
    Number(f64),
    Flag(bool),
    Text(String),
    Floats(Vec<f32>),
    Ints(Vec<u32>),
    List(Vec<Reply>),
    Object(Vec<(&'static str, Reply)>),
    /// Something that JavaScript holds by an opaque value, and that is freed when it forgets that.
    Held(u64),
}

impl Reply {
    /// All that JavaScript would hold.
    pub fn held(&self) -> Vec<u64> {
        match self {
            Reply::Held(id) => vec![*id],
            Reply::List(items) => items.iter().flat_map(Reply::held).collect(),
            Reply::Object(fields) => fields.iter().flat_map(|(_, field)| field.held()).collect(),
            _ => Vec::new(),
        }
    }
}

/// `held` makes the opaque values. An error where Node has no memory for it.
pub unsafe fn to_js(env: Env, reply: &Reply, held: &dyn Fn(u64) -> Value) -> Result<Value, EngineError> {
    let mut value: Value = null_mut();
    unsafe {
        match reply {
            Reply::None => {
                (api().napi_get_undefined)(env, &mut value);
            }
            Reply::Number(number) => {
                (api().napi_create_double)(env, *number, &mut value);
            }
            Reply::Flag(flag) => {
                (api().napi_get_boolean)(env, *flag, &mut value);
            }
            Reply::Text(text) => value = string(env, text),
            Reply::Floats(data) => value = typed_array(env, api::FLOAT32_ARRAY, data)?,
            Reply::Ints(data) => value = typed_array(env, api::INT32_ARRAY, data)?,
            Reply::List(items) => {
                (api().napi_create_array_with_length)(env, items.len(), &mut value);
                for (index, item) in items.iter().enumerate() {
                    let item = to_js(env, item, held)?;
                    (api().napi_set_element)(env, value, index as u32, item);
                }
            }
            Reply::Object(fields) => {
                (api().napi_create_object)(env, &mut value);
                for (name, field) in fields {
                    let field = to_js(env, field, held)?;
                    let name = c_string(name);
                    (api().napi_set_named_property)(env, value, name.as_ptr(), field);
                }
            }
            Reply::Held(id) => value = held(*id),
        }
    }
    Ok(value)
}

/// An `Error` with `code` and `message`.
pub unsafe fn error_to_js(env: Env, error: &EngineError) -> Value {
    let mut value: Value = null_mut();
    unsafe {
        let code = string(env, error.code);
        let message = string(env, &error.message);
        (api().napi_create_error)(env, code, message, &mut value);
    }
    value
}

pub unsafe fn string(env: Env, text: &str) -> Value {
    let mut value: Value = null_mut();
    unsafe { (api().napi_create_string_utf8)(env, text.as_ptr().cast(), text.len(), &mut value) };
    value
}

/// `T` is 4 bytes wide, as both kinds of array made here are.
unsafe fn typed_array<T: Copy>(env: Env, kind: i32, data: &[T]) -> Result<Value, EngineError> {
    let mut value: Value = null_mut();
    unsafe {
        let Some((buffer, bytes)) = array_buffer(env, size_of_val(data)) else {
            return Err(EngineError::memory("the answer", size_of_val(data)));
        };
        if !data.is_empty() {
            std::ptr::copy_nonoverlapping(data.as_ptr().cast::<u8>(), bytes.cast::<u8>(), size_of_val(data));
        }
        (api().napi_create_typedarray)(env, kind, data.len(), buffer, 0, &mut value);
    }
    Ok(value)
}

/// From so many bytes on, JavaScript's own constructor makes the buffer, which throws where there is no memory: Node-API's function ends the
/// process there.
const LARGE: usize = 1 << 20;

unsafe fn array_buffer(env: Env, bytes: usize) -> Option<(Value, *mut c_void)> {
    let (mut buffer, mut data): (Value, *mut c_void) = (null_mut(), null_mut());
    unsafe {
        if bytes < LARGE {
            return ((api().napi_create_arraybuffer)(env, bytes, &mut data, &mut buffer) == api::OK).then_some((buffer, data));
        }
        let (mut global, mut constructor, mut length): (Value, Value, Value) = (null_mut(), null_mut(), null_mut());
        (api().napi_get_global)(env, &mut global);
        (api().napi_get_named_property)(env, global, c"ArrayBuffer".as_ptr(), &mut constructor);
        (api().napi_create_double)(env, bytes as f64, &mut length);
        if (api().napi_new_instance)(env, constructor, 1, &length, &mut buffer) != api::OK {
            let mut thrown: Value = null_mut();
            (api().napi_get_and_clear_last_exception)(env, &mut thrown);
            return None;
        }
        let mut made = 0;
        let status = (api().napi_get_arraybuffer_info)(env, buffer, &mut data, &mut made);
        (status == api::OK && made == bytes).then_some((buffer, data))
    }
}

pub fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// An argument, or a field of one, with the name it is reported under.
#[derive(Clone, Copy)]
pub struct Arg<'a> {
    pub env: Env,
    pub value: Value,
    pub name: &'a str,
}

impl<'a> Arg<'a> {
    fn wrong(&self, wanted: &str) -> EngineError {
        EngineError::input(format!("{} must be {wanted}.", self.name))
    }

    pub fn field(&self, name: &'a str) -> Result<Arg<'a>, EngineError> {
        let mut value: Value = null_mut();
        let key = c_string(name);
        match unsafe { (api().napi_get_named_property)(self.env, self.value, key.as_ptr(), &mut value) } {
            api::OK => Ok(Arg { env: self.env, value, name }),
            _ => Err(self.wrong("an object")),
        }
    }

    pub fn is_absent(&self) -> bool {
        let mut kind = 0;
        unsafe { (api().napi_typeof)(self.env, self.value, &mut kind) };
        kind == api::TYPE_UNDEFINED || kind == api::TYPE_NULL
    }

    pub fn optional(self) -> Option<Arg<'a>> {
        (!self.is_absent()).then_some(self)
    }

    pub fn number(&self) -> Result<f64, EngineError> {
        let mut number = 0.0;
        match unsafe { (api().napi_get_value_double)(self.env, self.value, &mut number) } {
            api::OK => Ok(number),
            _ => Err(self.wrong("a number")),
        }
    }

    pub fn float(&self) -> Result<f32, EngineError> {
        Ok(self.number()? as f32)
    }

    /// A whole number ≥ 0 that a double holds exactly.
    pub fn size(&self) -> Result<usize, EngineError> {
        let number = self.number()?;
        if (0.0..=9_007_199_254_740_991.0).contains(&number) && number.fract() == 0.0 {
            Ok(number as usize)
        } else {
            Err(self.wrong("a whole number that is not negative"))
        }
    }

    pub fn flag(&self) -> Result<bool, EngineError> {
        let mut flag = false;
        match unsafe { (api().napi_get_value_bool)(self.env, self.value, &mut flag) } {
            api::OK => Ok(flag),
            _ => Err(self.wrong("true or false")),
        }
    }

    pub fn text(&self) -> Result<String, EngineError> {
        let mut length = 0;
        unsafe {
            if (api().napi_get_value_string_utf8)(self.env, self.value, null_mut(), 0, &mut length) != api::OK {
                return Err(self.wrong("a string"));
            }
            let mut bytes = vec![0u8; length + 1];
            (api().napi_get_value_string_utf8)(self.env, self.value, bytes.as_mut_ptr().cast(), bytes.len(), &mut length);
            bytes.truncate(length);
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        }
    }

    pub fn texts(&self) -> Result<Vec<String>, EngineError> {
        self.items("an array of strings", |item| item.text())
    }

    pub fn sizes(&self) -> Result<Vec<usize>, EngineError> {
        self.items("an array of whole numbers", |item| item.size())
    }

    fn items<T>(&self, wanted: &str, read: impl Fn(Arg<'a>) -> Result<T, EngineError>) -> Result<Vec<T>, EngineError> {
        let mut count = 0;
        if unsafe { (api().napi_get_array_length)(self.env, self.value, &mut count) } != api::OK {
            return Err(self.wrong(wanted));
        }
        (0..count)
            .map(|index| {
                let mut value: Value = null_mut();
                unsafe { (api().napi_get_element)(self.env, self.value, index, &mut value) };
                read(Arg { env: self.env, value, name: self.name })
            })
            .collect()
    }

    /// Copies a typed array out, so that a job owns its data.
    fn array<T: Copy>(&self, wanted_kind: i32, wanted: &str) -> Result<Vec<T>, EngineError> {
        let (mut kind, mut length, mut offset) = (-1, 0, 0);
        let mut data: *mut c_void = null_mut();
        let mut buffer: Value = null_mut();
        let status =
            unsafe { (api().napi_get_typedarray_info)(self.env, self.value, &mut kind, &mut length, &mut data, &mut buffer, &mut offset) };
        if status != api::OK || kind != wanted_kind {
            return Err(self.wrong(wanted));
        }
        let mut out: Vec<T> = Vec::new();
        out.try_reserve_exact(length).map_err(|_| EngineError::memory(self.name, length * size_of::<T>()))?;
        if length > 0 {
            // Safety: Node reports `length` elements at `data`; nothing runs in between that could detach the buffer.
            unsafe {
                std::ptr::copy_nonoverlapping(data.cast::<T>(), out.as_mut_ptr(), length);
                out.set_len(length);
            }
        }
        Ok(out)
    }

    pub fn floats(&self) -> Result<Vec<f32>, EngineError> {
        self.array(api::FLOAT32_ARRAY, "a Float32Array")
    }

    pub fn ints(&self) -> Result<Vec<i32>, EngineError> {
        self.array(api::INT32_ARRAY, "an Int32Array")
    }

    pub fn bytes(&self) -> Result<Vec<u8>, EngineError> {
        self.array(api::UINT8_ARRAY, "a Uint8Array")
    }

    pub fn is_bytes(&self) -> bool {
        let (mut kind, mut length, mut offset) = (-1, 0, 0);
        let (mut data, mut buffer): (*mut c_void, Value) = (null_mut(), null_mut());
        unsafe { (api().napi_get_typedarray_info)(self.env, self.value, &mut kind, &mut length, &mut data, &mut buffer, &mut offset) };
        kind == api::UINT8_ARRAY
    }

    /// Token ids: an Int32Array without negative entries.
    pub fn tokens(&self) -> Result<Vec<u32>, EngineError> {
        let ids = self.ints()?;
        match ids.iter().find(|&&id| id < 0) {
            Some(id) => Err(EngineError::input(format!("{} holds {id}, which is not a token id.", self.name))),
            None => Ok(ids.into_iter().map(|id| id as u32).collect()),
        }
    }
}
