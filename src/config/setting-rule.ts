import { resolve } from "node:path";

import { isUrlLike, parseServerUrl, type ServerUrl } from "../domain/address/server-url.ts";
import { fault, quote, type Parsed, type Rule } from "../domain/rule.ts";
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

/** Where the data is kept: in a file, or by a server. */
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
