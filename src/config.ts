import { resolve } from "node:path";

import { readConfigFile, readConfigTable } from "./config/file.ts";
import type { ConfigFile, FileTable } from "./config/file.ts";
import { envLayer, flagLayer, takeValue } from "./config/layer.ts";
import type { ConfigProblem, Findings, Given, Layer } from "./config/layer.ts";
import { parseMarketplaces } from "./config/marketplace.ts";
import type { Marketplace } from "./config/marketplace.ts";
import { isLoopbackHost } from "./config/network.ts";
import { SETTINGS } from "./config/setting.ts";
import type { Setting } from "./config/setting.ts";
import { parseTypes } from "./config/type.ts";
import type { TypeConfig } from "./config/type.ts";
import { EMPTY_ALLOW_LIST, parseAllowList } from "./domain/allow-list.ts";
import type { AllowList } from "./domain/allow-list.ts";
import type { AccountLimits } from "./domain/quota.ts";

export type { ConfigProblem } from "./config/layer.ts";
export type { Marketplace } from "./config/marketplace.ts";
export { readFileText } from "./config/file.ts";
export { SETTING_LIST } from "./config/setting.ts";
export type { Setting } from "./config/setting.ts";
export type { CommandTypeConfig, EchoTypeConfig, TypeConfig } from "./config/type.ts";
export { nearestName } from "./config/nearest-name.ts";

/** Everything that an operator decides, checked and frozen. What each value means: config/setting.ts. */
export interface Config {
  /** Absolute path of the configuration file; null where there is none. */
  readonly file: string | null;
  /** Absolute path. */
  readonly database: string;
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  readonly readyFile: string | null;
  readonly dashboard: boolean;
  /** Scheme, host and port at which browsers reach the dashboard; null: the address listened on. */
  readonly publicUrl: string | null;
  readonly insecureHttp: boolean;
  /** CIDR blocks and single addresses, as written. */
  readonly trustedProxies: readonly string[];
  /** Absolute paths of the certificate chain and its key; null: no HTTPS of its own. */
  readonly tls: TlsFiles | null;
  readonly webhooks: WebhookConfig;
  readonly retentionDays: number;
  readonly retentionMs: number;
  readonly limits: LimitConfig;
  /** By name. Never empty. */
  readonly types: ReadonlyMap<string, TypeConfig>;
  readonly marketplaces: readonly Marketplace[];
  readonly log: LogConfig;
  /**
   * Where each value comes from, by key: `flag --port`, `environment POSTBACKD_PORT`,
   * `file /etc/postbackd.toml` or `default`.
   */
  readonly sources: ReadonlyMap<string, string>;
  /** Each value by its key, for showing: as it was written, paths absolute, no secrets. */
  readonly values: ReadonlyMap<string, unknown>;
}

export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

export interface WebhookConfig {
  readonly timeoutMs: number;
  /** One wait per retry, counted from the failure; empty is no retries. */
  readonly retryAfterMs: readonly number[];
  readonly maxInFlight: number;
  readonly maxInFlightPerHost: number;
  /** Who resolves webhook hosts, as `address` or `address:port`; empty: the system's servers. */
  readonly dnsServers: readonly string[];
  /** As written. */
  readonly allow: readonly string[];
  readonly allowList: AllowList;
}

export interface LimitConfig {
  readonly bodyBytes: number;
  readonly tasksPerPost: number;
  readonly resultBytes: number;
  /** Days that a task may wait in the queue while the daemon runs. */
  readonly queueDays: number;
  /** Operations that may wait for the store's writer. */
  readonly writeBacklog: number;
  /** Of each account that has none of its own. */
  readonly account: AccountLimits;
  /** Per client address; 0 is no limit, as in the next. */
  readonly failedAuthenticationsPerMinute: number;
  /** Per client address. */
  readonly accessRequestsPerHour: number;
  readonly connections: number;
  readonly headerTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly sendTimeoutMs: number;
  /** Below this much free space nothing new is taken in; 0 is no limit. */
  readonly diskFreeBytes: number;
  /** From this much data on nothing new is taken in; 0 is no limit. */
  readonly databaseBytes: number;
}

export interface LogConfig {
  readonly level: "debug" | "info" | "warn" | "error" | "silent";
  readonly format: "json" | "text";
}

