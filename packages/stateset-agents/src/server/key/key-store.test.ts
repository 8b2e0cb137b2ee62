import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { type FileLock, takeLock } from "../../file-lock.ts";
import { HttpError } from "../http-error.ts";
import { createKey, readKeyFile, revokeKey } from "./key-file.ts";
import { openKeyStore, staticKeys } from "./key-store.ts";
import { createToken, hashOf, matches } from "./token.ts";

let file: string;
beforeEach(() => {
  file = join(temporaryFolder(), "config", "keys.json");
});

/** A clock of which half a second passes with every look. */
function clockAt(now = Date.now()) {
  let elapsed = 0;
  return { now: () => now, elapsed: () => (elapsed += 500) };
}

describe("a key", () => {
  it("has a random id and 32 random bytes, and matches its own hash alone", () => {
    const tokens = Array.from({ length: 50 }, createToken);
    expect(new Set(tokens.map(({ id }) => id)).size).toBe(50);
    for (const { id, token } of tokens) expect(token).toMatch(new RegExp(`^sk-ss-${id}-[\\w-]{43}$`));
    const [one, other] = tokens.map(({ token }) => token);
    expect(matches(one!, hashOf(one!))).toBe(true);
    expect(matches(one!, hashOf(other!))).toBe(false);
  });
});

