import { readFileSync } from "node:fs";
import { type ConnectionOptions, checkServerIdentity } from "node:tls";

import type { ClientConfig } from "pg";

import {
  type ServerHost,
  type ServerUrl,
  type TlsMode,
  parseServerUrl,
} from "../../../domain/address/server-url.ts";
import { codeOf, messageOf } from "../../../domain/error.ts";
import { StoreError } from "../../store-error.ts";

/** The address of a database, and the credentials. Frozen. */
export interface ServerAddress {
  /** At least one, in the order in which they are tried. */
  readonly hosts: readonly ServerHostConfig[];
  /** `read-write` passes over a server that takes no writes. */
  readonly targetSession: ServerUrl["targetSession"];
  /** The URL without its password: for people, logs and errors. */
  readonly shown: string;
  /** The address with its TLS files as they are now: certificates are renewed while a daemon runs. */
  readonly readAgain: () => ServerAddress;
}

/** One place of a server: what pg takes to connect to it, and how messages name it. */
export interface ServerHostConfig extends Readonly<ClientConfig> {
  /** `db:5432`, or the path of a socket. */
  readonly shown: string;
  readonly user: string;
  readonly database: string;
  readonly tlsMode: TlsMode;
  readonly hasPassword: boolean;
}

/** Makes the address of a URL, and reads its TLS files. Throws a StoreError of kind `failed` that names the file. */
export function readServerAddress(url: ServerUrl): ServerAddress {
  const files = url.hosts.some(({ tls }) => tls !== "disable") ? readTlsFiles(url) : {};
  return Object.freeze({
    hosts: Object.freeze(url.hosts.map((host) => toHostConfig(host, { url, files }))),
    targetSession: url.targetSession,
    shown: url.shown,
    readAgain: () => readServerAddress(url),
  });
}

/** The same of a text. Throws a StoreError of kind `failed` that describes the fault without repeating the address. */
export function parseServerAddress(text: string): ServerAddress {
  const parsed = parseServerUrl(text);
  if (parsed.kind === "value") return readServerAddress(parsed.value);
  throw new StoreError("failed", `the URL of the database ${parsed.reason}`);
}

/** The address without its password: for the ready line, logs and errors. */
export function shownAddress({ shown }: ServerAddress): string {
  return shown;
}

type TlsMaterial = Pick<ConnectionOptions, "ca" | "cert" | "key">;

function toHostConfig(
  { host, port, tls }: ServerHost,
  { url, files }: { readonly url: ServerUrl; readonly files: TlsMaterial },
): ServerHostConfig {
  const { user, password, database, applicationName, connectTimeoutMs, searchPath } = url;
  return Object.freeze({
    host,
    port,
    user,
    database,
    // Also a function without a password: for a missing text pg would read PGPASSWORD and ~/.pgpass.
    password: password ?? (() => ""),
    hasPassword: password !== null,
    ssl: toTls(tls, files),
    application_name: applicationName,
    connectionTimeoutMillis: connectTimeoutMs,
    // PgBouncer refuses an `options` that its configuration does not ignore, so it is sent only if configured.
    ...(searchPath !== null && { options: `-c search_path=${searchPath}` }),
    keepAlive: true,
    shown: host.startsWith("/") ? `${host}/.s.PGSQL.${port}` : hostPort(host, port),
    tlsMode: tls,
  });
}

function hostPort(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** The options that pg hands on to `tls.connect`. Not frozen: pg redefines the key in it. */
function toTls(mode: TlsMode, { ca, cert, key }: TlsMaterial): ConnectionOptions | false {
  if (mode === "disable") return false;
  // With an authority of its own, `require` is checked against that: libpq does the same.
  const isChecked = mode !== "require" || ca !== undefined;
  const options: ConnectionOptions = {
    ...(ca !== undefined && { ca }),
    ...(cert !== undefined && { cert }),
    rejectUnauthorized: isChecked,
    checkServerIdentity: mode === "verify-full" ? checkServerIdentity : () => undefined,
  };
  if (key === undefined) return options;
  // As pg does: what prints the options shows no private key.
  return Object.defineProperty(options, "key", { value: key, configurable: true });
}

function readTlsFiles({ tlsFiles: { rootCert, cert, key } }: ServerUrl): TlsMaterial {
  return {
    ...(rootCert !== null && rootCert !== "system" && { ca: readPem("sslrootcert", rootCert) }),
    ...(cert !== null && { cert: readPem("sslcert", cert) }),
    ...(key !== null && { key: readPem("sslkey", key) }),
  };
}

function readPem(parameter: string, file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const code = codeOf(error) ?? "unknown error";
    const message = `${parameter} names ${file}, which cannot be read (${code})`;
    throw new StoreError("failed", message, { cause: error });
  }
}

