import { resolve } from "node:path";

import { isLoopbackHost } from "../domain/address/address.ts";
import { EMPTY_ALLOW_LIST, parseAllowList, type AllowList } from "../domain/address/allow-list.ts";
import { parseServerUrl, withPasswordOf, type ServerUrl } from "../domain/address/server-url.ts";
import { DAY_MS } from "../domain/clock/duration.ts";
import { quote } from "../domain/rule.ts";
import { closeName, nearestName } from "../domain/text.ts";
import { judgeWebhookUrl } from "../domain/webhook/webhook-url.ts";
import { readConfigFile, readConfigTable, type ConfigFile, type FileTable } from "./file.ts";
import { envLayer, flagLayer, takeValue } from "./layer.ts";
import type { ConfigProblem, Findings, Layer } from "./layer.ts";
import { parseMarketplaces, type Marketplace } from "./marketplace.ts";
import type { Setting } from "./setting-rule.ts";
import { CONFIG_FILE, readSettings, SETTINGS } from "./setting.ts";
import type { SettingValues } from "./setting.ts";
import { parseTypes, type TypeConfig } from "./type.ts";

export type { ConfigProblem } from "./layer.ts";
export type { Marketplace } from "./marketplace.ts";
export { readFileText } from "./file.ts";
export { flagFault } from "./layer.ts";
export { SETTING_LIST } from "./setting.ts";
export type { Setting } from "./setting-rule.ts";
export type { TypeConfig } from "./type.ts";
export { closeName, nearestName };

/** Everything that an operator decides, checked and frozen. config/setting.ts explains each value. */
export interface Config extends Omit<
  SettingValues,
  "database" | "tls" | "runTypes" | "webhooks" | "log"
> {
  /** The database, for people: the absolute path of the file, or the URL of PostgreSQL without its password. */
  readonly database: string;
  /** The server that keeps the data; null when it is a file. */
  readonly server: ServerUrl | null;
  /** Absolute path of the configuration file; null without a file. */
  readonly file: string | null;
  /** Absolute paths of the certificate chain and its key; null when the daemon serves no HTTPS itself. */
  readonly tls: TlsFiles | null;
  readonly webhooks: SettingValues["webhooks"] & { readonly allowList: AllowList };
  readonly retentionMs: number;
  /** By name. Never empty. */
  readonly types: ReadonlyMap<string, TypeConfig>;
  /** The names of the types whose tasks this daemon runs itself, unless workers run them. */
  readonly runTypes: ReadonlySet<string>;
  readonly marketplaces: readonly Marketplace[];
  readonly log: Omit<SettingValues["log"], "format"> & { readonly format: "json" | "text" };
  /** The source of each value by key: `flag --port`, `environment POSTBACKD_PORT`, `file PATH`, `default`. */
  readonly sources: ReadonlyMap<string, string>;
  /** Each value by its key, for showing: as it was written, with absolute paths and without secrets. */
  readonly values: ReadonlyMap<string, unknown>;
}

export interface TlsFiles {
  readonly cert: string;
  readonly key: string;
}

/** The input of {@link loadConfig}, which looks at nothing else. */
export interface ConfigInput {
  /** By name without dashes, such as `allow-target`; `undefined` is a flag that was not given. */
  readonly flags: Readonly<Record<string, unknown>>;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Absolute. Relative paths of flags and variables are relative to it. */
  readonly cwd: string;
  /** The text of a file, null if it does not exist; throws if it cannot be read. */
  readonly readFile: (path: string) => string | null;
  /**
   * The settings of a program that embeds the daemon, in the form of the file. No file is read then, and a type, or its
   * `run`, may be a function. Relative paths are relative to `cwd`.
   */
  readonly table?: FileTable;
  /** True when the log goes to a terminal. */
  readonly isTerminal?: boolean;
  /**
   * The configuration file of this machine's service, used if no flag and no variable names a configuration or a
   * database. Null for a command that does not use the service, and in a folder with its own configuration or database.
   */
  readonly serviceFile?: string | null;
}

