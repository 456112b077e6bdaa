import { resolve } from "node:path";

import { Cron } from "croner";

import { METRICS_TOKEN } from "../domain/account/credentials.ts";
import { WEBHOOK_SECRET } from "../domain/account/key.ts";
import { blockText, hasHostBits, parseAddress, parseBlock } from "../domain/address/address.ts";
import { HOST, parseHost } from "../domain/address/host-name.ts";
import { type ServerUrl, isUrlLike, parseServerUrl } from "../domain/address/server-url.ts";
import { type Parsed, type Rule, fault, quote, textRule } from "../domain/rule.ts";
import { hasControl } from "../domain/text.ts";

/** A rule of the configuration, which may also depend on the folder that relative paths are relative to. */
export interface SettingRule<T> extends Omit<Rule<T>, "parse"> {
  parse(raw: unknown, folder: string): Parsed<T>;
  /** The value as an operator may see it, if it can hold a secret. */
  shown?(value: T): unknown;
}

/** The path of a file or folder; the value is absolute. */
export const PATH: SettingRule<string> = {
  takes: "a path",
  hint: "PATH",
  form: "text",
  schema: { type: "string", minLength: 1 },
  parse(raw, folder) {
    if (typeof raw !== "string" || raw === "" || hasControl(raw)) {
      return fault(`must be a path, not ${quote(raw)}`);
    }
    // SQLite gives both spellings a special meaning; here they would become oddly named files.
    if (raw === ":memory:" || raw.startsWith("file:")) {
      return fault(`must be the path of a file on disk, not ${quote(raw)}`);
    }
    return { kind: "value", value: resolve(folder, raw) };
  },
};

/** The database: a file, or PostgreSQL. */
export interface DatabasePlace {
  /** For people: the absolute path of the file, or the URL without its password. */
  readonly shown: string;
  /** Null for a file. */
  readonly server: ServerUrl | null;
}

/** The path of a database file, or the URL of a database on a server; no fault of a URL repeats it. */
export const DATABASE: SettingRule<DatabasePlace> = {
  ...PATH,
  takes: "a path or a postgres:// URL",
  parse(raw, folder) {
    // SQLite's own kind of URL names a file, and PATH says so.
    if (typeof raw === "string" && isUrlLike(raw) && !raw.startsWith("file:")) {
      const parsed = parseServerUrl(raw);
      if (parsed.kind === "fault") return parsed;
      return { kind: "value", value: { shown: parsed.value.shown, server: parsed.value } };
    }
    const parsed = PATH.parse(raw, folder);
    if (parsed.kind === "fault") return parsed;
    return { kind: "value", value: { shown: parsed.value, server: null } };
  },
  shown: ({ shown }) => shown,
};

/** One setting: a key of `postbackd.toml`, a variable and, for some, a flag of the command line. */
export interface Setting<T = unknown> {
  /** Key in `postbackd.toml`, section first: `webhooks.timeout`. */
  readonly key: string;
  /** Flag without dashes, or null. The flag of a list is repeated. */
  readonly flag: string | null;
  /** True when the flag switches off a setting that is on: given, it means false. */
  readonly isOffFlag: boolean;
  readonly flagDescription: string;
  /** Name of the environment variable, which every setting has. A list is separated by commas. */
  readonly env: string;
  /** True where the same variable with `_FILE` behind it may name a file that holds the value: it may be a secret. */
  readonly mayBeInFile: boolean;
  /** False for the setting with the path of the file. */
  readonly inFile: boolean;
  readonly rule: SettingRule<T>;
  /** As in the file; null for no default. */
  readonly default: string | number | boolean | readonly string[] | null;
  /** One line for help texts, without a full stop. */
  readonly description: string;
}

type SettingRow = Pick<Setting, "default" | "description"> &
  Partial<Pick<Setting, "flag" | "isOffFlag" | "flagDescription" | "inFile" | "mayBeInFile">>;

/** Makes a setting of its key, its rule and the rest of its row; without a default its value may be null. */
export function setting<T>(
  key: string,
  rule: SettingRule<T>,
  row: SettingRow & { readonly default: null },
): Setting<T | null>;
export function setting<T>(key: string, rule: SettingRule<T>, row: SettingRow): Setting<T>;
export function setting<T>(key: string, rule: SettingRule<T>, row: SettingRow): Setting<T | null> {
  const { flag = null, isOffFlag = false } = row;
  return Object.freeze({
    inFile: true,
    mayBeInFile: false,
    flagDescription: row.description,
    ...row,
    key,
    flag,
    isOffFlag,
    env: envName(isOffFlag ? key : (flag ?? key)),
    rule: row.default === null ? orNone(rule) : rule,
  });
}

/** TOML has no null: only a default can be one. */
function orNone<T>(rule: SettingRule<T>): SettingRule<T | null> {
  const parse: SettingRule<T | null>["parse"] = (raw, folder) =>
    raw === null ? { kind: "value", value: null } : rule.parse(raw, folder);
  const { takes, hint, form, schema, shown } = rule;
  const all = { takes, hint, form, schema, parse };
  if (shown === undefined) return all;
  return { ...all, shown: (value) => (value === null ? null : shown(value)) };
}

