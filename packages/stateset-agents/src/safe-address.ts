/** Which addresses an outgoing call may reach, and the list of those that the operator allows beside them. */
import ipaddr from "ipaddr.js";
import { StatesetError } from "./error.ts";

/**
 * `public`: anyone's. `inside`: of this machine or its network, where services live that trust whoever can reach them.
 * `never`: no service that anybody means lives there, but a cloud's metadata does (link-local), or the address hides another one.
 */
export type AddressKind = "public" | "inside" | "never";

const insideRanges: ReadonlySet<string> = new Set(["loopback", "private", "uniqueLocal", "carrierGradeNat"]);

/** What ipaddr.js takes for addresses like any other: where Azure's and Amazon's machines find their metadata. */
const metadata = ["168.63.129.16/32", "fd00:ec2::/32"].map((range) => ipaddr.parseCIDR(range));
const globalUnicast = ipaddr.parseCIDR("2000::/3");

type Address = ReturnType<typeof ipaddr.parse>;

/** `range` is what it is called. What cannot be read is never called. */
export function kindOf(address: string): { kind: AddressKind; range: string } {
  const parsed = parse(address);
  if (!parsed) return { kind: "never", range: "unreadable" };
  if (metadata.some((range) => within(parsed, range))) return { kind: "never", range: "metadata" };
  const range = parsed.range();
  if (insideRanges.has(range)) return { kind: "inside", range };
  // NAT64: on networks without IPv4 this is how a name of the outside looks.
  if (range === "rfc6052") return { kind: nat64Target(parsed) === "public" ? "inside" : "never", range };
  if (range !== "unicast") return { kind: "never", range };
  // IPv4 in its oldest IPv6 form, and whatever else was never given to anyone.
  if (parsed.kind() === "ipv6" && !within(parsed, globalUnicast)) return { kind: "never", range: "reserved" };
  return { kind: "public", range };
}

function nat64Target(address: Address): AddressKind {
  return kindOf(address.toByteArray().slice(-4).join(".")).kind;
}

function parse(address: string): Address | undefined {
  try {
    return ipaddr.parse(address);
  } catch {
    return undefined;
  }
}

function within(address: Address, [network, bits]: ReturnType<typeof ipaddr.parseCIDR>): boolean {
  return address.kind() === network.kind() && address.match(network, bits);
}

/** The literal address in a URL's host, which WHATWG parsing has already brought into one spelling; undefined for names. */
export function literalIn(hostname: string): string | undefined {
  const bare = hostname.replace(/^\[|\]$/g, "");
  return ipaddr.isValid(bare) ? bare : undefined;
}

/** What the operator allows beside public addresses. */
export interface AllowList {
  /** Whether the operator named this host: it may then be inside. */
  names(url: Pick<URL, "protocol" | "hostname" | "port">): boolean;
  /** Whether the address is in a network that was named. */
  holds(address: string): boolean;
}

/** Entries are `host`, `host:port` or a network such as `10.1.0.0/16`. */
export function readAllowList(entries: readonly string[]): AllowList {
  const networks = entries.filter((entry) => entry.includes("/")).map(readNetwork);
  const hosts = entries.filter((entry) => !entry.includes("/")).map(readHost);
  return {
    names({ protocol, hostname, port }) {
      const own = port || (protocol === "https:" ? "443" : "80");
      return hosts.some((host) => host.name === hostname && (host.port === undefined || host.port === own));
    },
    holds(address) {
      const parsed = parse(address);
      return parsed !== undefined && networks.some((network) => within(parsed, network));
    },
  };
}

/** The entry that names where a URL leads and nothing else. */
export function entryFor(address: string): string {
  const { protocol, hostname, port } = new URL(address);
  return `${hostname}:${port || (protocol === "https:" ? "443" : "80")}`;
}

function readNetwork(entry: string): ReturnType<typeof ipaddr.parseCIDR> {
  try {
    return ipaddr.parseCIDR(entry);
  } catch {
    throw new StatesetError("INVALID_OPTION", `"${entry}" in the list of allowed addresses is no network.`, {
      hint: "Write it as 10.1.0.0/16 or fd12::/48.",
    });
  }
}

function readHost(entry: string): { name: string; port: string | undefined } {
  const bracketed = ipaddr.IPv6.isValid(entry) ? `[${entry}]` : entry;
  const [, host = "", port] = /^(\[[^\]]+\]|[^:]+)(?::(\d{1,5}))?$/.exec(bracketed) ?? [];
  if (!URL.canParse(`http://${host}/`) || /[@?#\\]/.test(host)) {
    throw new StatesetError("INVALID_OPTION", `"${entry}" in the list of allowed addresses is no host.`, {
      hint: "Write it as host, host:port or [address]:port.",
    });
  }
  return { name: new URL(`http://${host}/`).hostname, port: port && String(Number(port)) };
}
