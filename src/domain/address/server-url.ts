import { fault, integerBetween, oneOf, parseText, plainText, quote, textRule } from "../rule.ts";
import type { Parsed, Rule } from "../rule.ts";
import { nearestName } from "../text.ts";
import { isLoopbackHost, parseAddress } from "./address.ts";
import { parseHost } from "./host-name.ts";

/** How a connection is protected: the words of libpq's `sslmode`, without those that give way to plain text. */
export type TlsMode = "disable" | "require" | "verify-ca" | "verify-full";

/** One place where a PostgreSQL server may listen. */
export interface ServerHost {
  /** A name, an address without brackets, or the absolute folder of a unix socket. */
  readonly host: string;
  readonly port: number;
  /** `disable` for a unix socket, which stays in the machine. */
  readonly tls: TlsMode;
}

export interface ServerUrl {
  /** At least one, in the order of the URL. */
  readonly hosts: readonly ServerHost[];
  readonly user: string;
  /** Null when the URL has none. A function, so that nothing that prints the value shows it. */
  readonly password: (() => string) | null;
  readonly database: string;
  /** Absolute paths of PEM files; `system` for the authorities that the program knows by itself. */
  readonly tlsFiles: {
    readonly rootCert: string | null;
    readonly cert: string | null;
    readonly key: string | null;
  };
  /** `read-write` passes over a server that takes no writes. */
  readonly targetSession: "any" | "read-write";
  readonly applicationName: string;
  /** For one host, from the first packet to the end of the sign-in. */
  readonly connectTimeoutMs: number;
  /** The schema that holds the tables; null for the server's own choice. */
  readonly searchPath: string | null;
  /** The URL as it was written, without its password: for people, logs and errors. */
  readonly shown: string;
}

/** True for text that is meant as a URL: then it may hold a password, and no message may repeat it. */
export function isUrlLike(text: string): boolean {
  return text.includes("://");
}

/**
 * Reads a `postgres://` or `postgresql://` URL: several hosts, unix sockets by `?host=/run/postgresql`, and those
 * parameters of libpq that mean something here. No fault repeats anything that may belong to a password, also where a
 * password is not percent-encoded as it should be.
 */
export function parseServerUrl(text: string): Parsed<ServerUrl> {
  try {
    return { kind: "value", value: readUrl(text) };
  } catch (error) {
    if (error instanceof Refusal) return fault(error.message);
    throw error;
  }
}

/** Takes its password from the URL that `read` returns; the last one stays if that differs otherwise or throws. */
export function withPasswordOf(url: ServerUrl, read: () => ServerUrl | null): ServerUrl {
  const { password, shown } = url;
  if (password === null) return url;
  let last = password;
  function current(): string {
    const next = readOrNull(read);
    if (next !== null && next.shown === shown && next.password !== null) last = next.password;
    return last();
  }
  return Object.freeze({ ...url, password: current });
}

function readOrNull<T>(read: () => T | null): T | null {
  try {
    return read();
  } catch {
    return null;
  }
}

/** The fault of the URL; the message completes "database …". */
class Refusal extends Error {}

const FORM = "postgres://USER:PASSWORD@HOST:5432/DATABASE";
const ENCODE =
  "percent-encode the special characters of the password: @ is %40, / is %2F, ? is %3F, # is %23";
const HOSTS_MAX = 16;
const DEFAULT_PORT = 5432;
const DEFAULT_TIMEOUT_S = 5;

function readUrl(text: string): ServerUrl {
  const parts = splitUrl(text);
  const given = readParameters(parts.query);
  const hosts = readHosts(parts.hosts, given);
  const { sslrootcert: rootCert = null, sslcert: cert = null, sslkey: key = null } = given;
  if ((cert === null) !== (key === null)) refuse("needs sslcert and sslkey together");
  const seconds = given.connect_timeout ?? DEFAULT_TIMEOUT_S;
  return Object.freeze({
    hosts,
    user: readName(parts.user, "user"),
    password: readPassword(parts.password),
    database: readName(parts.database, "database"),
    tlsFiles: Object.freeze({ rootCert, cert, key }),
    targetSession: given.target_session_attrs ?? (hosts.length > 1 ? "read-write" : "any"),
    applicationName: given.application_name ?? "postbackd",
    connectTimeoutMs: seconds * 1000,
    searchPath: given.options ?? null,
    shown: parts.shown,
  });
}