/** The configuration, or everything that is wrong with it. */
export type ConfigVerdict =
  | { readonly kind: "config"; readonly config: Config }
  | {
      readonly kind: "problems";
      readonly problems: readonly ConfigProblem[];
      /** Has a default in the place of everything that is wrong: to be looked at, never to be used. */
      readonly draft: Config;
    };

/** Flags come first, then variables, file and defaults. Reports every problem, and never the value of a secret. */
export function loadConfig(input: ConfigInput): ConfigVerdict {
  const findings: Findings = {
    ...{ problems: [], sources: new Map(), values: new Map() },
    readAgain: new Map(),
  };
  const place = { cwd: input.cwd, findings };
  const layers = [
    flagLayer(input.flags, place),
    envLayer(input.env, { ...place, readFile: input.readFile }),
  ];
  const file = findFile(layers, { input, findings });
  const read = settingReader([...layers, file.layer], { input, findings });
  const config = toConfig(readSettings(read), { input, file, findings });
  checkPlainHttp(config, findings);
  checkBackups(config, findings);
  checkEvents(config, findings);
  const problems = findings.problems.map((problem) => {
    const line = problem.source === `file ${file.path}` ? file.lineOf(problem.key) : undefined;
    return line === undefined ? problem : { ...problem, source: `${problem.source}, line ${line}` };
  });
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
  const service = serviceLayer(layers, input);
  const path = settingReader([...layers, service], { input, findings })(CONFIG_FILE);
  const source = findings.sources.get(CONFIG_FILE.key) ?? "default";
  return readConfigFile(
    {
      path: path ?? resolve(input.cwd, DEFAULT_FILE),
      source,
      mustExist: path !== null,
      remedy: source === SERVICE_SOURCE ? SERVICE_REMEDY : null,
    },
    { readFile: input.readFile, findings },
  );
}

const SERVICE_SOURCE = "this machine's service";
const SERVICE_REMEDY = "run this as root (sudo), or name your own database with --db";

/** The place of the service's file, unless a database is named: then that is meant, and not the service's. */
function serviceLayer(layers: readonly Layer[], { serviceFile, cwd }: ConfigInput): Layer {
  const isNamed = layers.some((layer) => layer.has(SETTINGS.database.key));
  if (serviceFile === undefined || serviceFile === null || isNamed) return new Map();
  return new Map([[CONFIG_FILE.key, { raw: serviceFile, source: SERVICE_SOURCE, folder: cwd }]]);
}

function settingReader(
  layers: readonly Layer[],
  { input, findings }: { readonly input: ConfigInput; readonly findings: Findings },
): <T>(setting: Setting<T>) => T {
  return (setting) =>
    takeValue(setting.rule, {
      key: setting.key,
      given: layers.find((layer) => layer.has(setting.key))?.get(setting.key),
      fallback: { raw: setting.default, source: "default", folder: input.cwd },
      findings,
    });
}

function toConfig(
  values: SettingValues,
  from: { readonly input: ConfigInput; readonly file: ConfigFile; readonly findings: Findings },
): Config {
  const { input, file, findings } = from;
  const { webhooks, log } = values;
  const types = parseTypes(file.layer.get("types"), { findings, readFile: input.readFile });
  const auto = input.isTerminal === true ? "text" : "json";
  return Object.freeze({
    ...values,
    database: values.database.shown,
    server: toServer(values.database.server, findings),
    file: file.path,
    tls: toTls(values.tls, findings),
    webhooks: Object.freeze({ ...webhooks, allowList: toAllowList(webhooks.allow, findings) }),
    retentionMs: values.retentionDays * DAY_MS,
    types,
    runTypes: toRunTypes(values.runTypes, { types, findings }),
    marketplaces: parseMarketplaces(file.layer.get("marketplaces"), findings),
    log: Object.freeze({ ...log, format: log.format === "auto" ? auto : log.format }),
    sources: findings.sources,
    values: findings.values,
  });
}

function toServer(server: ServerUrl | null, { readAgain }: Findings): ServerUrl | null {
  const read = readAgain.get(SETTINGS.database.key);
  if (server === null || read === undefined) return server;
  return withPasswordOf(server, () => {
    const parsed = parseServerUrl(read() ?? "");
    return parsed.kind === "value" ? parsed.value : null;
  });
}

