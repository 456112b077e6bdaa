import { resolve } from "node:path";

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