/** The parts of a URL as they are written, percent-encoded. */
interface UrlParts {
  readonly user: string;
  readonly password: string | null;
  readonly hosts: string;
  readonly database: string;
  readonly query: string;
  readonly shown: string;
}

function splitUrl(text: string): UrlParts {
  // Later readers of the text would cut a line break off, and a NUL would end the first message of the sign-in early.
  if (/[\s\p{Cc}]/u.test(text)) refuse("is a URL that contains a space or a control character");
  const [, scheme, rest = ""] = /^(postgres(?:ql)?:\/\/)(.*)$/i.exec(text) ?? [];
  if (scheme === undefined) refuse(`must be a path or a URL such as ${FORM}`);
  // A password that holds one of @ / ? # moves the end of it to some other part, which messages would show.
  const at = rest.indexOf("@");
  const isSound = at === rest.lastIndexOf("@") && !/[/?#]/.test(rest.slice(0, Math.max(at, 0)));
  if (!isSound) refuse(`has more than a user and a password before its host: ${ENCODE}`);
  if (at <= 0 || rest.startsWith(":")) refuse(`has no user: write ${FORM}`);
  const [, user = "", secret] = /^([^:]*)(:.*)?$/.exec(rest.slice(0, at)) ?? [];
  const place = rest.slice(at + 1);
  if (place.includes("#")) refuse("has a # after its host: write it as %23");
  const [, hosts = "", path = "", query = ""] =
    /^([^/?]*)(?:\/([^?]*))?(?:\?(.*))?$/.exec(place) ?? [];
  const shown = `${scheme}${user}@${place}`;
  return { user, password: secret?.slice(1) ?? null, hosts, database: path, query, shown };
}

function readName(text: string, what: "user" | "database"): string {
  if (text === "") refuse(`names no ${what}: write ${FORM}`);
  if (text.includes("/")) refuse(`has more than a ${what} in its path: write / as %2F`);
  const name = decoded(text);
  // The server cuts longer names off (NAMEDATALEN), and would take another one.
  if (Buffer.byteLength(name) > 63) refuse(`has a ${what} of more than 63 bytes`);
  return name;
}

function readPassword(text: string | null): (() => string) | null {
  if (text === null || text === "") return null;
  const password = decoded(text);
  return () => password;
}

function readHosts(written: string, given: Parameters): readonly ServerHost[] {
  const { host = null, port = null } = given;
  if (written !== "" && host !== null)
    refuse("names its hosts twice: before the path and in host=");
  if (written !== "" && port !== null) refuse("has port= without host=: write HOST:PORT");
  const texts = (host ?? written).split(",");
  if (texts.length > HOSTS_MAX) refuse(`has more than ${HOSTS_MAX} hosts`);
  const hosts = texts.map((text) =>
    readHost(host === null ? decoded(text) : `${text}:${port ?? ""}`, given),
  );
  return Object.freeze(hosts);
}

function readHost(text: string, { sslmode }: Parameters): ServerHost {
  const [, name, digits] = /^(\[[^\]]*\]|[^:]*)(?::(\d{0,5}))?$/.exec(text) ?? [];
  const port = digits === undefined || digits === "" ? DEFAULT_PORT : Number(digits);
  if (name === undefined || port < 1 || port > 65_535) {
    refuse(`has a host that is not HOST, HOST:PORT or [IPV6]:PORT: ${quote(text)}`);
  }
  if (name === "")
    refuse("has no host; for a server on this machine write localhost or ?host=/run/postgresql");
  if (name.startsWith("/")) return Object.freeze({ host: name, port, tls: "disable" });
  const [, bracketed] = /^\[(.*)\]$/.exec(name) ?? [];
  const host = bracketed === undefined ? parseHost(name) : bracketed;
  const isHost = host !== null && (bracketed === undefined || parseAddress(host) !== null);
  if (!isHost) refuse(`has a host that is neither a name nor an address: ${quote(name)}`);
  // The network can read a connection that leaves this machine, and can impersonate the server.
  const tls = sslmode ?? (isLoopbackHost(host) ? "disable" : "verify-full");
  return Object.freeze({ host, port, tls });
}