// One file without the other is a mistake that would serve plain HTTP where HTTPS was meant.
function toTls({ cert, key }: SettingValues["tls"], findings: Findings): TlsFiles | null {
  if (cert !== null && key !== null) return Object.freeze({ cert, key });
  if (cert === null && key === null) return null;
  const [given, missing] =
    cert === null ? [SETTINGS.tls.key, SETTINGS.tls.cert] : [SETTINGS.tls.cert, SETTINGS.tls.key];
  const message = `${given.key} needs ${missing.key} (--${missing.flag}) beside it`;
  report(findings, given.key, message);
  return null;
}

function toRunTypes(
  names: readonly string[],
  { types, findings }: { readonly types: Config["types"]; readonly findings: Findings },
): Config["runTypes"] {
  const { key } = SETTINGS.runTypes;
  for (const name of names) {
    if (types.has(name)) continue;
    const nearest = nearestName(name, [...types.keys()]);
    report(
      findings,
      key,
      `${key}: type ${quote(name)} does not exist; the most similar type is ${nearest}`,
    );
  }
  return new Set(names.length === 0 ? types.keys() : names);
}

function toAllowList(allow: readonly string[], findings: Findings): AllowList {
  const verdict = parseAllowList(allow);
  if (verdict.kind === "allow-list") return verdict.list;
  const { key } = SETTINGS.webhooks.allow;
  for (const { entry, reason } of verdict.problems) {
    report(findings, key, `${key}: '${entry}' ${reason}`);
  }
  return EMPTY_ALLOW_LIST;
}

/** Every request carries keys: beyond this machine they need HTTPS, or an operator who says that they do not. */
function checkPlainHttp(config: Config, findings: Findings): void {
  if (isLoopbackHost(config.host) || config.insecureHttp) return;
  if (config.trustedProxies.length > 0 || config.tls !== null) return;
  const { host, insecureHttp, trustedProxies, tls } = SETTINGS;
  // A faulty setting has its default, and the operator's intention is unknown.
  const decisive = [CONFIG_FILE, insecureHttp, trustedProxies, tls.cert, tls.key];
  const keys: readonly string[] = decisive.map(({ key }) => key);
  if (findings.problems.some(({ key }) => keys.includes(key))) return;
  report(
    findings,
    host.key,
    `host ${config.host} is not loopback, and plain HTTP reveals every key on the network: set a certificate ` +
      "(tls_cert and tls_key, --tls-cert F --tls-key F), name the proxy that terminates HTTPS " +
      "(trusted_proxies, --trusted-proxy CIDR), or accept plain HTTP " +
      "(insecure_http, --insecure-http)",
  );
}

// The daemon copies files alone; an operator who asks for copies must not believe that there are some.
function checkBackups({ server, backup }: Config, findings: Findings): void {
  if (server === null || backup.schedule === null) return;
  const { key } = SETTINGS.backup.schedule;
  report(
    findings,
    key,
    `${key}: the database is on a PostgreSQL server; have its own tools copy it: pg_dump by cron, or pg_basebackup with ` +
      "archived WAL",
  );
}

/** By the rules of webhook URLs; the machine's own addresses, which may change, are judged at each attempt. */
function checkEvents({ events, webhooks }: Config, findings: Findings): void {
  if (events.url === null) return;
  const wrong = new Set(findings.problems.map(({ key }) => key));
  const { url, secret } = SETTINGS.events;
  if (events.secret === null && !wrong.has(secret.key)) {
    const make = "make one with: echo whsec_$(openssl rand -base64 32)";
    const message = `${url.key} needs ${secret.key} (${secret.env}), which signs what is sent there; ${make}`;
    report(findings, url.key, message);
  }
  // Without a part of the list the verdict would mislead.
  if (wrong.has(SETTINGS.webhooks.allow.key)) return;
  const policy = { allow: webhooks.allowList, ownNames: [], ownAddresses: [] };
  const verdict = judgeWebhookUrl(events.url, policy);
  if (verdict.kind === "refused") report(findings, url.key, `${url.key}: ${verdict.reason}`);
}

function report({ problems, sources }: Findings, key: string, message: string): void {
  problems.push({ key, source: sources.get(key) ?? "default", message });
}