/** What {@link loadConfig} reads. It looks at nothing else. */
export interface ConfigInput {
  /** By name without dashes, such as `allow-target`; `undefined` is a flag that was not given. */
  readonly flags: Readonly<Record<string, unknown>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Absolute. Relative paths of flags and variables are relative to it. */
  readonly cwd: string;
  /** Text of a file, null where there is none; throws where it cannot be read. */
  readonly readFile: (path: string) => string | null;
  /**
   * What a program gives that embeds the daemon, in the form of the file: then no file is read, and a type may be, or
   * `run`, a function. Relative paths are relative to `cwd`.
   */
  readonly table?: FileTable;
  /** Whether the log goes to a terminal. */
  readonly isTerminal?: boolean;
}

/** The configuration, or everything that is wrong with it. */
export type ConfigVerdict =
  | { readonly kind: "config"; readonly config: Config }
  | {
      readonly kind: "problems";
      readonly problems: readonly ConfigProblem[];
      /** With a default in the place of everything that is wrong: to be looked at, never to be used. */
      readonly draft: Config;
    };

/**
 * Loads the configuration: flags before `POSTBACKD_*` variables before `postbackd.toml` before defaults.
 * Every problem of every source is reported, none of them with the value of a secret.
 */
export function loadConfig(input: ConfigInput): ConfigVerdict {
  const findings: Findings = { problems: [], sources: new Map(), values: new Map() };
  const place = { cwd: input.cwd, findings };
  const layers = [flagLayer(input.flags, place), envLayer(input.env, place)];
  const file = findFile(layers, { input, findings });
  const config = readSettings([...layers, file.layer], { input, file, findings });
  checkPlainHttp(config, findings);
  const { problems } = findings;
  return problems.length > 0
    ? { kind: "problems", problems, draft: config }
    : { kind: "config", config };
}

/** A problem on one line, for people. */
export function problemText({ source, message }: ConfigProblem): string {
  return source === "default" ? message : `${source}: ${message}`;
}

const DEFAULT_FILE = "postbackd.toml";

function findFile(
  layers: readonly Layer[],
  { input, findings }: { readonly input: ConfigInput; readonly findings: Findings },
): ConfigFile {
  if (input.table !== undefined) {
    return readConfigTable(input.table, { folder: input.cwd, findings });
  }
  const path = settingReader(layers, { input, findings })(SETTINGS.config);
  return readConfigFile(
    {
      path: path ?? resolve(input.cwd, DEFAULT_FILE),
      source: findings.sources.get(SETTINGS.config.key) ?? "default",
      mustExist: path !== null,
    },
    { readFile: input.readFile, findings },
  );
}

type SettingReader = <T>(setting: Setting<T>) => T;

function settingReader(
  layers: readonly Layer[],
  { input, findings }: { readonly input: ConfigInput; readonly findings: Findings },
): SettingReader {
  return (setting) =>
    takeValue(setting.rule, {
      key: setting.key,
      given: firstGiven(layers, setting.key),
      fallback: { raw: setting.default, source: "default", folder: input.cwd },
      findings,
    });
}

function firstGiven(layers: readonly Layer[], key: string): Given | undefined {
  return layers.find((layer) => layer.has(key))?.get(key);
}

function readSettings(
  layers: readonly Layer[],
  from: { readonly input: ConfigInput; readonly file: ConfigFile; readonly findings: Findings },
): Config {
  const { input, file, findings } = from;
  const read = settingReader(layers, from);
  const retentionDays = read(SETTINGS.retentionDays);
  return Object.freeze({
    file: file.path,
    database: read(SETTINGS.database),
    host: read(SETTINGS.host),
    port: read(SETTINGS.port),
    readyFile: read(SETTINGS.readyFile),
    dashboard: read(SETTINGS.dashboard),
    publicUrl: read(SETTINGS.publicUrl),
    insecureHttp: read(SETTINGS.insecureHttp),
    trustedProxies: read(SETTINGS.trustedProxies),
    tls: readTls(read, findings),
    webhooks: readWebhooks(read, findings),
    retentionDays,
    retentionMs: retentionDays * 86_400_000,
    limits: readLimits(read),
    types: parseTypes(file.types, findings),
    marketplaces: parseMarketplaces(file.marketplaces, findings),
    log: Object.freeze({
      level: read(SETTINGS.logLevel),
      format: logFormat(read(SETTINGS.logFormat), input),
    }),
    sources: findings.sources,
    values: findings.values,
  });
}

