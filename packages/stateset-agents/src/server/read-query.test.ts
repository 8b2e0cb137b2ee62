import { expect, it } from "vitest";
import { z } from "zod";
import { readQuery } from "./read-query.ts";

const schema = z.strictObject({
  filter: z.string().max(5).optional(),
  sort: z.enum(["step", "reward"]).optional(),
  runs: z.string().min(1),
});
const read = (query: string) => readQuery(schema, `http://localhost/ui/api/runs?${query}`);
const refused = (query: string) => {
  try {
    read(query);
  } catch (error) {
    return error;
  }
  throw new Error("It was taken.");
};

it("gives what is there", () => {
  expect(read("runs=a%2Cb&filter=%3E+1")).toEqual({ runs: "a,b", filter: "> 1" });
});

it("names what it does not know, what is wrong, missing or there twice", () => {
  const details = (code: string, param: string) => expect.objectContaining({ code, param });
  expect(refused("runs=a&filtr=x")).toMatchObject({
    ...{ status: 400, message: 'Unknown parameter "filtr". Did you mean "filter"?' },
    details: details("unknown_parameter", "filtr"),
  });
  expect(refused("runs=a&__proto__=x")).toMatchObject({ details: details("unknown_parameter", "__proto__") });
  expect(refused("runs=a&sort=rewrd")).toMatchObject({
    ...{ message: expect.stringContaining('Did you mean "reward"?'), details: details("invalid_value", "sort") },
  });
  expect(refused("filter=x")).toMatchObject({ message: 'The parameter "runs" is missing.' });
  expect(refused("runs=a&runs=b")).toMatchObject({ message: 'The parameter "runs" is there twice.' });
  expect(refused("runs=a&filter=123456")).toMatchObject({ details: details("invalid_value", "filter") });
  expect(() => readQuery(z.strictObject({}), "http://localhost/?a=1")).toThrow('"a". There are none here.');
});