const ABSOLUTE_PATH: Rule<string> = textRule({
  takes: "an absolute path",
  hint: "PATH",
  schema: { type: "string" },
  read: (text) => (text.startsWith("/") ? text : null),
});

// Other options would change what the store relies on, such as synchronous_commit.
const SEARCH_PATH: Rule<string> = textRule({
  takes: 'the schema of the tables alone, as "-c search_path=NAME" (percent-encoded)',
  hint: "OPTIONS",
  schema: { type: "string" },
  read: (text) => /^(?:-c ?|--)search_path=([a-z_][a-z0-9_]{0,62})$/.exec(text)?.[1] ?? null,
});

const RULES = {
  host: plainText(4096),
  port: integerBetween(1, 65_535),
  sslmode: oneOf(["disable", "require", "verify-ca", "verify-full"]),
  sslrootcert: textRule({
    ...ABSOLUTE_PATH,
    takes: 'an absolute path or "system"',
    read: (text) => (text === "system" || text.startsWith("/") ? text : null),
  }),
  sslcert: ABSOLUTE_PATH,
  sslkey: ABSOLUTE_PATH,
  target_session_attrs: oneOf(["any", "read-write"]),
  application_name: plainText(63),
  connect_timeout: integerBetween(1, 300),
  options: SEARCH_PATH,
};

type Parameters = { [Name in keyof typeof RULES]?: RuleValue<(typeof RULES)[Name]> };
type RuleValue<R> = R extends Rule<infer T> ? T : never;

// Each is known to libpq, and here it has a place of its own or would take protection away.
const OTHERWISE = new Map(
  Object.entries({
    user: `has user= after its host: write ${FORM}`,
    password: `has password= after its host: write ${FORM}`,
    dbname: `has dbname= after its host: write ${FORM}`,
    // Hosted databases write it into the URLs that they hand out. The client cannot insist on it.
    channel_binding:
      "has channel_binding=: remove it, and write sslmode=verify-full, which verifies the server",
    sslpassword: "has sslpassword=: give a key without a passphrase, readable for this user alone",
  }),
);

function readParameters(query: string): Parameters {
  const given = new Map<string, unknown>();
  for (const pair of query.split("&")) {
    if (pair === "") continue;
    const [, name = "", value = ""] = /^([^=]*)=?(.*)$/.exec(pair) ?? [];
    if (given.has(name)) refuse(`has ${name}= twice`);
    given.set(name, readParameter(decoded(name), decoded(value)));
  }
  // Each value was read by the rule of its name.
  return Object.fromEntries(given) as Parameters;
}

function readParameter(name: string, text: string): unknown {
  const otherwise = OTHERWISE.get(name);
  if (otherwise !== undefined) refuse(otherwise);
  const rules: Readonly<Record<string, Rule<unknown>>> = RULES;
  const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
  if (rule === undefined) {
    const nearest = nearestName(name, Object.keys(RULES));
    refuse(`has an unknown parameter ${quote(name)}; did you mean ${nearest}?`);
  }
  if (name === "sslmode" && (text === "prefer" || text === "allow")) refuse(GIVES_WAY);
  const parsed = parseText(rule, text);
  return parsed.kind === "value" ? parsed.value : refuse(`has ${name}=, which ${parsed.reason}`);
}

const GIVES_WAY =
  "has an sslmode that an attacker in the network can downgrade to plain text: write verify-full, " +
  "or disable if you trust the network";

function decoded(text: string): string {
  let plain: string;
  try {
    plain = decodeURIComponent(text);
  } catch {
    refuse("has a % without two hexadecimal digits after it: write % as %25");
  }
  // The sign-in's first message ends each value with a NUL: what stands behind one would be taken for another setting.
  if (/\p{Cc}/u.test(plain)) refuse("has a percent-encoded control character");
  return plain;
}

function refuse(reason: string): never {
  throw new Refusal(reason);
}