function readLimits(read: SettingReader): LimitConfig {
  return Object.freeze({
    bodyBytes: read(SETTINGS.limitsBody),
    tasksPerPost: read(SETTINGS.limitsTasksPerPost),
    resultBytes: read(SETTINGS.limitsResult),
    queueDays: read(SETTINGS.limitsQueueDays),
    writeBacklog: read(SETTINGS.limitsWriteBacklog),
    account: Object.freeze({
      bytes: read(SETTINGS.limitsAccountBytes),
      openTasks: read(SETTINGS.limitsAccountOpenTasks),
      requestsPerMinute: read(SETTINGS.limitsRequestsPerMinute),
      tasksPerMinute: read(SETTINGS.limitsAccountTasksPerMinute),
    }),
    failedAuthenticationsPerMinute: read(SETTINGS.limitsFailedAuthentications),
    accessRequestsPerHour: read(SETTINGS.limitsAccessRequests),
    connections: read(SETTINGS.limitsConnections),
    headerTimeoutMs: read(SETTINGS.limitsHeaderTimeout),
    requestTimeoutMs: read(SETTINGS.limitsRequestTimeout),
    sendTimeoutMs: read(SETTINGS.limitsSendTimeout),
    diskFreeBytes: read(SETTINGS.limitsDiskFree),
    databaseBytes: read(SETTINGS.limitsDatabaseSize),
  });
}

// Half a pair is a mistake that would serve plain HTTP where HTTPS was meant.
function readTls(read: SettingReader, { problems, sources }: Findings): TlsFiles | null {
  const cert = read(SETTINGS.tlsCert);
  const key = read(SETTINGS.tlsKey);
  if (cert !== null && key !== null) return Object.freeze({ cert, key });
  if (cert === null && key === null) return null;
  const [given, missing] =
    cert === null ? [SETTINGS.tlsKey, SETTINGS.tlsCert] : [SETTINGS.tlsCert, SETTINGS.tlsKey];
  problems.push({
    key: given.key,
    source: sources.get(given.key) ?? "default",
    message: `${given.key} needs ${missing.key} (--${missing.flag}) beside it`,
  });
  return null;
}

function readWebhooks(read: SettingReader, findings: Findings): WebhookConfig {
  const allow = read(SETTINGS.webhooksAllow);
  return Object.freeze({
    timeoutMs: read(SETTINGS.webhooksTimeout),
    retryAfterMs: read(SETTINGS.webhooksRetryAfter),
    maxInFlight: read(SETTINGS.webhooksMaxInFlight),
    maxInFlightPerHost: read(SETTINGS.webhooksMaxInFlightPerHost),
    dnsServers: read(SETTINGS.webhooksDnsServers),
    allow,
    allowList: readAllowList(allow, findings),
  });
}

function readAllowList(allow: readonly string[], findings: Findings): AllowList {
  const verdict = parseAllowList(allow);
  if (verdict.kind === "allow-list") return verdict.list;
  const { key } = SETTINGS.webhooksAllow;
  const source = findings.sources.get(key) ?? "default";
  for (const { entry, reason } of verdict.problems) {
    findings.problems.push({ key, source, message: `${key}: '${entry}' ${reason}` });
  }
  return EMPTY_ALLOW_LIST;
}

function logFormat(
  format: "auto" | "json" | "text",
  { isTerminal = false }: ConfigInput,
): "json" | "text" {
  if (format !== "auto") return format;
  return isTerminal ? "text" : "json";
}

/** Keys travel in every request: beyond this machine they need HTTPS, or an operator who says not. */
function checkPlainHttp(config: Config, { problems, sources }: Findings): void {
  if (isLoopbackHost(config.host) || config.insecureHttp) return;
  if (config.trustedProxies.length > 0 || config.tls !== null) return;
  const { config: file, host, insecureHttp, trustedProxies, tlsCert, tlsKey } = SETTINGS;
  // Where one of these was faulty its default stands in, and what the operator meant is not known.
  const decisive = [file, insecureHttp, trustedProxies, tlsCert, tlsKey];
  const keys: readonly string[] = decisive.map(({ key }) => key);
  if (problems.some(({ key }) => keys.includes(key))) return;
  problems.push({
    key: host.key,
    source: sources.get(host.key) ?? "default",
    message:
      `host ${config.host} is beyond loopback, where plain HTTP shows every key: give a certificate ` +
      "(tls_cert and tls_key, --tls-cert F --tls-key F), or the proxy that does HTTPS " +
      "(trusted_proxies, --trusted-proxy CIDR), or say that you accept it " +
      "(insecure_http, --insecure-http)",
  });
}
