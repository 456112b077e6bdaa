import { readFileSync } from "node:fs";
import { checkServerIdentity, type ConnectionOptions } from "node:tls";

import type { ClientConfig } from "pg";

import { parseServerUrl } from "../../../domain/address/server-url.ts";
import type { ServerHost, ServerUrl, TlsMode } from "../../../domain/address/server-url.ts";
import { codeOf } from "../../../domain/error.ts";
import { StoreError } from "../../store-error.ts";

/** Where a database is, and how to sign in there. Frozen. */
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

/** The same of a text. Throws a StoreError of kind `failed` that tells what is wrong with it, without repeating it. */
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
    // A function also where there is none: pg would look into PGPASSWORD and ~/.pgpass for a text that is missing.
    password: password ?? (() => ""),
    hasPassword: password !== null,
    ssl: toTls(tls, files),
    application_name: applicationName,
    connectionTimeoutMillis: connectTimeoutMs,
    // PgBouncer refuses an `options` that it was not told to ignore, so nothing is sent unless it is asked for.
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
