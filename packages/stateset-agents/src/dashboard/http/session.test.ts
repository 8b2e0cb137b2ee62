import { chmodSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { temporaryFolder } from "../../../test/temporary-folder.ts";
import { createKey, revokeKey } from "../../server/key/key-file.ts";
import { openKeyStore } from "../../server/key/key-store.ts";
import { sessionSecret } from "./secret.ts";
import { createSession, type SessionOptions } from "./session.ts";

const secret = () => new Uint8Array(32).fill(7);
const folders = ["/runs"];
const opened = (over: Partial<SessionOptions> = {}) => createSession({ access: "link", secret, folders, ...over });
const host = "127.0.0.1:6006";
const from = (cookie: string, over: Record<string, string> = {}) => new Headers({ host, cookie, ...over });
const cookieOf = (set: string) => set.split(";")[0]!;

describe("a link", () => {
  it("works once", () => {
    const session = opened();
    const link = session.newLink();
    expect(link).toMatch(/^[\w-]{43}$/);
    expect([session.use(link), session.use(link), session.use(`${link}a`), session.use("")]).toEqual([
      ...["good", "used"],
      ...["unknown", "unknown"],
    ]);
    expect(opened().use(link)).toBe("unknown");
  });
});

describe("a cookie", () => {
  it("is for this path and port, and for no script", () => {
    const set = opened().cookieFor(new Headers({ host }));
    expect(set).toMatch(/^stateset-ui-6006=[\w-]+; Max-Age=604800; Path=\/ui\/; HttpOnly; SameSite=Strict$/);
    expect(opened().cookieFor(new Headers({ host: "runs.example", origin: "https://runs.example" }))).toMatch(
      /^stateset-ui-default=.*; Secure$/,
    );
  });

  it("lets in, also after the server was started again, until it is too old", () => {
    let now = 0;
    const cookie = cookieOf(opened({ now: () => now }).cookieFor(new Headers({ host })));
    const again = opened({ now: () => now });
    expect([...again.identify(from(cookie), undefined).scopes]).toEqual(["read", "admin"]);
    expect(again.identify(from(`a=b; ${cookie}; c=d`), undefined).keyId).toBe("link");
    now = 8 * 24 * 3_600_000;
    expect(() => again.identify(from(cookie), undefined)).toThrow("Open the link");
  });

  it("of another port, folder, secret or kind of server is none", () => {
    const cookie = cookieOf(opened().cookieFor(new Headers({ host })));
    const refused = (session: ReturnType<typeof opened>, headers = from(cookie)) =>
      expect(() => session.identify(headers, undefined)).toThrow(expect.objectContaining({ status: 401 }));
    refused(opened(), from(cookie, { host: "127.0.0.1:6007" }));
    refused(opened({ folders: ["/others"] }));
    refused(opened({ secret: () => new Uint8Array(32) }));
    const keys = { find: () => ({ kind: "unknown" as const }), close() {} };
    expect(() => opened({ access: "keys" }).identify(from(cookie), keys)).toThrow("No API key was sent.");
  });

  it("that was changed anywhere is none", () => {
    const session = opened();
    const cookie = cookieOf(session.cookieFor(new Headers({ host })));
    const [name, value] = cookie.split("=") as [string, string];
    expect(session.identify(from(`${name}=${value}`), undefined).keyId).toBe("link");
    for (let i = 0; i < value.length; i++) {
      const other = value[i] === "A" ? "B" : "A";
      const forged = `${value.slice(0, i)}${other}${value.slice(i + 1)}`;
      expect(() => session.identify(from(`${name}=${forged}`), undefined), forged).toThrow("Open the link");
    }
    for (const forged of ["", "x", `${value}=`, `${value}A`, value.slice(0, -2), `"${value}"`])
      expect(() => session.identify(from(`${name}=${forged}`), undefined), forged).toThrow("Open the link");
  });

  it("for a key is good for what the key is, until that is revoked, and does not show it", async () => {
    const file = join(temporaryFolder(), "keys.json");
    const { token, key } = await createKey(file, { name: "reader", scopes: ["read"] });
    let elapsed = 0;
    const keys = openKeyStore(file, { now: Date.now, elapsed: () => (elapsed += 1000) });
    const session = opened({ access: "keys" });
    const cookie = cookieOf(session.cookieFor(new Headers({ host }), token));
    expect(cookie).not.toContain(token.slice(-20));
    expect(session.identify(from(cookie), keys)).toMatchObject({ keyId: key.id, scopes: new Set(["read"]) });
    // A key that is sent counts before a cookie.
    expect(() => session.identify(from(cookie, { authorization: "Bearer x" }), keys)).toThrow("not known");
    await revokeKey(file, key.id);
    expect(() => session.identify(from(cookie), keys)).toThrow("was revoked");
    keys.close();
  });
});

describe("the secret", () => {
  it("stays, for the user's eyes alone", () => {
    const dir = join(temporaryFolder(), "a", "b");
    const first = Buffer.from(sessionSecret(dir));
    expect(first).toHaveLength(32);
    expect(Buffer.from(sessionSecret(dir)).equals(first)).toBe(true);
    expect(statSync(join(dir, "session-secret")).mode & 0o777).toBe(0o600);
  });

  it("is made anew where others could read it, or it is damaged", () => {
    const dir = temporaryFolder();
    const file = join(dir, "session-secret");
    const first = Buffer.from(sessionSecret(dir));
    chmodSync(file, 0o644);
    const second = Buffer.from(sessionSecret(dir));
    expect(second.equals(first)).toBe(false);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    writeFileSync(file, "half");
    expect(sessionSecret(dir)).toHaveLength(32);
    expect(readFileSync(file, "utf8")).toHaveLength(64);
  });

  it("lasts as long as the process where nothing can be written", () => {
    const file = join(temporaryFolder(), "file");
    writeFileSync(file, "");
    expect(sessionSecret(join(file, "below"))).toHaveLength(32);
  });
});