/** The place that was asked, as messages name it. */
export type AskedPlace = Pick<
  ServerHostConfig,
  "shown" | "user" | "database" | "tlsMode" | "hasPassword"
>;

/**
 * Describes why a server was not reached or refused this program, and how to fix it. The kind is `unreachable` where
 * the same attempt may succeed later, and `failed` where the operator must change something first. The message of pg is
 * repeated only without a better one; it never contains a password.
 */
export function connectError(error: unknown, at: AskedPlace): StoreError {
  if (error instanceof StoreError) return error;
  const code = codeOf(error) ?? "";
  const message = messageOf(error);
  const { kind, text } =
    ofSystem(code, at) ??
    ofTls(code, message, at) ??
    ofServer(code, message, at) ??
    ofClient(message, at);
  return new StoreError(kind, text, { cause: error });
}

interface Explained {
  readonly kind: "unreachable" | "failed";
  readonly text: string;
}

const passing = (text: string): Explained => ({ kind: "unreachable", text });
const lasting = (text: string): Explained => ({ kind: "failed", text });

/** Errors of the machine and of the network. */
function ofSystem(code: string, { shown }: AskedPlace): Explained | null {
  switch (code) {
    case "ECONNREFUSED":
      return passing(
        `nothing listens at ${shown}: start the server, or correct host and port (--db)`,
      );
    case "ENOENT":
      return passing(
        `the socket ${shown} does not exist: start the server, or correct ?host= and port (--db)`,
      );
    case "EACCES":
    case "EPERM":
      return lasting(`this user may not open ${shown} (${code}): let it, or connect over TCP`);
    case "ENOTFOUND":
      return passing(
        `the host of ${shown} is not known here: correct its name (--db), or the name server`,
      );
    case "EAI_AGAIN":
      return passing(`no name server answered for the host of ${shown}: is the network up?`);
    case "ETIMEDOUT":
    case "EHOSTUNREACH":
    case "ENETUNREACH":
    case "EHOSTDOWN":
      return passing(`${shown} cannot be reached (${code}): does a firewall block it?`);
    case "ECONNRESET":
    case "EPIPE":
      return passing(`${shown} closed the connection (${code}): it restarts, or is not PostgreSQL`);
    default:
      return null;
  }
}

const UNTRUSTED: ReadonlySet<string> = new Set([
  ...[
    "SELF_SIGNED_CERT_IN_CHAIN",
    "DEPTH_ZERO_SELF_SIGNED_CERT",
    "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  ],
  ...["UNABLE_TO_GET_ISSUER_CERT", "UNABLE_TO_GET_ISSUER_CERT_LOCALLY", "CERT_UNTRUSTED"],
]);

function ofTls(code: string, message: string, { shown }: AskedPlace): Explained | null {
  if (UNTRUSTED.has(code)) {
    return lasting(
      `the certificate of ${shown} is not signed by a trusted authority (${code}): name its authority's ` +
        "with sslrootcert=/path/to/ca.pem in the URL",
    );
  }
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") {
    return lasting(
      `the certificate of ${shown} is for another name: use a name that it holds, or write sslmode=verify-ca`,
    );
  }
  if (code === "CERT_HAS_EXPIRED" || code === "CERT_NOT_YET_VALID") {
    return lasting(
      `the certificate of ${shown} is not valid now (${code}): renew it, or correct this clock`,
    );
  }
  if (message === "The server does not support SSL connections") {
    return lasting(
      `${shown} does not support TLS: enable it there (ssl = on), or write sslmode=disable in the URL ` +
        "where the network is trusted",
    );
  }
  if (!/^(ERR_SSL|ERR_OSSL|ERR_TLS)/.test(code)) return null;
  return lasting(
    `${shown} and this program agree on no TLS (${code}): check sslcert, sslkey and its ssl settings`,
  );
}

