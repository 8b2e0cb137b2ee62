import { EngineError } from "./error.ts";

/** Argument errors are thrown at once by the native side, others reject: both become a rejection with an EngineError. */
export async function settled<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (thrown) {
    throw EngineError.from(thrown);
  }
}
