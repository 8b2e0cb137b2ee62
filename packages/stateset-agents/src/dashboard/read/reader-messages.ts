/** What open-reader.ts and its thread say to each other. */

import { messageOf } from "../../error.ts";
import { HttpError, type HttpErrorDetails } from "../../server/http-error.ts";
import type { Reader } from "./reader.ts";

export type Method = keyof Reader;

export interface Asked {
  id: number;
  method: Method;
  args: unknown[];
}

/** An error as data: one with a status is a refusal, and told to who asked. */
export interface ToldError {
  message: string;
  status?: number;
  details?: Pick<HttpErrorDetails, "type" | "code" | "param">;
}

export type Told = { id: number; value: unknown } | { id: number; error: ToldError };

export function tellError(error: unknown): ToldError {
  if (!(error instanceof HttpError)) return { message: messageOf(error) };
  const { type, code, param } = error.details;
  const details = {
    ...(type !== undefined && { type }),
    ...(code !== undefined && { code }),
    ...(param !== undefined && { param }),
  };
  return { message: error.message, status: error.status, details };
}

export function toldError({ message, status, details }: ToldError): Error {
  return status === undefined ? new Error(message) : new HttpError(status, message, details ?? {});
}