/** Errors that the server answers, by their SQLSTATE. */
function ofServer(code: string, message: string, at: AskedPlace): Explained | null {
  const { shown, user, database } = at;
  switch (code) {
    case "28P01":
      if (!at.hasPassword) return noPassword(at);
      // By the same code the server answers for a role that does not exist, so that roles cannot be found out.
      return lasting(
        `${shown} refuses ${user} with this password: correct one of them in the URL (--db)`,
      );
    case "28000":
      return lasting(signInText(message, at));
    case "3D000":
      return lasting(
        `the database ${database} does not exist at ${shown}: create it with 'createdb -O ${user} ${database}', or name ` +
          "another (--db)",
      );
    case "3F000":
      return lasting(
        `the schema in options= does not exist in ${database}: make it, or correct the URL (--db)`,
      );
    case "42501":
      return lasting(
        `${user} may not do this in ${database} at ${shown} (${message}): make it the owner of the database, or ` +
          "grant it CREATE and USAGE on the schema",
      );
    case "53300":
      return passing(
        `${shown} has no free connection: raise max_connections there, or start fewer nodes (each takes nine)`,
      );
    case "25006":
      return passing(readOnlyText(shown));
    case "57P03":
    case "57P01":
    case "57P02":
      return passing(`${shown} starts, stops or recovers (${message})`);
    case "08P01":
      return lasting(startupText(message, at));
    default:
      return /^[0-9A-Z]{5}$/.test(code) ? lasting(`${shown} answered: ${message} (${code})`) : null;
  }
}

/** The message for a list of servers of which none accepts writes. */
export function readOnlyText(shown: string): string {
  return (
    `${shown} accepts no writes: it is a standby, or default_transaction_read_only is on; name the primary, or all ` +
    "servers as HOST,HOST (--db)"
  );
}

function signInText(message: string, { shown, user, tlsMode }: AskedPlace): string {
  if (message.includes("does not exist")) {
    return `the role ${user} does not exist at ${shown}: create it with 'createuser --pwprompt ${user}', or name another (--db)`;
  }
  if (message.startsWith("no pg_hba.conf entry")) {
    const hint = tlsMode === "disable" ? ", or write sslmode=verify-full if it demands TLS" : "";
    return `${shown} does not accept ${user} from this address: add a line to pg_hba.conf${hint}`;
  }
  return `${shown} does not let ${user} in (${message}): see its pg_hba.conf`;
}

function startupText(message: string, { shown }: AskedPlace): string {
  if (!message.includes("startup parameter")) return `${shown} answered: ${message} (08P01)`;
  return (
    `${shown} is a PgBouncer that refuses a setting of the URL (${message}): set ` +
    "ignore_startup_parameters there, or take options= out"
  );
}

function noPassword({ shown, user }: AskedPlace): Explained {
  return lasting(
    `${shown} asks for the password of ${user}, and the URL has none: write it there (--db), or the URL into a file ` +
      "that POSTBACKD_DB_FILE names",
  );
}

/** Errors that pg makes itself have no code. */
function ofClient(message: string, at: AskedPlace): Explained {
  const { shown } = at;
  if (/^SASL.*client password must be/.test(message)) {
    return noPassword(at);
  }
  if (/timeout/.test(message)) {
    return passing(
      `${shown} did not respond in time: is it overloaded, or does a firewall block it?`,
    );
  }
  if (message.startsWith("Connection terminated")) {
    return passing(`${shown} closed the connection: it restarts, or is not PostgreSQL`);
  }
  if (/SSL/.test(message)) return lasting(`${shown} refuses TLS (${message})`);
  return passing(`${shown} cannot be reached: ${message}`);
}

/** The settings of a server that this program depends on and cannot set, as `SHOW` answers them. */
export interface ServerSettings {
  readonly server_encoding: string;
  readonly fsync: string;
  readonly full_page_writes: string;
  readonly synchronous_commit: string;
}

/** Refuses a server that may lose acknowledged commits or cannot store every text; null for any other. */
export function settingsError(
  { server_encoding: encoding, ...settings }: ServerSettings,
  { shown, user, database }: Pick<AskedPlace, "shown" | "user" | "database">,
): StoreError | null {
  if (encoding !== "UTF8") {
    const command = `createdb --encoding=UTF8 --template=template0 -O ${user} NAME`;
    return new StoreError(
      "failed",
      `the database ${database} at ${shown} has the encoding ${encoding}, which cannot store every text: create ` +
        `another one with '${command}', and name it (--db)`,
    );
  }
  const off = Object.entries(settings).find(([, value]) => value === "off");
  if (off === undefined) return null;
  const [name] = off;
  const where =
    name === "synchronous_commit"
      ? `for this role or database (ALTER ROLE … SET ${name} = on)`
      : "there";
  return new StoreError(
    "failed",
    `${shown} would lose acknowledged tasks, because ${name} is off: switch it on ${where}`,
  );
}
