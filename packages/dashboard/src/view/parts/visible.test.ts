import { expect, it } from "vitest";
import { plain, visible } from "./visible.ts";

const kinds = (text: string) => visible(text).map(({ text: shown, kind }) => (kind ? `${kind}:${shown}` : shown));

it("leaves text of any script as it is", () => {
  for (const text of ["plain", "a\tb\nc", "שלום", "क्षि", "👩‍👩‍👧", "می‌خواهم", "e\u0301", "<script>alert(1)</script>"])
    expect(visible(text)).toEqual([{ text }]);
  expect(visible("")).toEqual([]);
});

it("shows controls as signs", () => {
  expect(kinds("a\0b\u0007\u007f\u0085")).toEqual([
    "a",
    "control:␀",
    "b",
    "control:␇",
    "control:␡",
    "control:‹U+0085›",
  ]);
});

it("shows an escape sequence as one thing that does nothing", () => {
  expect(kinds("\u001b[31mred\u001b[0m")).toEqual(["ansi:␛[31m", "red", "ansi:␛[0m"]);
  expect(kinds("\u001b]8;;http://a\u0007x")).toEqual(["ansi:␛]8;;http://a␇", "x"]);
  expect(kinds("\u001b")).toEqual(["control:␛"]);
});

it("names marks that turn or hide text", () => {
  expect(kinds("a\u202eb\u2066\u200b\ufeff")).toEqual([
    "a",
    "bidi:‹RLO›",
    "b",
    "bidi:‹LRI›",
    "bidi:‹ZWSP›",
    "bidi:‹BOM›",
  ]);
  expect(kinds("x\u{e0041}")).toEqual(["x", "control:‹U+E0041›"]);
});

it("shows halves of characters as broken, and whole ones as they are", () => {
  expect(kinds("\ud83d")).toEqual(["broken:\ufffd"]);
  expect(kinds("a\udc00b")).toEqual(["a", "broken:\ufffd", "b"]);
  expect(kinds("😀")).toEqual(["😀"]);
});

it("reads line ends of Windows as line ends, and shows a lone carriage return", () => {
  expect(kinds("a\r\nb")).toEqual(["a\nb"]);
  expect(kinds("a\rb")).toEqual(["a", "control:␍", "b"]);
});

it("makes one line for titles", () => {
  expect(plain(" a\n\n b\u202e")).toBe(" a b‹RLO›");
});