/** `--allow-target` is POSTBACKD_ALLOW_TARGET, `log.level` is POSTBACKD_LOG_LEVEL. */
export function envName(name: string): string {
  return `POSTBACKD_${name.toUpperCase().replaceAll(/[.-]/g, "_")}`;
}

/**
 * An address or a name to listen on, without a port; IPv6 with or without brackets. Every host that is valid elsewhere
 * is valid here, and so is an address with a zone. An address stays as it was written, because the ready line repeats
 * it.
 */
export const LISTEN_HOST: Rule<string> = textRule({
  ...HOST,
  read(text) {
    const address = text.includes(":") ? text.replace(/^\[(.*)\]$/, "$1") : text;
    return parseAddress(address) === null ? parseHost(text) : address;
  },
});

/** An http or https URL with only scheme, host and port. */
export const ORIGIN: Rule<string> = textRule({
  takes: 'a URL without path, such as "https://postbackd.example.com"',
  hint: "URL",
  schema: { type: "string", format: "uri" },
  read(text) {
    const url = /^https?:\/\/[^\s\\]+$/i.test(text) ? URL.parse(text) : null;
    return url !== null && url.href === `${url.origin}/` ? url.origin : null;
  },
});

/** The address of a name server, with a port unless it is 53; IPv6 is then in brackets. */
export const NAME_SERVER: Rule<string> = textRule({
  takes: 'an address, with a port where it is not 53, such as "192.0.2.53" or "[::1]:5353"',
  hint: "ADDRESS",
  schema: { type: "string" },
  read(text) {
    const [, bracketed, plain, port = "53"] =
      /^(?:\[([^\]]*)\]|([^:]*))(?::(\d{1,5}))?$/.exec(text) ?? [];
    const isPort = Number(port) >= 1 && Number(port) <= 65_535;
    return parseAddress(bracketed ?? plain ?? text) !== null && isPort ? text : null;
  },
});

/** An address or a name to listen on, with its port; IPv6 in brackets. */
export const LISTEN_ADDRESS: Rule<string> = textRule({
  takes: 'an address with its port, such as "127.0.0.1:9464" or "[::1]:9464"',
  hint: "ADDRESS",
  schema: { type: "string" },
  read(text) {
    const [, host, port = ""] = /^(\[[^\]]*\]|[^:]*):(\d{1,5})$/.exec(text) ?? [];
    if (host === undefined || Number(port) > 65_535) return null;
    return LISTEN_HOST.parse(host).kind === "value" ? text : null;
  },
});

/** A network in CIDR form, or one address. */
export const NETWORK: Rule<string> = textRule({
  takes: 'a network such as "10.0.0.0/8" or "fd00::/8"',
  hint: "CIDR",
  schema: { type: "string" },
  read(text) {
    const block = parseBlock(text);
    return block === null || hasHostBits(block) ? null : text;
  },
  // 10.1.2.3/8 may mean one machine or all of 10.0.0.0/8, and so wide a trust must not be guessed.
  mistake(raw) {
    const block = typeof raw === "string" ? parseBlock(raw) : null;
    if (block === null) return null;
    return `has bits set after its prefix: for ${quote(raw)} write "${blockText(block)}"`;
  },
});

/** A pattern of five fields as cron has them (minute, hour, day, month, day of the week), in UTC, that names a time. */
export const SCHEDULE: Rule<string> = textRule({
  takes: "five fields as in a crontab, such as '0 3 * * *', that name a time",
  hint: "CRON",
  schema: { type: "string" },
  read(text) {
    const pattern = text.trim().replaceAll(/\s+/g, " ");
    return pattern.split(" ").length === 5 && hasTime(pattern) ? pattern : null;
  },
});

// 31 February never comes, whenever the search begins.
const ANY_DAY = new Date(0);

function hasTime(pattern: string): boolean {
  try {
    return new Cron(pattern, { utcOffset: 0, paused: true }).nextRun(ANY_DAY) !== null;
  } catch {
    return false;
  }
}

/** A webhook URL, which is judged once it is known what may be reached. All that is behind its host may be a secret. */
export const EVENTS_URL: SettingRule<string> = {
  ...textRule({
    takes: "an http or https URL, without control characters",
    hint: "URL",
    schema: { type: "string", format: "uri" },
    isSecret: true,
    read: (text) => (text !== "" && !hasControl(text) ? text : null),
  }),
  shown: (url) => `${URL.parse(url)?.origin ?? ""}/…`,
};

/** The secret of the operator's own webhooks, in the form of an account's. */
export const EVENTS_SECRET: SettingRule<string> = { ...WEBHOOK_SECRET, shown: () => "…" };

/** The token of metrics, which is never shown. */
export const SHOWN_METRICS_TOKEN: SettingRule<string> = { ...METRICS_TOKEN, shown: () => "…" };