describe("the key file", () => {
  it("holds hashes and not keys, and is its owner's alone", async () => {
    const { token } = await createKey(file, { name: "ci" });
    const text = readFileSync(file, "utf8");
    expect(text).toContain(hashOf(token).toString("hex"));
    expect(text).not.toContain(token.slice(-43));
    expect(statSync(file).mode & 0o777).toBe(0o600);
    await createKey(file, { name: "second" });
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it("loses no key that is made while others are", async () => {
    const made = await Promise.all(Array.from({ length: 12 }, (_, i) => createKey(file, { name: `k${i}` })));
    expect(
      readKeyFile(file)!
        .map(({ id }) => id)
        .sort(),
    ).toEqual(made.map(({ key }) => key.id).sort());
  });

  it("is not read to be changed while another process changes it", async () => {
    const others = join(temporaryFolder(), "keys.json");
    const { key: first } = await createKey(others, { name: "first" });
    mkdirSync(dirname(file));
    const taken = takeLock(`${file}.lock`) as { lock: FileLock };
    const late = createKey(file, { name: "second" });
    await new Promise((resolve) => setTimeout(resolve, 60));
    expect(readKeyFile(file)).toBeUndefined();
    copyFileSync(others, file);
    taken.lock.release();
    const { key: second } = await late;
    expect(readKeyFile(file)!.map(({ id }) => id)).toEqual([first.id, second.id]);
  });

  it.each([
    ["cut short", (text: string) => text.slice(0, -20), /is damaged: it is not JSON/],
    ["with a field nobody knows", (text: string) => text.replace('"name"', '"nmae"'), /is damaged: keys\.0/],
    ["with a hash that is none", (text: string) => text.replace(/"hash": "..../, '"hash": "'), /keys\.0\.hash/],
    ["of another version", (text: string) => text.replace('"version": 1', '"version": 2'), /is damaged: version/],
    ["empty", () => "", /it is not JSON/],
  ])("%s is an error that is named, and stays as it is", async (_, damage, said) => {
    const { key } = await createKey(file, { name: "ci" });
    const damaged = damage(readFileSync(file, "utf8"));
    writeFileSync(file, damaged);
    const refused = { code: "INVALID_DATA", message: expect.stringMatching(said) as string };
    await expect(createKey(file, { name: "second" })).rejects.toMatchObject(refused);
    await expect(revokeKey(file, key.id)).rejects.toMatchObject(refused);
    expect(() => openKeyStore(file)).toThrow(said);
    expect(readFileSync(file, "utf8")).toBe(damaged);
  });

  it("does not take a key that would have expired already, nor limits that are none", async () => {
    await expect(createKey(file, { name: "x", expiresAt: "2020-01-01T00:00:00.000Z" })).rejects.toThrow(
      /expired already/,
    );
    await expect(createKey(file, { name: "x", concurrency: 0 })).rejects.toThrow(/concurrency/);
    await expect(createKey(file, { name: "x", project: "../other" })).rejects.toThrow(/project/);
    expect(readKeyFile(file)).toBeUndefined();
  });
});

describe("openKeyStore", () => {
  it("finds who calls, and what they may do", async () => {
    const { token, key } = await createKey(file, {
      name: "shop",
      project: "shop",
      scopes: ["infer"],
      models: ["small"],
      requestsPerMinute: 10,
    });
    expect(openKeyStore(file).find(token)).toEqual({
      kind: "ok",
      caller: {
        keyId: key.id,
        project: "shop",
        scopes: new Set(["infer"]),
        models: ["small"],
        limits: { requestsPerMinute: 10 },
      },
    });
  });

  it("knows no key but the whole one", async () => {
    const { token, key } = await createKey(file, { name: "ci" });
    const store = openKeyStore(file);
    const other = createToken().token;
    const wrong = ["", "sk-ss-", key.id, token.slice(0, -1), `${token}A`, token.toUpperCase(), other];
    const borrowed = `sk-ss-${key.id}-${other.slice(-43)}`;
    for (const one of [...wrong, borrowed]) expect(store.find(one)).toEqual({ kind: "unknown" });
  });

  it("sees keys that are made, revoked and removed while it is open", async () => {
    const first = await createKey(file, { name: "first" });
    const store = openKeyStore(file, clockAt());
    const second = await createKey(file, { name: "second" });
    expect(store.find(second.token).kind).toBe("ok");
    const { revokedAt } = await revokeKey(file, first.key.id, Date.parse("2026-01-01T00:00:00Z"));
    expect(store.find(first.token)).toEqual({ kind: "revoked" });
    expect((await revokeKey(file, first.key.id)).revokedAt).toBe(revokedAt);
    rmSync(file);
    expect(store.find(second.token)).toEqual({ kind: "unknown" });
  });

  it("looks at the file no more than twice a second", async () => {
    const { token, key } = await createKey(file, { name: "ci" });
    let elapsed = 0;
    const store = openKeyStore(file, { now: Date.now, elapsed: () => elapsed });
    await revokeKey(file, key.id);
    elapsed = 499;
    expect(store.find(token).kind).toBe("ok");
    elapsed = 500;
    expect(store.find(token).kind).toBe("revoked");
  });

  it("says of a key that it expired to whoever has it, and to nobody else", async () => {
    const expiresAt = new Date(Date.now() + 60_000).toISOString();
    const { token, key } = await createKey(file, { name: "ci", expiresAt });
    expect(openKeyStore(file).find(token).kind).toBe("ok");
    const later = openKeyStore(file, clockAt(Date.parse(expiresAt)));
    expect(later.find(token)).toEqual({ kind: "expired" });
    expect(later.find(`sk-ss-${key.id}-${createToken().token.slice(-43)}`)).toEqual({ kind: "unknown" });
  });

  it("lets nobody in while the file is damaged, and everybody once it is repaired", async () => {
    const { token } = await createKey(file, { name: "ci" });
    const whole = readFileSync(file, "utf8");
    const store = openKeyStore(file, clockAt());
    writeFileSync(file, whole.slice(0, 40));
    expect(() => store.find(token)).toThrow(HttpError);
    expect(() => store.find(token)).toThrow(/cannot be checked/);
    writeFileSync(file, whole);
    expect(store.find(token).kind).toBe("ok");
  });

  it("wants a file, and knows nobody once it is closed", async () => {
    expect(() => openKeyStore(file)).toThrow(expect.objectContaining({ code: "CONFIG_NOT_FOUND" }));
    const { token } = await createKey(file, { name: "ci" });
    const store = openKeyStore(file);
    store.close();
    expect(store.find(token)).toEqual({ kind: "unknown" });
  });
});

describe("staticKeys", () => {
  it("are of one project, and do not administrate unless said", () => {
    const keys = staticKeys(["one", "two"]);
    const found = keys.find("two");
    expect(found).toEqual({
      kind: "ok",
      caller: { keyId: "given-2", project: "default", scopes: new Set(["infer", "read", "metrics"]), limits: {} },
    });
    expect(keys.find("three")).toEqual({ kind: "unknown" });
    expect(staticKeys(["k"], { scopes: ["admin"] }).find("k")).toMatchObject({
      caller: { scopes: new Set(["admin"]) },
    });
  });

  it.each(["", "with space", "schlüssel"])("cannot be %j, and does not say so with the key", (token) => {
    expect(() => staticKeys([token])).toThrow(/^API key 1 is empty or has spaces/);
  });
});
